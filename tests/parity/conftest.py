"""One Java peer for all tests of this package."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tests import effort
from tests.parity.peer import Peer

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session", autouse=True)
def _quick_java() -> Iterator[None]:
    """Lets Java compile quickly, with little optimisation: in a tenth of the cases nothing else pays for itself."""
    with pytest.MonkeyPatch.context() as patch:
        if not effort.ALL:
            patch.setitem(os.environ, "JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1")
        yield


@pytest.fixture(scope="session")
def peer() -> Iterator[Peer]:
    """Kafka's own assignors."""
    with Peer() as running:
        yield running
