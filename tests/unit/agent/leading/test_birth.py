"""Leading a group from its first generation: which members are evicted while it forms, and when none is."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import structlog
from kafka import errors as kafka_errors

from samerack.agent.leading.birth import Birth, earliest_eviction, is_forming, safe_until
from samerack.cluster.group import GroupView, MemberView
from tests.unit.agent.values import member

AGENT = replace(member("samerack-1", instance_id="samerack", client_id="samerack"), subscription=None)
A, B, C, D = (replace(member(name), subscription=None) for name in "abcd")


def forming(*members: MemberView, state: str = "PreparingRebalance", kind: str = "consumer") -> GroupView:
    """A group before its first generation."""
    return GroupView(name="orders", state=state, protocol_type=kind, protocol="", members=members)


class _Presence:
    """A membership whose JoinGroup is parked; stores the evicted members."""

    group_instance_id = "samerack"

    def __init__(self, error: Exception | None = None) -> None:
        self.evicted: list[tuple[str, ...]] = []
        self.awaited_seconds = 0.0
        self._error = error

    def await_return(self, seconds: float) -> None:
        self.awaited_seconds = seconds

    def evict(self, *member_ids: str) -> None:
        self.evicted.append(member_ids)
        if self._error is not None:
            raise self._error


class Attempt:
    """A `Birth` with a clock, at a delay of 3 s."""

    def __init__(self, error: Exception | None = None) -> None:
        self.now = 100.0
        self.presence = _Presence(error)
        log: Any = structlog.get_logger()
        self.birth = Birth(
            begin=100.0, until=safe_until(99.5, 3.0), clock=lambda: self.now, log=log, own_client_id="samerack"
        )

    def turn(self, *members: MemberView, state: str = "PreparingRebalance") -> bool:
        """Poll the group once."""
        membership: Any = self.presence
        return self.birth.turn(membership, forming(*members, state=state))


@pytest.mark.parametrize(
    ("view", "forms"),
    [
        (forming(A), True),
        (forming(A, B), True),
        (forming(), False),
        (forming(A, state="CompletingRebalance"), False),
        (forming(A, state="Stable"), False),
        (forming(A, kind="connect"), False),
        (forming(A, replace(B, has_assignment=True)), False),
    ],
    ids=["one", "two", "nobody", "is about to sync", "stable", "Connect", "a later generation"],
)
def test_a_group_forms_before_anybody_has_an_assignment(view: GroupView, forms: bool) -> None:  # noqa: FBT001 - a column of the table
    """Only while no member has an assignment does an eviction take nothing away."""
    assert is_forming(view, empty_at=99.5, delay_seconds=3.0, now=100.0) is forms


@pytest.mark.parametrize(
    ("empty_at", "delay"), [(None, 3.0), (97.0, 3.0), (99.5, 0.0), (99.5, None)], ids=["unseen", "late", "0", "unknown"]
)
def test_only_a_group_that_was_just_empty_certainly_forms(empty_at: float | None, delay: float | None) -> None:
    """A rebalance during a rebalance empties all assignments too, while cooperative members own partitions."""
    assert not is_forming(forming(A), empty_at=empty_at, delay_seconds=delay, now=100.0)


@pytest.mark.parametrize(
    ("delay", "seen_at", "begin"),
    [(3.0, 100.5, 101.55), (3.0, 101.5, 101.5), (2.0, 100.5, 100.5), (5.0, 100.5, 100.5), (10.0, 100.5, 100.5)],
    ids=["Kafka's default", "seen late", "short", "no way for both", "long"],
)
def test_members_that_pause_before_they_join_again_are_evicted_late(delay: float, seen_at: float, begin: float) -> None:
    """Fast members still rejoin within the first delay, and after a pause of five seconds the second one is over."""
    assert earliest_eviction(100.0, seen_at, delay) == pytest.approx(begin)


def test_before_it_begins_nobody_is_evicted() -> None:
    """From the set time on members are evicted, and the membership gets the time that they may be away."""
    attempt = Attempt()
    attempt.now = 99.9
    assert not attempt.turn(A, AGENT)
    attempt.now = 100.0
    assert attempt.turn(A, AGENT)
    assert attempt.presence.awaited_seconds == 6.0


@pytest.mark.parametrize(
    ("turns", "evicted"),
    [
        ([(A, AGENT, B), (AGENT,), (C, AGENT, D)], [("a", "b")]),
        ([(A, B)], []),
        ([(A, AGENT), (B, AGENT, C)], [("a",), ("b",)]),
        ([(A, AGENT), (AGENT, B, C)], [("a",)]),
        ([(A, replace(AGENT, id="samerack-2", instance_id="other"), AGENT)], []),
    ],
    ids=[
        "all who came before, once: they join again under new ids behind the agent",
        "nobody before the agent is listed: the group could be left without members",
        "one that joined between look and eviction: only a member before the agent can lead",
        "none behind the agent, which is the first in the coordinator's order",
        "nobody beside another agent: two would evict each other for ever",
    ],
)
def test_who_is_evicted(turns: list[tuple[MemberView, ...]], evicted: list[tuple[str, ...]]) -> None:
    """Of these polls in turn."""
    attempt = Attempt()
    for members in turns:
        attempt.turn(*members)
    assert attempt.presence.evicted == evicted


def test_nobody_is_evicted_when_the_delay_may_be_over() -> None:
    """In CompletingRebalance a member whose SyncGroup is parked would get no answer."""
    attempt, late = Attempt(), Attempt()
    attempt.now += 5.0
    assert not attempt.turn(A, AGENT)
    assert not late.turn(A, AGENT, state="CompletingRebalance")
    assert (attempt.presence.evicted, late.presence.evicted) == ([], [])


def test_evictions_end() -> None:
    """After three, or a refused one, the agent may be a follower; a member that has left meanwhile is no failure."""
    others = [replace(member(f"m{number}"), subscription=None) for number in range(20)]
    many = Attempt()
    assert [many.turn(*others[:number], AGENT) for number in range(1, 8)] == [True] * 3 + [False] * 4
    assert Attempt(kafka_errors.UnknownMemberIdError()).turn(A, B, AGENT)
    attempt = Attempt(kafka_errors.GroupAuthorizationFailedError())
    assert [attempt.turn(A, AGENT) for _ in range(2)] == [False, False]
    assert len(attempt.presence.evicted) == 1
