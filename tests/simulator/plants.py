"""Mistakes that the agent makes on purpose, to see that the simulator finds them; each is switched on for a while.

What must not enter: anything that changes how worlds are judged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from importlib import import_module
from typing import Any, Final
from unittest import mock

from agent.leading import admission, planner
from agent.leading.assigning import Assigning
from agent.leading.policy import budget
from agent.leading.seat import Seat
from agent.leading.session import Session
from tests.simulator.membership import SimulatedMembership


@contextmanager
def one_phase() -> Iterator[None]:
    """A cooperative plan takes partitions from one member and gives them to another in the same round."""
    with (
        mock.patch.object(planner, "withhold", lambda _problem, final: final),
        mock.patch.object(planner, "check", return_value=None),
    ):
        yield


@contextmanager
def pending_forever() -> Iterator[None]:
    """Of the member ids that were reserved for a choice, those that are not chosen are never released."""
    enter = Seat.enter

    def keep_all(self: Seat, membership: Any, look: Any) -> None:
        with mock.patch.object(SimulatedMembership, "release", return_value=None):
            enter(self, membership, look)

    with mock.patch.object(Seat, "enter", keep_all):
        yield


@contextmanager
def every_look_believed() -> Iterator[None]:
    """Who leads believes also looks of a former generation, which a new coordinator shows at first."""
    with mock.patch.object(Assigning, "may_be_of", return_value=True):
        yield


@contextmanager
def no_budget() -> Iterator[None]:
    """The budget of rebalances is not asked."""
    with mock.patch.object(budget, "refusal", return_value=None):
        yield


@contextmanager
def stays() -> Iterator[None]:
    """The agent does not leave when it ends."""
    with mock.patch.object(Session, "leave", return_value=None):
        yield


@contextmanager
def deaf_to_partitions() -> Iterator[None]:
    """Who leads does not see that the topic has grown."""
    with mock.patch.object(planner, "partitions_changed", return_value=False):
        yield


@contextmanager
def joins_anything() -> Iterator[None]:
    """No group is refused by the look of it."""
    with mock.patch.object(admission, "refusal", return_value=""):
        yield


@contextmanager
def asleep() -> Iterator[None]:
    """Who leads never finds a rebalance worth it."""
    ladder = import_module("agent.leading.policy.decide")
    with mock.patch.object(ladder, "TOLERANCE", 2.0):
        yield


PLANTS: Final[dict[str, Callable[[], AbstractContextManager[None]]]] = {
    "": nullcontext,
    "one-phase": one_phase,
    "pending-forever": pending_forever,
    "every-look-believed": every_look_believed,
    "no-budget": no_budget,
    "stays": stays,
    "deaf-to-partitions": deaf_to_partitions,
    "joins-anything": joins_anything,
    "asleep": asleep,
}
"""By name; the empty one is none."""
