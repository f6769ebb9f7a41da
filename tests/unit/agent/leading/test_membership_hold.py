"""Joining in steps: requests between JoinGroup and SyncGroup, and that every reserved id is released."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from kafka import errors as kafka_errors
from kafka.future import Future
from kafka.net.compat import KafkaNetClient
from kafka.structs import MemberState

from samerack.agent.leading.member import Hold
from samerack.agent.leading.membership import Membership
from samerack.cluster.client import close
from samerack.common.settings import LeadingSettings
from sandbox.admin import wait_until

_REQUIRED = kafka_errors.MemberIdRequiredError.errno
_WAIT = 2.0


@dataclass
class Coordinator:
    """Replaces a broker: `leaders` has the leader for each JoinGroup; a pending member is granted or not."""

    leaders: list[str] = field(default_factory=lambda: ["other", "me"])
    reserves: int = _REQUIRED
    leaves: int = 0
    sent: list[str] = field(default_factory=list)
    parks: int = 0
    """The number of the JoinGroup that is answered only on demand."""
    parked: tuple[Any, Any] = (None, None)
    meanwhile: Callable[[], None] = lambda: None
    presences: list[bytes] = field(default_factory=list)
    """The metadata of each JoinGroup."""

    def answer(self, request: Any) -> Any:
        """Answer one request."""
        name = type(request).__name__.removesuffix("Request")
        if name == "JoinGroup" and not request.group_instance_id:
            self.sent.append("reserve")
            self.meanwhile()
            return SimpleNamespace(error_code=self.reserves, member_id="pending")
        self.sent.append(name)
        if name == "JoinGroup":
            self.presences.append(request.protocols[0][1])
        if name == "LeaveGroup":
            return SimpleNamespace(error_code=self.leaves, members=[])
        return SimpleNamespace(
            error_code=0,
            protocol_type="consumer",
            protocol_name="range",
            generation_id=7,
            leader=self.leaders.pop(0) if name == "JoinGroup" else "",
            member_id="me",
            skip_assignment=False,
            members=[],
            assignment=b"",
        )


@pytest.fixture
def coordinator() -> Coordinator:
    """A coordinator of a group that another member leads."""
    return Coordinator()


@pytest.fixture
def membership(coordinator: Coordinator, monkeypatch: pytest.MonkeyPatch) -> Iterator[Membership]:
    """A membership on a client that never connects."""

    async def ready(_membership: Membership, **_: object) -> bool:
        return True

    monkeypatch.setattr(Membership, "ensure_coordinator_ready_async", ready)
    monkeypatch.setattr(Membership, "coordinator_unknown", lambda _: False)
    monkeypatch.setattr(Membership, "_maybe_start_heartbeat_loop", lambda _: None)
    client = KafkaNetClient(bootstrap_servers="127.0.0.1:1")
    client._net.start()
    joined = Membership(client, group="orders", settings=LeadingSettings(), assign=lambda _: {}, wake=lambda: None)

    def send(request: Any, **_: object) -> Any:
        answer, future = coordinator.answer(request), Future()
        if coordinator.sent.count("JoinGroup") == coordinator.parks and coordinator.sent[-1] == "JoinGroup":
            coordinator.parked = future, answer
            return future
        return future.success(answer)

    client._manager.send = send
    yield joined
    close(client)


def test_a_join_that_ends_between_two_calls_is_told_once_and_not_repeated(
    membership: Membership, coordinator: Coordinator
) -> None:
    """The next call returns it: the library would forget it, and a leader's second JoinGroup rebalance once more."""
    coordinator.parks = 1
    assert (membership.wants_join, membership.join(0.05)) == (True, False)
    _answer(membership, coordinator)
    wait_until(lambda: membership.state is MemberState.STABLE, "it has joined")
    assert (membership.wants_join, membership.join(_WAIT), membership.wants_join) == (True, True, False)
    assert coordinator.sent == ["JoinGroup", "SyncGroup"]


def test_a_hold_joins_once_more_behind_a_pending_member(membership: Membership, coordinator: Coordinator) -> None:
    """The hold joins again before SyncGroup; its pending member is readable, and `let_go` releases it."""
    membership.hold()
    assert membership.join(_WAIT)
    assert sorted(coordinator.sent[1:3]) == ["JoinGroup", "reserve"]
    assert coordinator.sent[3] == "SyncGroup"
    assert membership.hold_state is Hold.HELD
    assert membership.pending == {"pending"}
    membership.let_go()
    assert coordinator.sent[4:] == ["LeaveGroup"]
    assert membership.pending == frozenset()


def _park_both(membership: Membership, coordinator: Coordinator) -> None:
    """Join, then ask for a hold and a rebalance whose first answer waits; with the third answer it leads."""
    coordinator.leaders = ["other", "other", "me"]
    assert membership.join(_WAIT)
    coordinator.parks = 2
    membership.hold()
    membership.nudge()
    assert not membership.join(0.1)


def _answer(membership: Membership, coordinator: Coordinator) -> None:
    future, answer = coordinator.parked
    membership._net.call_soon_threadsafe(lambda: future.success(answer))


