"""A group is waited for from outside: without consumers, and after another process has taken the membership."""

from __future__ import annotations

from collections.abc import Generator
from types import SimpleNamespace
from typing import Any, TypeVar, cast

import pytest

from samerack.agent.group_status import FENCED, OUTSIDE, STANDBY, WAITING
from samerack.agent.leading.group_reporter import GroupReporter
from samerack.agent.leading.parts import GroupParts
from samerack.agent.leading.responsibility import MISSING, Responsibility
from samerack.agent.metrics import Metrics
from samerack.cluster.group import GroupView
from samerack.cluster.group_poller import GroupPoll
from samerack.common.shared_threads import Rest
from samerack.election.leadership_state import LeadershipState
from samerack.settings.all_settings import Settings
from tests.unit.agent.leading.scripted import reporter_of
from tests.unit.agent.values import cluster, group, member

_T = TypeVar("_T")
SETTINGS = Settings(kafka={"bootstrap.servers": "h:1"})
OWN = member("samerack-1", instance_id=SETTINGS.leading.instance_id)
CONSUMER = member("c-1", "clicks")


class _Polls:
    """Describes the group once a second, and wakes whoever waits; the last poll stays, and none is no description."""

    def __init__(self, *views: GroupView) -> None:
        self.now = 0.0
        self.empty_at: list[float | None] = []
        self._polls = [GroupPoll(view=view) for view in views]

    def watch(self, _: str, listener: Any, *, empty_at: float | None) -> None:
        self._wake = listener
        self.empty_at.append(empty_at)

    def unwatch(self, _: str) -> None:
        pass

    def latest(self, _: str) -> GroupPoll | None:
        self._wake()
        self.now += 1
        return (self._polls.pop(0) if len(self._polls) > 1 else self._polls[0]) if self._polls else None


def _no_wake() -> None:
    pass


def _finished(waiting: Generator[Rest, None, _T]) -> _T:
    """What a wait returns, whose pauses are over at once."""
    while True:
        try:
            next(waiting)
        except StopIteration as ended:
            return cast(_T, ended.value)


def _responsibility(
    polls: Any, reporter: GroupReporter, leadership: LeadershipState | None = None, **given: Any
) -> Responsibility:
    """The responsibility of an agent that must make no membership."""
    unused: dict[str, Any] = dict.fromkeys(
        ("assigning", "evaluator", "evictions", "position", "takeovers", "requests", "watch")
    )
    parts = GroupParts(
        group="orders",
        reporter=reporter,
        settings=SETTINGS,
        admission=cast(Any, SimpleNamespace(admits=lambda _: True)),
        **unused,
    )
    return Responsibility(
        parts,
        leadership=leadership or LeadershipState(),
        poller=polls,
        new_membership=lambda: pytest.fail("a membership was made"),
        prepare=lambda: None,
        **given,
    )


@pytest.mark.parametrize(
    ("views", "shown"),
    [
        ([group(state="Dead"), group(state="Dead")], [(WAITING, "Dead", MISSING)]),
        ([group(state="Dead"), group(state="Empty")], [(WAITING, "Empty", "")]),
        ([group(CONSUMER)], []),
    ],
    ids=["does not exist", "is seen", "has consumers"],
)
def test_a_group_without_consumers_is_waited_for(
    views: list[GroupView], shown: list[tuple[str, str, str]], capsys: pytest.CaptureFixture[str]
) -> None:
    """A name that does not exist is warned of, and in status and metrics until it is seen; consumers end the wait."""
    metrics, polls = Metrics(), _Polls(*views)
    waiting = _responsibility(polls, reporter_of(metrics=metrics, cluster=cluster()))
    _finished(waiting.wait_for_consumers(_no_wake, lambda: polls.now < len(views)))
    assert [(one.role, one.state, one.why) for one in metrics.board.all()] == shown
    assert capsys.readouterr().out.count(MISSING) == any(view.state == "Dead" for view in views)
    missing = metrics.registry.get_sample_value("samerack_group_reason", {"group": "orders", "why": MISSING})
    assert missing == (1 if MISSING in [why for *_, why in shown] else None)


def test_a_standby_keeps_the_time_when_a_group_was_empty_until_it_is_elected() -> None:
    """Several agents find a new group by its pattern at about the same time; the poller needs that time once."""
    polls = _Polls(group(CONSUMER))
    waiting = _responsibility(polls, reporter_of(), empty_at=5.0)
    assert _finished(waiting.wait_for_consumers(_no_wake, lambda: False)) is None
    for _ in range(2):
        _finished(waiting.wait_for_consumers(_no_wake, lambda: True))
    assert polls.empty_at == [5.0, None]


# fenced


