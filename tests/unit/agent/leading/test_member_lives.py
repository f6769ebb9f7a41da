"""Which members may be away, by their commits, their ids and the time that their session would have ended."""

from __future__ import annotations

from dataclasses import replace

import pytest

from samerack.agent.leading.rebalance_evaluator import MemberLives
from samerack.agent.policy import Action, Reason
from samerack.cluster.group import GroupView
from samerack.protocol.values import from_pairs
from tests.unit.agent.leading.bench import Bench
from tests.unit.agent.values import group, member

COORDINATOR = object()


def _view(a: str = "a-1", b: str = "b-1", *, static: bool = False) -> GroupView:
    return group(
        *(
            member(one, "t", assigned=from_pairs([("t", number)]), instance_id=one[0] if static else None)
            for number, one in enumerate((a, b))
        )
    )


class _Story:
    """A group of two members in which a rebalance is wanted, second by second."""

    def __init__(self, view: GroupView | None = None, session_seconds: float = 45.0) -> None:
        self.lives, self.now, self.view = MemberLives(session_seconds), 100.0, view or _view()
        self.lives.sees(self.view, COORDINATOR, self.now)
        self.offsets = {("t", 0): 0, ("t", 1): 0}
        self.now += 1000.0

    def goes_after(self, seconds: int, *, a: int = 0, b: int = 0, wanted: bool = True) -> int | None:
        """The first second at which the rebalance may go; the members commit every `a` and `b` seconds, 0: never."""
        for second in range(seconds):
            for partition, every in enumerate((a, b)):
                if every and second % every == 0:
                    self.offsets["t", partition] += 1
            if self.lives.away_until(self.now) <= self.now:
                return second
            if wanted:
                self.lives.decided(self.now, waits=True)
                if self.lives.awaits_commits(self.now):
                    self.lives.asked(self.now, self.now, dict(self.offsets))
            self.now += 1.0
        return None


@pytest.mark.parametrize(
    ("a", "b", "after"),
    [(1, 1, 3), (5, 5, 7), (5, 3, 7), (30, 30, 61), (0, 0, 46), (1, 0, 91), (3600, 3600, 46)],
)
def test_a_rebalance_goes_as_soon_as_everybody_has_shown_life(a: int, b: int, after: int) -> None:
    """Members that commit every few seconds are waited for so long, and those that never do for a whole session."""
    seconds = _Story().goes_after(200, a=a, b=b)
    assert seconds is not None
    assert seconds <= after
    assert seconds >= min(a, b, 1)


def test_a_member_that_died_before_is_waited_for_until_its_session_ends() -> None:
    """Nobody commits its partitions; whatever others commit, nothing goes until the coordinator removes it."""
    story = _Story()
    assert story.goes_after(40, a=1) is None
    story.lives.sees(group(story.view.members[0]), COORDINATOR, story.now)
    assert story.goes_after(3, a=1) == 0


def test_a_member_that_stops_to_commit_is_waited_for() -> None:
    """It showed life, and is silent then: it may have died after that, so its session counts from its last commit."""
    story = _Story()
    assert story.goes_after(2) is None
    story.offsets["t", 1] += 1
    assert story.goes_after(20) is None
    assert story.goes_after(60, a=1) == 32


def test_while_static_members_return_nothing_goes() -> None:
    """A rolling restart goes on: the next member may be about to stop although all commit."""
    story = _Story(_view(static=True))
    story.lives.sees(_view(a="a-2", static=True), COORDINATOR, story.now)
    assert story.goes_after(20, a=1, b=1) is None
    story.lives.sees(_view(a="a-2", b="b-2", static=True), COORDINATOR, story.now)
    assert story.goes_after(100, a=1, b=1) == 45


def test_a_new_coordinator_starts_sessions_anew() -> None:
    """A dead member has its whole session before it again, and so has the wait."""
    story = _Story()
    assert story.goes_after(40) is None
    story.lives.sees(story.view, object(), story.now)
    assert story.goes_after(44) is None
    assert story.goes_after(10) in (1, 2)


def test_a_wait_ends_when_the_rebalance_is_not_wanted_any_more() -> None:
    """What was seen before is no proof for a later rebalance."""
    story = _Story()
    assert story.goes_after(40, a=1, b=1) is not None
    story.now += 30.0
    assert story.goes_after(2, a=1, b=1) is None
    story = _Story()
    assert story.goes_after(2, a=1, b=1) is None
    story.lives.decided(story.now, waits=False)
    assert story.lives.away_until(story.now) == story.now + 45.0


def test_commits_are_asked_for_only_while_they_are_needed() -> None:
    """Nothing is asked while nothing is wanted, and a slow answer is asked for more rarely."""
    lives = MemberLives(45.0)
    lives.sees(_view(), COORDINATOR, 100.0)
    assert not lives.awaits_commits(100.0)
    lives.decided(100.0, waits=True)
    assert lives.awaits_commits(100.0)
    lives.asked(100.0, 100.3, {})
    lives.decided(102.0, waits=True)
    assert not lives.awaits_commits(102.0)
    lives.decided(103.0, waits=True)
    assert lives.awaits_commits(103.0)
    assert not lives.awaits_commits(105.0)


def test_commits_that_fail_show_no_life() -> None:
    """The last answer stays the one to compare with, so that a commit counts from then."""
    lives = MemberLives(45.0)
    lives.sees(_view(), COORDINATOR, 90.0)
    for at in range(100, 112):
        lives.decided(float(at), waits=True)
        lives.asked(float(at), float(at), {("t", 0): 1, ("t", 1): 1} if at == 100 else None)
    assert lives.away_until(111.0) == 145.0
    lives.asked(111.0, 111.0, {("t", 0): 2, ("t", 1): 2})
    assert lives.away_until(111.0) == 153.0


def test_a_rebalance_waits_for_signs_of_life() -> None:
    """The decision has the worst case as pause and the end of the wait; no token is spent on it."""
    bench = Bench()
    view = replace(_view(), members=bench.evaluation().view.members)
    bench.evaluator.lives.sees(view, COORDINATOR, bench.now)
    bench.now += 500.0
    decision, _ = bench.decide()
    assert (decision.action, decision.reason) == (Action.SUPPRESS, Reason.MEMBER_MAY_BE_AWAY)
    assert (decision.pause_seconds, bench.evaluator.tokens) == (45.0, 3.0)
    bench.now += 9.0
    assert bench.decide()[0].pause_seconds == 36.0
    for second in range(40):
        bench.now += 1.0
        if bench.decide()[0].action is Action.REBALANCE:
            assert second == 35
            return
    pytest.fail("never")
