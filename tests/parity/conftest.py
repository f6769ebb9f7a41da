"""One Java peer for all tests of this package."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.parity.peer import Peer

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def peer() -> Iterator[Peer]:
    """Kafka's own assignors."""
    with Peer() as running:
        yield running
