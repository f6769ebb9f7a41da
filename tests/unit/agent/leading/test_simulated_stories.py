"""The real leader in simulated worlds: no invariant is violated, and mistakes made on purpose are found.

A short run; `scripts/simulate --seeds 10000` is the long one.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import settings

from tests.simulator.agent import simulated
from tests.simulator.judgement import ViolationError
from tests.simulator.plants import PLANTS
from tests.simulator.story import tell

STORIES = max(8, settings().max_examples // 4)
MAX_SEEDS = 1000
_FOUND = [
    ("stays", "StaysAlone", 49),
    ("deaf-to-partitions", "Unread", 2),
    ("stays-alone", "StaysAlone", 3),
    ("plans-without-topics", "LeftOut", 2),
    ("joins-anything", "ForbiddenGroup", 3),
    ("deaf-to-the-end", "EndsLate", 1),
]
"""A mistake, what is violated by it, and the seed from which on it is searched."""
_FOUND_LATER = [
    ("one-phase", "OwnedTwice", 347),
    ("no-budget", "BeyondBudget", 77),
    ("pending-forever", "HotLoop", 101),
    ("plans-without-unreadable", "NeedlessLeave", 77),
    ("newest-metadata", "Unread", 9),
    ("follows-anybody", "LongRebalance", 75),
    ("asleep", "NotOptimal", 189),
    ("fewer-believed", "NeedlessRebalance", 77),
    ("reserves-long", "KeptPendingId", 85),
    ("refreshes-rejected", "TakenForRejected", 681),
    ("no-pauses", "HotLoop", 38),
    ("random-place", "RandomPlace", 181),
    ("errors-end-it", "NeedlessLeave", 98),
    ("looks-end-turns", "NeedlessLeave", 86),
    ("every-look-believed", "OutdatedLook", 69),
]
"""Mistakes that only a longer story shows: a second or more for each."""


@pytest.fixture(autouse=True)
def _simulation() -> Iterator[None]:
    """Leaders are built on simulated processes."""
    with simulated():
        yield


def _found(plant: str, first: int) -> ViolationError:
    """The violation that the simulator finds for a mistake."""
    with PLANTS[plant]():
        for number in range(first, first + MAX_SEEDS):
            try:
                tell(number, shorten=False)
            except ViolationError as violation:
                return violation
    pytest.fail(f"{plant} is not found")


def test_nothing_is_violated() -> None:
    """All invariants hold whatever happens to clients, agents and the cluster, and an hour later too."""
    tell(0, stories=STORIES)  # one run, because each begins with the simplest story, and with reading the rules


@pytest.mark.parametrize(
    ("plant", "kind", "first"), [*_FOUND, *(pytest.param(*one, marks=pytest.mark.extended) for one in _FOUND_LATER)]
)
def test_a_planted_mistake_is_found(plant: str, kind: str, first: int) -> None:
    """A mistake is found within a thousand seeds; the search starts where it was found, to take a second."""
    assert type(_found(plant, first)).__name__ == kind
