"""An agent whose membership another process has taken: how long it stays out, and what lets it return."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any, cast

import pytest

from samerack.agent.leading.consumer_wait import ConsumerWait
from samerack.agent.leading.group_reporter import GroupReporter
from samerack.agent.leading.parts import GroupParts
from samerack.agent.leading.responsibility import Responsibility
from samerack.agent.leading.roles import FENCED, OUTSIDE, STANDBY
from samerack.agent.metrics import Metrics
from samerack.cluster.group import GroupView
from samerack.cluster.group_poller import GroupPoll, GroupPoller
from samerack.common.settings import Settings
from samerack.election.leadership_state import Alone
from samerack.events import EventLog
from tests.unit.agent.values import group, member

SETTINGS = Settings(kafka={"bootstrap.servers": "h:1"})
OWN = member("samerack-1", instance_id=SETTINGS.leading.instance_id)
CONSUMER = member("c-1")


class Elected(Alone):
    """An election that gave this agent its responsibilities."""

    term = 1
    active = True
    sure = True

    def is_active(self, responsibility: str) -> bool:  # noqa: ARG002 - whatever it is
        """As the election says."""
        return self.active

    def is_surely_active(self, responsibility: str) -> bool:  # noqa: ARG002 - whatever it is
        """As the election says, while it certainly holds."""
        return self.active and self.sure


class Clock:
    """Seconds that a test sets."""

    now = 0.0

    def __call__(self) -> float:
        """The present second."""
        return self.now


class Fenced:
    """A responsibility whose membership has just been taken."""

    def __init__(self, leadership: Alone) -> None:
        self.clock = Clock()
        self.reporter = GroupReporter(group="orders", settings=SETTINGS, metrics=Metrics(), events=EventLog())
        self.responsibility = Responsibility(
            "orders", leadership, self.reporter, prepare=lambda: None, clock=self.clock
        )
        assert self.responsibility.is_active()
        self.fence()

    def fence(self) -> None:
        """Another process takes the membership."""
        self.responsibility.fence()
        self.reporter.is_fenced()
        assert (self.responsibility.is_active(), self.reporter.role) == (False, FENCED)

    def returns_after(self, seconds: float, *views: GroupView) -> bool:
        """Whether it returns within this time, while the group looks like this."""
        parts = SimpleNamespace(group="orders", reporter=self.reporter, settings=SETTINGS)
        poller = Polls(self.clock, *views)
        wait = ConsumerWait(cast(GroupParts, parts), cast(GroupPoller, poller), _joins_nothing)
        started = self.clock.now
        returned = wait.wait_fenced(
            threading.Event(),
            lambda: self.responsibility.is_fenced and self.clock.now < started + seconds,
            lambda is_free: self.responsibility.may_return(is_free=is_free),
        )
        if returned:
            self.responsibility.end_fence()
            assert (self.responsibility.is_active(), self.reporter.role) == (True, OUTSIDE)
        return returned


class Polls:
    """Describes the group once a second."""

    def __init__(self, clock: Clock, *views: GroupView) -> None:
        self._clock = clock
        self._polls = [GroupPoll(view=view) for view in views]

    def watch(self, _: str, listener: Any, **__: Any) -> None:
        """Wake the waiter whenever it waits."""
        self._wake = listener

    def unwatch(self, _: str) -> None:
        """Nothing to stop."""

    def latest(self, _: str) -> GroupPoll | None:
        """The next poll, the last one again and again; None while the group cannot be described."""
        self._wake()
        self._clock.now += 1
        if not self._polls:
            return None
        return self._polls.pop(0) if len(self._polls) > 1 else self._polls[0]


def _joins_nothing(_: object) -> Any:
    pytest.fail("a membership was made by an agent that is fenced")


def test_one_that_was_fenced_returns_as_the_election_holds() -> None:
    """Brokers that lost a group's latest state keep the former member id, which belongs to no process any more."""
    assert Fenced(Elected()).returns_after(60, group(OWN, CONSUMER))


def test_it_returns_as_the_election_holds_though_the_group_cannot_be_described() -> None:
    """The coordinator does not answer: the election is what counts."""
    assert Fenced(Elected()).returns_after(60)


def test_the_pauses_become_longer() -> None:
    """Two agents of two elections with one instance id take the membership from each other ever more rarely."""
    fenced = Fenced(Elected())
    pauses = []
    for _ in range(8):
        since = fenced.clock.now
        assert fenced.returns_after(10_000, group(OWN, CONSUMER))
        pauses.append(round(fenced.clock.now - since))
        fenced.fence()
    assert pauses == [10, 20, 40, 80, 160, 320, 600, 600]


@pytest.mark.parametrize(("active", "sure"), [(True, False), (False, False)])
def test_one_that_cannot_be_sure_stays_out(*, active: bool, sure: bool) -> None:
    """Another agent may have been elected meanwhile, and is that member then."""
    leadership = Elected()
    fenced = Fenced(leadership)
    leadership.active, leadership.sure = active, sure
    assert not fenced.returns_after(100, group(OWN, CONSUMER))


def test_without_an_election_it_returns_when_the_other_has_left() -> None:
    """Only the group itself shows whether there is another agent with the instance id."""
    fenced = Fenced(Alone())
    assert not fenced.returns_after(100, group(OWN, CONSUMER))
    assert not fenced.returns_after(100)
    assert fenced.returns_after(100, group(OWN, CONSUMER), group(CONSUMER))


def test_a_new_election_ends_the_pause() -> None:
    """The agent that took the membership is gone: nobody else would lead the group."""
    leadership = Elected()
    fenced = Fenced(leadership)
    leadership.active = False
    leadership.term = 2
    assert (fenced.responsibility.is_active(), fenced.reporter.role) == (False, STANDBY)
    leadership.active = True
    leadership.term = 3
    assert not fenced.responsibility.is_fenced
    assert fenced.responsibility.is_active()