def test_a_member_has_its_second_join_ready_before_the_first_is_answered(
    membership: Membership, coordinator: Coordinator
) -> None:
    """The second JoinGroup, with other metadata, is at the broker before the leader's plan can be."""
    _park_both(membership, coordinator)
    assert coordinator.sent[2:] == ["JoinGroup", "JoinGroup"]
    assert len(set(coordinator.presences)) == 3
    _answer(membership, coordinator)
    assert membership.join(_WAIT)
    assert coordinator.sent[4:] == ["reserve", "SyncGroup"]
    assert membership.hold_state is Hold.HELD


def test_a_pending_member_that_came_too_late_holds_the_next_rebalance(
    membership: Membership, coordinator: Coordinator
) -> None:
    """Another member leads again if all joined before the pending member: the agent joins once more."""
    coordinator.leaders = ["other", "other", "me"]
    membership.hold()
    assert membership.join(_WAIT)
    assert coordinator.sent.count("JoinGroup") == 3
    assert coordinator.sent.count("reserve") == 1
    assert membership.leading


def test_a_hold_that_is_given_up_before_the_first_answer_takes_the_second(
    membership: Membership, coordinator: Coordinator
) -> None:
    """The second JoinGroup cannot be cancelled: SyncGroup uses its generation, without a pending member."""
    _park_both(membership, coordinator)
    membership.let_go()
    _answer(membership, coordinator)
    assert membership.join(_WAIT)
    assert coordinator.sent[4:] == ["SyncGroup"]
    assert membership.leading


def test_who_leads_holds_nothing(membership: Membership, coordinator: Coordinator) -> None:
    """If the agent leads because the leader has left, there is nothing to take over."""
    coordinator.leaders = ["me"]
    membership.hold()
    assert membership.join(_WAIT)
    assert "reserve" not in coordinator.sent
    assert membership.leading


def test_a_hold_can_be_asked_for_again_while_the_second_join_waits(
    membership: Membership, coordinator: Coordinator
) -> None:
    """Another JoinGroup waits behind the second one, and gets its own pending member."""
    coordinator.leaders = ["other", "other", "me"]
    coordinator.parks = 2
    membership.hold()
    assert not membership.join(0.1)
    assert membership.hold_state is Hold.HELD
    membership.hold()
    wait_until(lambda: coordinator.sent.count("JoinGroup") == 3, "the next lies ready")
    _answer(membership, coordinator)
    assert membership.join(_WAIT)
    assert coordinator.sent.count("reserve") == 2
    assert membership.leading


def test_a_hold_that_is_given_up_meanwhile_leaves_no_pending_member(
    membership: Membership, coordinator: Coordinator
) -> None:
    """An id that arrives after the hold was cancelled is released at once."""
    coordinator.meanwhile = membership.let_go  # nothing is pending yet
    membership.hold()
    assert membership.join(_WAIT)
    assert "LeaveGroup" in coordinator.sent
    assert membership.pending == frozenset()
    assert membership.hold_state is Hold.NONE


def test_a_late_pending_member_that_cannot_leave_ends_no_join(
    membership: Membership, coordinator: Coordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found: the error of a LeaveGroup that got no answer ended the join between JoinGroup and SyncGroup."""
    send = membership._manager.send

    def lost(request: Any, **options: object) -> Any:
        if type(request).__name__ == "LeaveGroupRequest":
            return Future().failure(kafka_errors.RequestTimedOutError())
        return send(request, **options)

    monkeypatch.setattr(membership._manager, "send", lost)
    coordinator.meanwhile = membership.let_go
    membership.hold()
    assert membership.join(_WAIT)
    assert membership.pending == {"pending"}


def test_without_a_pending_member_the_hold_has_failed(membership: Membership, coordinator: Coordinator) -> None:
    """If the coordinator grants no pending member, as for a full group, the hold fails."""
    coordinator.reserves = kafka_errors.GroupMaxSizeReachedError.errno
    membership.hold()
    assert membership.join(_WAIT)
    assert membership.hold_state is Hold.FAILED
    assert membership.pending == frozenset()


def test_a_pending_member_that_is_not_taken_back_is_kept_in_mind(
    membership: Membership, coordinator: Coordinator
) -> None:
    """An id stays pending if the coordinator has moved, and not if the coordinator does not know it."""
    membership.hold()
    membership.join(_WAIT)
    coordinator.leaves = kafka_errors.NotCoordinatorError.errno
    with pytest.raises(kafka_errors.NotCoordinatorError):
        membership.let_go()
    assert membership.pending == {"pending"}
    coordinator.leaves = kafka_errors.UnknownMemberIdError.errno
    membership.let_go()
    assert membership.pending == frozenset()


def test_an_eviction_that_is_not_taken_is_an_error(membership: Membership, coordinator: Coordinator) -> None:
    """An eviction that the coordinator refuses raises an error."""
    membership.join(_WAIT)
    membership.evict("m-1", "m-2")
    coordinator.leaves = kafka_errors.UnknownMemberIdError.errno
    with pytest.raises(kafka_errors.UnknownMemberIdError):
        membership.evict("m-1")
