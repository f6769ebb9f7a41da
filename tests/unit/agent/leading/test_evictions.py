"""Who does not come back after an eviction: nobody is evicted in such a group again, over a restart too."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest

from samerack.agent.leading.evictions import Evictions
from samerack.agent.leading.group_memory import GroupMemory
from samerack.agent.leading.leader import OperatorRequests
from samerack.agent.leading.membership import Hold
from samerack.agent.leading.session import Session
from samerack.cluster.group import GroupView, MemberView
from samerack.events import EventLog
from tests.unit.agent.leading.scripted import reporter_of
from tests.unit.agent.values import group, member

AGENT = member("samerack-1", instance_id="samerack", client_id="samerack")
A, B, C, D = (member(f"{name}-1", client_id=name) for name in "abcd")
AGAIN = tuple(member(f"{name}-2", client_id=name) for name in "abc")


class Case:
    """The evictions of a group, with a clock and a file."""

    def __init__(self, path: Path) -> None:
        self.now = 100.0
        self.path = path
        self.events = EventLog()
        self.evictions = self.restarted()

    def restarted(self) -> Evictions:
        """What the agent's next process knows."""
        memory = GroupMemory(self.path, name="evicted")
        reporter = reporter_of(events=self.events)
        return Evictions(group="orders", memory=memory, reporter=reporter, clock=lambda: self.now)

    def evict(self, *evicted: MemberView, of: tuple[MemberView, ...] = (A, B, C)) -> None:
        """Evict some members of a group that forms."""
        self.evictions.begin((*of, AGENT), evicted)

    def see(self, *members: MemberView, after: float) -> str:
        """Describe the group after some seconds; return why nobody is evicted any more."""
        self.now += after
        self.evictions.see(view(*members))
        return self.evictions.reason


def view(*members: MemberView) -> GroupView:
    """The group with the agent in it."""
    return group(AGENT, *members, protocol="range")


@pytest.fixture
def case(tmp_path: Path) -> Case:
    """A group in which nobody was evicted."""
    return Case(tmp_path / "agent.evicted.json")


def test_members_that_come_back_may_be_evicted_again(case: Case) -> None:
    """kafka-go's are back after five seconds; a member that was not evicted and leaves meanwhile proves nothing."""
    case.evict(A, B, of=(A, B, C, D))
    assert case.see(C, after=0.2) == ""
    assert case.see(*AGAIN, after=5.0) == ""
    assert case.see(after=20.0) == ""
    assert (case.restarted().reason, case.events.latest()) == ("", ())


def test_a_group_whose_evicted_member_does_not_come_back_is_remembered(case: Case) -> None:
    """Three are evicted, two are back, the third has ended: said once, and known to the next process."""
    case.evict(A, B, C)
    assert case.see(*AGAIN[:2], after=8.9) == ""
    reason = case.see(*AGAIN[:2], after=0.2)
    assert reason.startswith("members (c) did not rejoin after the agent evicted them")
    assert "samerack resume orders" in reason
    assert case.see(*AGAIN, after=10.0) == case.restarted().reason == reason
    assert [(one.kind, one.action, one.reason) for one in case.events.latest()] == [
        ("back-off", "evicts nobody", reason)
    ]


def test_who_was_not_evicted_after_all_is_not_missed(case: Case) -> None:
    """The time for it was over when it was written: it has its id, however late the group is described."""
    case.evict(A, B)
    assert case.see(A, *AGAIN[1:2], C, after=0.2) == ""
    case.evict(A)
    case.evict(A)
    assert case.see(A, B, C, after=20.0) == case.restarted().reason == ""
    case.evict(A, B)
    assert case.see(A, C, after=10.0).startswith("members (b) did not")


def test_the_time_to_write_is_not_the_time_to_come_back(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that waits does so before the eviction."""

    def wait(*_: object) -> None:
        case.now += 8.0

    monkeypatch.setattr(case.evictions.memory, "keep", wait)
    case.evict(A)
    monkeypatch.undo()
    assert case.see(*AGAIN, after=8.0) == ""


def test_who_is_back_during_a_takeover_is_not_missed(case: Case) -> None:
    """After the release its rebalance may last for ten seconds more; before, no turn waits for a poll or a file."""
    parts: Any = MagicMock(clock=lambda: case.now, evictions=case.evictions)
    parts.admission.configure_mock(max_size=None, full="")
    member: Any = MagicMock(hold_state=Hold.HELD, fenced=False)
    member.join.return_value = False
    member.describe.return_value = view(*AGAIN)
    session = Session(parts, member, MagicMock(), seen_at=case.now)
    case.evict(A)
    session.turn()
    member.describe.assert_not_called()
    case.now += 3.0
    member.hold_state = Hold.NONE
    session.turn()
    assert case.see(*AGAIN, after=7.0) == case.restarted().reason == ""


def test_members_that_are_started_again_are_not_back(case: Case) -> None:
    """Kubernetes starts them again under the same names after ten seconds: seen late, they might be those."""
    case.evict(A, B, C)
    assert case.see(*AGAIN, after=10.0).startswith("members (a, b, c) did not")


def test_an_agent_that_is_alone_waits_no_longer(case: Case) -> None:
    """It has waited in the group for those that it had evicted; if it had evicted nobody, that says nothing."""
    case.evictions.ends_alone()
    assert case.evictions.reason == ""
    case.evict(*(member(name, client_id=name) for name in "vwxyz"))
    case.evictions.ends_alone()
    assert case.evictions.reason.startswith("members (v, w, x and 2 more) did not")


def test_an_eviction_is_remembered_by_the_process_after_one_that_was_killed(case: Case) -> None:
    """Whether its members came back nobody knows: one false proof costs less than another eviction."""
    case.evict(A)
    assert case.evictions.reason == ""
    assert case.restarted().reason.startswith("members (a) did not")


def test_an_operator_may_resume(case: Case) -> None:
    """`samerack resume` also forgets who did not come back, in the file too."""
    case.evict(A)
    case.evictions.ends_alone()
    parts: Any = SimpleNamespace(
        group="orders",
        evictions=case.evictions,
        requests=SimpleNamespace(end=lambda _: (), status=lambda *_: None, of=lambda *_: None),
        reporter=reporter_of(),
    )
    OperatorRequests(parts, wake=lambda: None).ask(None, seconds=None, by="", why="")
    assert case.evictions.reason == case.restarted().reason == ""
