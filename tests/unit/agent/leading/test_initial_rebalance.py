"""Leading a group from its first generation: which members are evicted while it forms, and when none is."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
import structlog
from kafka import errors as kafka_errors

from samerack.agent.leading.initial_rebalance import (
    InitialRebalance,
    earliest_eviction,
    is_forming,
    safe_to_join_until,
    safe_until,
)
from samerack.cluster.group import GroupView, MemberView
from tests.unit.agent.values import member

AGENT = replace(member("samerack-1", instance_id="samerack", client_id="samerack"), subscription=None)
A, B, C, D = (replace(member(name), subscription=None) for name in "abcd")


def forming(*members: MemberView, state: str = "PreparingRebalance", kind: str = "consumer") -> GroupView:
    """A group before its first generation."""
    return GroupView(name="orders", state=state, protocol_type=kind, protocol="", members=members)


class _Member:
    """A membership whose JoinGroup is parked; stores the evicted members."""

    group_instance_id = "samerack"

    def __init__(self, error: Exception | None = None) -> None:
        self.evicted: list[tuple[str, ...]] = []
        self.rejoined = 0
        self.awaited_seconds = 0.0
        self._error = error

    def await_return(self, seconds: float) -> None:
        self.awaited_seconds = seconds

    def release(self, member_id: str, instance_id: str | None = None) -> bool:
        assert (member_id, instance_id) == (AGENT.id, AGENT.instance_id)
        self.rejoined += 1
        return True

    def evict(self, *member_ids: str) -> None:
        self.evicted.append(member_ids)
        if self._error is not None:
            raise self._error


class Attempt:
    """An `InitialRebalance` with a clock, at a delay of 3 s; `first` are the members of the first poll."""

    def __init__(self, *first: MemberView, error: Exception | None = None) -> None:
        self.now = 101.0
        self.member = _Member(error)
        self.heard: list[tuple[tuple[str, ...], tuple[str, ...], int]] = []
        log: Any = structlog.get_logger()
        self.initial_rebalance = InitialRebalance(
            first_seen=frozenset(one.id for one in first),
            begin=101.0,
            rejoin_until=safe_to_join_until(99.5, 3.0),
            until=safe_until(99.5, 3.0),
            clock=lambda: self.now,
            log=log,
            own_client_id="samerack",
            on_evict=self._hear,
        )

    def _hear(self, members: Iterable[MemberView], evicted: Iterable[MemberView]) -> None:
        ids, gone = (tuple(one.id for one in views) for views in (members, evicted))
        self.heard.append((ids, gone, len(self.member.evicted)))

    def turn(self, *members: MemberView, state: str = "PreparingRebalance") -> bool:
        """Poll the group once."""
        membership: Any = self.member
        return self.initial_rebalance.turn(membership, forming(*members, state=state))


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
    attempt = Attempt(A)
    attempt.now = 100.9
    assert not attempt.turn(A, AGENT)
    attempt.now = 101.0
    assert attempt.turn(A, AGENT)
    assert attempt.member.awaited_seconds == 6.0


@pytest.mark.parametrize(
    ("turns", "evicted"),
    [
        ([(A, AGENT, B), (AGENT, B), (C, AGENT, B)], [("a",)]),
        ([(AGENT, B, C)], [("b", "c")]),
        ([(A, B)], []),
        ([(A, AGENT), (B, AGENT), (B, AGENT, C)], [("a",), ("b",)]),
        ([(A, AGENT), (AGENT,), (B, AGENT, C)], [("a",)]),
        ([(A, AGENT), (AGENT, B, C)], [("a",)]),
        ([(A, replace(AGENT, id="samerack-2", instance_id="other"), AGENT)], []),
    ],
    ids=[
        "the member of the first poll, once: it joins again under a new id behind the agent",
        "all, where the members of the first poll have left: any may lead",
        "nobody before the agent is listed: the group could be left without members",
        "one that joined between poll and eviction: only a member before the agent can lead",
        "none that joined after the eviction",
        "none behind the agent, which is the first in the coordinator's order",
        "nobody beside another agent: two would evict each other for ever",
    ],
)
def test_who_is_evicted(turns: list[tuple[MemberView, ...]], evicted: list[tuple[str, ...]]) -> None:
    """Of these descriptions in turn."""
    attempt = Attempt(A)
    for members in turns:
        attempt.turn(*members)
    assert attempt.member.evicted == evicted


def test_it_joins_again_until_only_members_that_may_lead_come_before_it() -> None:
    """An evicted librdkafka before 2.16 that was not the first would come back in the second delay and extend it."""
    attempt = Attempt(A)
    attempt.now = 100.2
    assert [attempt.turn(*order) for order in ((B, A, AGENT), (A, B, AGENT), (A, AGENT, B))] == [False] * 3
    assert attempt.member.rejoined == 2
    attempt.now = 101.0
    assert attempt.turn(A, AGENT, B)
    assert (attempt.member.rejoined, attempt.member.evicted) == (2, [("a",)])


@pytest.mark.parametrize(("now", "rejoined"), [(100.0, 8), (101.9, 0)], ids=["too often", "too late"])
def test_members_before_it_are_evicted_too_if_it_does_not_become_first(now: float, rejoined: int) -> None:
    """Eight times, and not when joining could make the coordinator wait for a third delay."""
    attempt = Attempt(A)
    attempt.now = now
    for _ in range(10):
        attempt.turn(A, B, AGENT, C)
    attempt.now = 102.0
    attempt.turn(A, B, AGENT, C)
    assert attempt.member.rejoined == rejoined
    assert attempt.member.evicted == [("a", "b")]


def test_nobody_is_evicted_when_the_delay_may_be_over() -> None:
    """In CompletingRebalance a member whose SyncGroup is parked would get no answer."""
    attempt, late = Attempt(A), Attempt(A)
    attempt.now += 5.0
    assert not attempt.turn(A, AGENT)
    assert not late.turn(A, AGENT, state="CompletingRebalance")
    assert (attempt.member.evicted, late.member.evicted) == ([], [])


def test_nobody_is_evicted_when_the_delay_may_be_over_by_the_time_that_they_are_remembered() -> None:
    """The disk may wait meanwhile."""
    attempt = Attempt(A)

    def wait(*_: object) -> None:
        attempt.now += 5.0

    attempt.initial_rebalance.on_evict = wait
    assert not attempt.turn(A, AGENT)
    assert attempt.member.evicted == []


def test_who_is_about_to_be_evicted_is_passed_on_before_the_request() -> None:
    """A process that ends right after it has not lost it."""
    attempt = Attempt(A)
    attempt.turn(A, AGENT, B)
    assert attempt.heard == [(("a", AGENT.id, "b"), ("a",), 0)]


@pytest.mark.parametrize(
    ("turns", "decided"),
    [
        ([], False),
        ([(A, AGENT)], False),
        ([(A, AGENT), (AGENT,)], True),
        ([(A, AGENT), (AGENT, B)], True),
        ([(A, AGENT), (B, AGENT)], False),
        ([(A, AGENT), (B, AGENT), (B, AGENT, C), (AGENT, C)], True),
    ],
    ids=["not begun", "evicted a moment ago", "alone", "one behind it", "one before it", "that one evicted too"],
)
def test_it_is_decided_once_nobody_else_can_lead(turns: list[tuple[MemberView, ...]], decided: bool) -> None:  # noqa: FBT001 - a column of the table
    """Then the group is described less often until the rebalance ends: a hundred births a minute are few requests."""
    attempt = Attempt(A)
    for members in turns:
        attempt.turn(*members)
    assert attempt.initial_rebalance.is_decided is decided


def test_evictions_end() -> None:
    """After three, or a refused one, the agent may be a follower; a member that has left meanwhile is not a failure."""
    others = [replace(member(f"m{number}"), subscription=None) for number in range(20)]
    many = Attempt(others[0])
    assert [many.turn(*others[:number], AGENT) for number in range(1, 8)] == [True] * 3 + [False] * 4
    assert Attempt(A, error=kafka_errors.UnknownMemberIdError()).turn(A, AGENT)
    attempt = Attempt(A, error=kafka_errors.GroupAuthorizationFailedError())
    assert [attempt.turn(A, AGENT) for _ in range(2)] == [False, False]
    assert len(attempt.member.evicted) == 1
