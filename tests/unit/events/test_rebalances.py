"""Rebalances as a member and polls from outside see them: each is reported once, with its cause."""

from __future__ import annotations

from typing import Any

import pytest

from samerack.events import Event, EventLog
from samerack.events.rebalance_tracker import RebalanceTracker
from samerack.events.rebalances import LedPlan, Rebalances
from tests.unit.events.test_cause import TWO, one, snapshot

ONE = snapshot(one("a", 0, 1, 2, 3))


class Group:
    """The rebalances of one group, with a clock of their own."""

    def __init__(self, events: EventLog | None = None) -> None:
        self.now = 100.0
        self.events = events or EventLog(clock=lambda: 1_000.0 + self.now)
        self.rebalances: Rebalances = RebalanceTracker(self.events, clock=lambda: self.now).of("orders")

    def recorded(self) -> list[Event]:
        """All events, the oldest first."""
        return list(reversed(self.events.latest()))

    def fields_of(self, *names: str) -> list[tuple[Any, ...]]:
        """These fields of each event."""
        return [tuple(getattr(event, name) for name in names) for event in self.recorded()]

    def led(self, generation: int, plan: Any = TWO, *, seconds: float = 1.0) -> None:
        """Let the agent lead a rebalance with this assignment as its result."""
        self.rebalances.begins(self.now)
        self.now += seconds
        given = LedPlan(snapshot=plan, share_before=0.5, share_after=0.25, assignor="optimal", failure="")
        self.rebalances.joined(generation, self.now, plan=given)
        self.now += 10

    def enter(self, generation: int) -> None:
        """Let the agent join as a new member and lead."""
        self.rebalances.enters()
        self.rebalances.begins(self.now, agent_reason="joined")
        self.led(generation)


def test_each_generation_is_reported_once_with_cause_duration_and_cost() -> None:
    """The agent joins, a member leaves, and the agent asks for another assignment: each is reported once."""
    group = Group()
    group.enter(7)
    group.led(8, ONE, seconds=2.0)
    group.rebalances.begins(group.now, agent_reason="racks-changed")
    group.led(9, ONE)
    assert group.fields_of("generation", "cause", "reason", "missed") == [
        (7, "agent", "joined", 0),
        (8, "member-gone", "", 0),
        (9, "agent", "racks-changed", 0),
    ]
    left = group.recorded()[1]
    assert (left.seconds, left.pause_seconds, left.moved, left.left) == (2.0, 2.0, 2, ("client-b",))
    assert (left.share_before, left.share_after, left.assignor) == (0.5, 0.25, "optimal")
    assert left.at == pytest.approx(1_113.0)


def test_the_same_generation_is_no_rebalance() -> None:
    """A new place in the broker's order, and the return of a static member, keep the generation."""
    group = Group()
    group.enter(7)
    group.rebalances.begins(group.now)
    group.rebalances.joined(7, group.now)
    group.now += 5
    group.led(8)
    assert group.fields_of("generation", "seconds") == [(7, 1.0), (8, 1.0)]


def test_an_agent_that_was_thrown_out_says_so() -> None:
    """The evicted agent did not see the rebalance without it, and caused the next one by joining again."""
    group = Group()
    group.enter(7)
    group.rebalances.loses(group.now)
    group.led(9)
    assert group.fields_of("generation", "cause", "reason", "missed")[1:] == [(9, "agent", "joined again", 1)]


def test_a_rebalance_that_was_overtaken_is_reported_with_what_overtook_it() -> None:
    """A member that leaves before its assignment causes two generations; other members see only the second."""
    group = Group()
    group.enter(7)
    group.rebalances.begins(group.now)
    group.rebalances.meets({"a": "client-a", "c": "client-c"})
    group.led(9)
    assert group.fields_of("generation", "cause", "joined", "missed")[1:] == [
        (8, "member-joined", (), 0),
        (9, "member-joined", ("client-c",), 0),
    ]


def test_a_restarted_agent_goes_on_from_what_is_kept() -> None:
    """In the same place with the same generation there is no rebalance; else the missed ones are counted."""
    group = Group()
    group.enter(7)
    for generation, recorded in ((7, []), (10, [(10, "agent", 2)])):
        after = Group(EventLog())
        after.events.remember(group.recorded())
        after.rebalances.enters()
        after.rebalances.begins(after.now, agent_reason="" if generation == 7 else "joined")
        after.rebalances.joined(generation, after.now, quiet=generation == 7)
        after.rebalances.stable(TWO, after.now, share=0.5)
        assert after.fields_of("generation", "cause", "missed")[1:] == recorded


