"""Joining in steps: requests between JoinGroup and SyncGroup, and that every reserved id is released."""

from __future__ import annotations

from typing import Any

import pytest
from kafka import errors as kafka_errors
from kafka.future import Future

from lab.sandbox.admin import wait_until
from samerack.agent.leading.membership import Hold, Membership
from samerack.cluster.group_member import MembershipState
from tests.unit.agent.leading.conftest import WAIT_SECONDS, Coordinator


def test_a_join_that_ends_between_two_calls_is_not_repeated(membership: Membership, coordinator: Coordinator) -> None:
    """The next call returns it: the library would forget it, and a leader's second JoinGroup rebalance once more."""
    coordinator.parks = 1
    assert (membership.wants_join, membership.join(0.05)) == (True, False)
    _answer(membership, coordinator)
    wait_until(lambda: membership.state is MembershipState.STABLE, "it has joined")
    assert (membership.wants_join, membership.join(WAIT_SECONDS), membership.wants_join) == (True, True, False)
    assert coordinator.sent == ["JoinGroup", "SyncGroup"]


def test_a_hold_joins_once_more_behind_a_pending_member(membership: Membership, coordinator: Coordinator) -> None:
    """The hold joins again before SyncGroup; its pending member is readable, and `let_go` releases it."""
    membership.hold()
    assert membership.join(WAIT_SECONDS)
    assert sorted(coordinator.sent[1:3]) == ["JoinGroup", "reserve"]
    assert coordinator.sent[3] == "SyncGroup"
    assert membership.hold_state is Hold.HELD
    assert membership.pending == {"pending"}
    assert 0.0 <= membership.held_seconds < WAIT_SECONDS
    membership.let_go()
    assert coordinator.sent[4:] == ["LeaveGroup"]
    assert membership.pending == frozenset()


def _park_both(membership: Membership, coordinator: Coordinator) -> None:
    """Join, then ask for a hold and a rebalance whose first answer waits; with the third answer it leads."""
    coordinator.leaders = ["other", "other", "me"]
    assert membership.join(WAIT_SECONDS)
    coordinator.parks = 2
    membership.hold()
    membership.nudge()
    assert not membership.join(0.1)


def _answer(membership: Membership, coordinator: Coordinator) -> None:
    future, answer = coordinator.parked
    membership._net.call_soon_threadsafe(lambda: future.success(answer))


def test_the_second_join_is_ready_before_the_first_answer(membership: Membership, coordinator: Coordinator) -> None:
    """The second JoinGroup, with other metadata, is at the broker before the leader's plan can be."""
    _park_both(membership, coordinator)
    assert coordinator.sent[2:] == ["JoinGroup", "JoinGroup"]
    assert len({one.protocols[0][1] for one in coordinator.of("JoinGroup")}) == 3
    _answer(membership, coordinator)
    assert membership.join(WAIT_SECONDS)
    assert coordinator.sent[4:] == ["reserve", "SyncGroup"]
    assert membership.hold_state is Hold.HELD


def test_a_late_pending_member_holds_the_next_rebalance(membership: Membership, coordinator: Coordinator) -> None:
    """Another member leads again if all joined before the pending member: the agent joins once more."""
    coordinator.leaders = ["other", "other", "me"]
    membership.hold()
    assert membership.join(WAIT_SECONDS)
    assert coordinator.sent.count("JoinGroup") == 3
    assert coordinator.sent.count("reserve") == 1
    assert membership.leading


def test_a_hold_given_up_before_an_answer_takes_the_second(membership: Membership, coordinator: Coordinator) -> None:
    """The second JoinGroup cannot be cancelled: SyncGroup uses its generation, without a pending member."""
    _park_both(membership, coordinator)
    membership.let_go()
    _answer(membership, coordinator)
    assert membership.join(WAIT_SECONDS)
    assert coordinator.sent[4:] == ["SyncGroup"]
    assert membership.leading


def test_who_leads_holds_nothing(membership: Membership, coordinator: Coordinator) -> None:
    """If the agent leads because the leader has left, there is nothing to take over."""
    coordinator.leaders = ["me"]
    membership.hold()
    assert membership.join(WAIT_SECONDS)
    assert "reserve" not in coordinator.sent
    assert membership.leading


def test_without_a_pending_member_the_hold_has_failed(membership: Membership, coordinator: Coordinator) -> None:
    """If the coordinator grants no pending member, as for a full group, the hold fails."""
    coordinator.reserves = kafka_errors.GroupMaxSizeReachedError.errno
    membership.hold()
    assert membership.join(WAIT_SECONDS)
    assert (membership.hold_state, membership.pending) == (Hold.FAILED, frozenset())


def test_a_hold_can_be_asked_for_again_while_a_join_waits(membership: Membership, coordinator: Coordinator) -> None:
    """Another JoinGroup waits behind the second one, and gets its own pending member."""
    coordinator.leaders = ["other", "other", "me"]
    coordinator.parks = 2
    membership.hold()
    assert not membership.join(0.1)
    assert membership.hold_state is Hold.HELD
    membership.hold()
    wait_until(lambda: coordinator.sent.count("JoinGroup") == 3, "the next lies ready")
    _answer(membership, coordinator)
    assert membership.join(WAIT_SECONDS)
    assert coordinator.sent.count("reserve") == 2
    assert membership.leading


def test_a_hold_given_up_meanwhile_leaves_none_pending(membership: Membership, coordinator: Coordinator) -> None:
    """An id that arrives after the hold was cancelled is released at once."""
    coordinator.meanwhile = membership.let_go  # nothing is pending yet
    membership.hold()
    assert membership.join(WAIT_SECONDS)
    assert "LeaveGroup" in coordinator.sent
    assert membership.pending == frozenset()
    assert membership.hold_state is Hold.NONE


def test_a_late_pending_member_that_cannot_leave_ends_no_join(
    membership: Membership, coordinator: Coordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found: the error of a LeaveGroup that got no answer ended the join between JoinGroup and SyncGroup."""
    send = membership._connections.send

    def lost(request: Any, **options: Any) -> Any:
        if type(request).__name__ == "LeaveGroupRequest":
            return Future().failure(kafka_errors.RequestTimedOutError())
        return send(request, **options)

    monkeypatch.setattr(membership._connections, "send", lost)
    coordinator.meanwhile = membership.let_go
    membership.hold()
    assert membership.join(WAIT_SECONDS)
    assert membership.pending == {"pending"}


def test_a_pending_member_that_stays_is_kept_in_mind(membership: Membership, coordinator: Coordinator) -> None:
    """An id stays pending if the coordinator has moved, and not if the coordinator does not know it."""
    membership.hold()
    membership.join(WAIT_SECONDS)
    coordinator.leaves = [kafka_errors.NotCoordinatorError.errno]
    with pytest.raises(kafka_errors.NotCoordinatorError):
        membership.let_go()
    assert membership.pending == {"pending"}
    coordinator.leaves = [kafka_errors.UnknownMemberIdError.errno]
    membership.let_go()
    assert membership.pending == frozenset()


def test_an_eviction_that_is_not_taken_is_an_error(
    membership: Membership, coordinator: Coordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An eviction that the coordinator refuses raises an error."""
    membership.join(WAIT_SECONDS)
    monkeypatch.setattr(membership._connections, "is_open", lambda _: True)
    membership.evict("m-1", "m-2")
    coordinator.leaves = [kafka_errors.UnknownMemberIdError.errno]
    with pytest.raises(kafka_errors.UnknownMemberIdError):
        membership.evict("m-1")
