"""Our `sticky` compared with Kafka's over histories of random groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests import effort
from tests.parity.cases import FAMILIES
from tests.parity.walks import Walk, walk

if TYPE_CHECKING:
    from tests.parity.peer import Peer

pytestmark = [pytest.mark.parity, pytest.mark.timeout(300)]  # Maven may have to build the peer for the first test

SEEDS = range(effort.of(40, minimum=len(FAMILIES)))
"""Random groups take turns by family."""


def test_no_plan_of_a_history_is_worse_than_kafkas(peer: Peer) -> None:
    """No plan is worse in (balance, cross-rack, moves); topics are spread no worse if these are equal, else rarely."""
    counted = Walk()
    for seed in SEEDS:
        counted.add(walk(peer, seed, "sticky"))
    assert counted.plans > 20 * len(SEEDS)
    assert (counted.worse, counted.equal_lumpier) == (0, 0)
    assert counted.better_lumpier < 0.01 * counted.plans