def test_a_place_that_is_taken_up_without_knowing_of_former_times_is_no_rebalance() -> None:
    """A stable group that has the agent's instance id does not rebalance when the agent returns."""
    group = Group()
    group.rebalances.enters()
    group.rebalances.begins(group.now)
    group.rebalances.joined(12, group.now, quiet=True)
    group.rebalances.stable(TWO, group.now)
    assert group.recorded() == []


def test_what_was_begun_and_came_to_nothing_is_forgotten() -> None:
    """A request that caused no rebalance is neither the cause nor the start of the next one."""
    group = Group()
    group.enter(7)
    group.rebalances.begins(group.now, agent_reason="takeover")
    group.rebalances.stable(TWO, group.now + 1)
    group.rebalances.stable(TWO, group.now + 3)
    group.now += 1_000
    group.led(8, ONE)
    assert group.fields_of("generation", "cause", "seconds")[1:] == [(8, "member-gone", 1.0)]


def test_as_a_follower_the_outcome_is_polled() -> None:
    """A follower reports a rebalance with the first poll that has the share, or with the second poll."""
    group = Group()
    group.enter(7)
    for generation, share in ((8, 0.4), (9, None)):
        group.rebalances.begins(group.now)
        group.now += 1
        group.rebalances.joined(generation, group.now)
        group.rebalances.stable(ONE, group.now)
        assert len(group.recorded()) == generation - 7
        group.rebalances.stable(ONE, group.now, share=share)
    assert group.fields_of("generation", "cause", "share_after")[1:] == [(8, "member-gone", 0.4), (9, "leader", None)]


def test_a_rebalance_that_another_overtakes_is_reported_all_the_same() -> None:
    """A rebalance is reported even if the next one starts before its outcome is polled."""
    group = Group()
    group.enter(7)
    for generation in (8, 9):
        group.rebalances.begins(group.now)
        group.rebalances.joined(generation, group.now)
    group.rebalances.stable(TWO, group.now, share=0.0)
    assert group.fields_of("generation", "cause")[1:] == [(8, "unknown"), (9, "leader")]


def test_polls_from_outside_that_differ_are_a_rebalance() -> None:
    """Two different polls are a rebalance, with its duration and passing members if a poll fell into it."""
    group = Group()
    rebalances = group.rebalances
    rebalances.stable(TWO, 100.0, share=0.5)
    rebalances.stable(TWO, 105.0)
    rebalances.stable(ONE, 110.0, share=0.2)
    rebalances.moving({"a": "client-a", "c": "client-c"}, 115.0)
    rebalances.moving({"a": "client-a"}, 117.0)
    rebalances.stable(ONE, 120.0)
    assert group.fields_of("cause", "seconds", "joined", "left", "share_before") == [
        ("member-gone", None, (), ("client-b",), 0.5),
        ("member-joined", 5.0, ("client-c",), (), 0.2),
    ]


def test_while_the_agent_is_a_member_measuring_is_not_handled() -> None:
    """Measurements during the agent's membership are ignored: they would report the same rebalance twice."""
    group = Group()
    group.enter(7)
    group.rebalances.stable(ONE, group.now, measured=True)
    group.rebalances.moving({}, group.now, measured=True)
    assert len(group.recorded()) == 1


def test_what_was_polled_before_the_agent_left_does_not_count() -> None:
    """The rebalance that the agent causes by leaving has the agent as its cause."""
    group = Group()
    group.enter(7)
    group.rebalances.leaves(group.now)
    group.rebalances.begins(group.now, agent_reason="left")
    group.rebalances.stable(TWO, group.now - 1, measured=True)
    assert len(group.recorded()) == 1
    group.rebalances.stable(TWO, group.now + 1, measured=True)
    assert group.fields_of("cause", "reason", "generation")[1:] == [("agent", "left", None)]
    group.rebalances.stable(ONE, group.now + 0.5)
    assert len(group.recorded()) == 2, "one that polls from outside is enough"


def test_a_group_first_seen_in_a_rebalance_has_its_next_one_recorded() -> None:
    """The rebalance under way at the first poll is not reported, since its start is unknown; the next one is."""
    group = Group()
    group.rebalances.moving({"a": "client-a"}, 100.0, measured=True)
    group.rebalances.stable(ONE, 100.5, measured=True)
    group.rebalances.moving({"a": "client-a", "b": "client-b"}, 101.0, measured=True)
    group.rebalances.stable(TWO, 102.0, measured=True)
    assert group.fields_of("cause", "joined", "seconds") == [("member-joined", ("client-b",), 1.0)]