class _Elected(LeadershipState):
    """An election that gave this agent its responsibilities."""

    term = 1
    active = True
    sure = True

    def is_active(self, _: str) -> bool:
        return self.active

    def is_surely_active(self, _: str) -> bool:
        return self.active and self.sure


class _Fenced:
    """A responsibility whose membership has just been taken."""

    def __init__(self, leadership: LeadershipState) -> None:
        self.now = 0.0
        self.reporter = reporter_of()
        self.poller = SimpleNamespace()
        self.responsibility = _responsibility(self.poller, self.reporter, leadership, clock=lambda: self.now)
        assert self.responsibility.is_active()
        self.fence()

    def fence(self) -> None:
        """Another process takes the membership."""
        self.responsibility.fence()
        self.reporter.is_fenced()
        assert (self.responsibility.is_active(), self.reporter.role) == (False, FENCED)

    def returns_after(self, seconds: float, *views: GroupView) -> float | None:
        """The seconds after which it returns within this time, while the group looks like this."""
        polls, began = _Polls(*views), self.now
        self.poller.watch, self.poller.latest, self.poller.unwatch = polls.watch, polls.latest, polls.unwatch

        def is_over() -> bool:
            self.now = began + polls.now
            return polls.now >= seconds

        _finished(self.responsibility.wait_fenced(_no_wake, is_over))
        if self.reporter.role == FENCED:
            return None
        assert (self.responsibility.is_active(), self.reporter.role) == (True, OUTSIDE)
        return polls.now


@pytest.mark.parametrize("views", [[group(OWN, CONSUMER)], []], ids=["is a member still", "cannot be described"])
def test_one_that_was_fenced_returns_as_the_election_holds(views: list[GroupView]) -> None:
    """Brokers that lost a group's latest state keep the former member id, which belongs to no process any more."""
    assert _Fenced(_Elected()).returns_after(60, *views)


def test_two_elections_with_one_instance_id_do_not_fence_each_other_for_ever() -> None:
    """Both agents are sure of their own election: one that is fenced again waits for the place, or an election."""
    leadership = _Elected()
    fenced = _Fenced(leadership)
    assert fenced.returns_after(60, group(OWN, CONSUMER))
    fenced.fence()
    assert not fenced.returns_after(7200, group(OWN, CONSUMER))
    assert not fenced.returns_after(7200)
    assert fenced.returns_after(60, group(OWN, CONSUMER), group(CONSUMER))
    fenced.fence()
    leadership.term += 1
    assert fenced.responsibility.is_active()


def test_a_fenced_agent_says_what_to_correct() -> None:
    """The metric `samerack_group_reason`, the page and `/readyz` have the cure, and the event too."""
    fenced = _Fenced(_Elected())
    (status,) = fenced.reporter.metrics.board.all()
    assert "leading.instance_id" in status.why
    (event,) = fenced.reporter.events.latest(kinds=["back-off"])
    assert "leading.instance_id" in event.detail
    assert fenced.returns_after(60, group(CONSUMER))
    (status,) = fenced.reporter.metrics.board.all()
    assert (status.role, status.why) == (OUTSIDE, "")


def test_the_pauses_become_longer() -> None:
    """Agents with one instance id that come and go take the membership from each other ever more rarely."""
    fenced = _Fenced(_Elected())
    pauses = []
    for _ in range(8):
        pauses.append(fenced.returns_after(10_000, group(CONSUMER)))
        fenced.fence()
    assert pauses == pytest.approx([10, 20, 40, 80, 160, 320, 600, 600], abs=1)


@pytest.mark.parametrize(("active", "sure"), [(True, False), (False, False)])
def test_one_that_cannot_be_sure_stays_out(*, active: bool, sure: bool) -> None:
    """Another agent may have been elected meanwhile, and is that member then."""
    leadership = _Elected()
    fenced = _Fenced(leadership)
    leadership.active, leadership.sure = active, sure
    assert not fenced.returns_after(100, group(OWN, CONSUMER))


def test_without_an_election_it_returns_when_the_other_has_left() -> None:
    """Only the group itself shows whether there is another agent with the instance id."""
    fenced = _Fenced(LeadershipState())
    assert not fenced.returns_after(100, group(OWN, CONSUMER))
    assert not fenced.returns_after(100)
    assert fenced.returns_after(100, group(OWN, CONSUMER), group(CONSUMER))


def test_a_new_election_ends_the_pause() -> None:
    """The agent that took the membership is gone: nobody else would lead the group."""
    leadership = _Elected()
    fenced = _Fenced(leadership)
    leadership.active = False
    leadership.term = 2
    assert (fenced.responsibility.is_active(), fenced.reporter.role) == (False, STANDBY)
    leadership.active = True
    leadership.term = 3
    assert not fenced.responsibility.is_fenced
    assert fenced.responsibility.is_active()
