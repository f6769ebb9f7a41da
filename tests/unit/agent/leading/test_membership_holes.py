"""Former faults of a membership: lost answers, forgotten ids, a stop while the thread waits for an answer."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import SimpleNamespace
from typing import Any

import pytest
from kafka import errors as kafka_errors

from samerack.agent.leading import membership as membership_module
from samerack.agent.leading.leader import GroupLeader
from samerack.agent.leading.membership import Membership
from samerack.agent.metrics import Metrics
from samerack.agent.policy.back_off_causes import BackOffError, Cause
from samerack.auth.identities import TokenError
from samerack.cluster import group_member
from samerack.cluster.client import connect
from samerack.cluster.errors import NotAcceptedError
from samerack.cluster.group_member import EndedError, GroupMember
from samerack.common.attempts import REFUSALS
from samerack.election.member import ElectionMember
from samerack.election.messages import Advertisement
from samerack.settings.leading import ElectionSettings, LeadingSettings
from tests.unit.agent.leading.scripted import clear_away, leader_of
from tests.unit.cluster.scripted_broker import CONSUMER, REBALANCE_IN_PROGRESS, TOPIC, ScriptedBroker, no_errors
from tests.unit.waiting import LONGEST_SECONDS, until

# kafka-python does not close the socket of a client that is closed while it connects
pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")


@pytest.fixture
def broker() -> Iterator[ScriptedBroker]:
    """A broker with a running group."""
    listening = ScriptedBroker()
    yield listening
    listening.close()
    clear_away()


@pytest.fixture
def membership(broker: ScriptedBroker) -> Iterator[Membership]:
    """A membership of that group that has not joined yet."""
    client = connect({"bootstrap_servers": broker.address})
    yield Membership(client, group="orders", settings=LeadingSettings(), assign=lambda _: {}, wake=lambda: None)
    client.close()


@contextmanager
def _following(broker: ScriptedBroker) -> Iterator[GroupLeader]:
    """The agent's thread, once it follows."""
    leader = leader_of(broker, "orders", Metrics())
    leader.start()
    try:
        assert until(lambda: leader.reporter.role == "following" and bool(broker.members))
        yield leader
    finally:
        leader.stop()
        leader.join(LONGEST_SECONDS)


# C1: a reserved id that the next coordinator does not know


def test_a_reserved_id_that_is_forgotten_is_not_replaced(broker: ScriptedBroker, membership: Membership) -> None:
    """Reserved ids are not in the group's log: after a move of the coordinator the chosen place is lost."""
    membership.adopt(membership.reserve())
    broker.forget()
    with pytest.raises(BackOffError) as stepped:
        membership.join(LONGEST_SECONDS)
    assert stepped.value.cause is Cause.PLACE_LOST
    assert broker.members == {}
    assert broker.count("JoinGroup") == 2


# C2: the answer to a reservation is lost


def test_a_reservation_that_is_answered_late_is_released(
    broker: ScriptedBroker, membership: Membership, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A late reservation is released when it arrives, because it would delay every rebalance of the group."""
    monkeypatch.setattr(membership_module, "RESERVE_SECONDS", 0.2)
    broker.may_reserve.clear()
    with pytest.raises(kafka_errors.KafkaTimeoutError):
        membership.reserve()
    broker.may_reserve.set()
    assert until(lambda: broker.count("LeaveGroup") == 1)
    assert broker.pending == set()


def test_a_reservation_lasts_as_short_as_brokers_allow(broker: ScriptedBroker, membership: Membership) -> None:
    """A lost reservation delays the group by six seconds at most; brokers that demand a longer session get it."""
    membership.reserve()
    broker.script = lambda _api, request: 26 if getattr(request, "session_timeout_ms", 9000) < 9000 else 0
    membership.reserve()
    sessions = [one.request.session_timeout_ms for one in broker.arrivals if one.api == "JoinGroup"]
    assert sessions == [6000, 6000, 9000]


def test_an_eviction_is_sent_at_once_or_not_at_all(broker: ScriptedBroker, membership: Membership) -> None:
    """Members that were looked at own nothing; by the time that a new connection is open, they may own partitions."""
    membership.describe()
    opening, goes_on = threading.Event(), threading.Event()

    def script(api: str, _request: Any) -> int:
        if api == "ApiVersions":
            opening.set()
            goes_on.wait(LONGEST_SECONDS)
        return 0

    broker.script = script
    for one in tuple(broker._open):
        with suppress(OSError):  # closed by now
            one.shutdown(socket.SHUT_RDWR)
    assert opening.wait(LONGEST_SECONDS), "a new connection is about to open"
    with pytest.raises(kafka_errors.KafkaError):
        membership.evict(CONSUMER)
    goes_on.set()
    membership.describe()
    assert broker.count("LeaveGroup") == 0
    membership.evict(CONSUMER)
    assert broker.count("LeaveGroup") == 1


# C3: a stop while the thread waits


@pytest.mark.parametrize("unanswered", ["DescribeGroups", "JoinGroup"])
def test_a_stop_waits_for_no_answer(broker: ScriptedBroker, unanswered: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The agent leaves by member id at once, whichever request is not answered."""
    # with the usual limit of five seconds the thread would also end if it waited for the answer
    monkeypatch.setattr(Membership.describe, "__defaults__", (10 * LONGEST_SECONDS,))
    with _following(broker) as leader:

        def script(api: str, _request: Any) -> int | None:
            if api == unanswered and leader.is_alive() and not leader._stopping.is_set():
                return None
            return 27 if api == "Heartbeat" and unanswered == "JoinGroup" else 0

        broker.script = script
        since = time.monotonic()
        assert until(lambda: broker.count(unanswered, since) > 0)
        leader.stop()
        leader.join(LONGEST_SECONDS)
        assert not leader.is_alive()
        assert broker.members == {}
        assert leader.member_ids() == frozenset()


def test_a_stop_interrupts_rolling(broker: ScriptedBroker, membership: Membership) -> None:
    """A member that rejoins for another place leaves by its instance id."""
    assert membership.join(LONGEST_SECONDS)
    broker.script = lambda api, _request: None if api == "JoinGroup" else 0
    membership.rejoin_for_position()
    membership.end_by(time.monotonic() + 0.3)
    with pytest.raises(EndedError):
        membership.join(30.0)
    membership.leave()
    assert broker.members == {}


def test_what_could_not_be_left_is_known(broker: ScriptedBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """A membership that could not be left is reported to the supervisor once the thread has ended."""
    monkeypatch.setattr(group_member, "LEAVE_SECONDS", 0.3)
    with _following(broker) as leader:
        (member_id,) = broker.members
        broker.script = lambda api, _request: 16 if api == "LeaveGroup" else 0
        leader.stop()
        leader.join(LONGEST_SECONDS)
        assert {one.member_id for one in leader.member_ids()} == {member_id}


# C5: an error in a turn


@pytest.mark.parametrize("code", [-1, 7, 15])
def test_an_error_in_a_turn_keeps_the_membership(broker: ScriptedBroker, code: int) -> None:
    """To leave and join again would be two rebalances: the agent pauses, says why, and continues."""
    with _following(broker) as leader:
        before, since = dict(broker.members), time.monotonic()
        broker.script = lambda api, _request: code if api == "DescribeGroups" else 0
        assert until(lambda: broker.count("DescribeGroups", since) > 3)
        assert leader.reporter.trouble
        assert broker.busiest_second("DescribeGroups", since) <= 8
        broker.script = lambda _api, _request: 0
        assert until(lambda: not leader.reporter.trouble)
        assert broker.members == before
        assert broker.count("LeaveGroup") == 0
        assert broker.count("JoinGroup") == 1


def test_a_parked_first_join_is_known_by_its_place_in_the_group(broker: ScriptedBroker, membership: Membership) -> None:
    """The group's description has its member id, with which the supervisor can leave for it."""
    broker.members = {"agent-7": "samerack", CONSUMER: None}
    broker.script = lambda api, _request: None if api == "JoinGroup" else 0
    assert not membership.join(0.3)
    assert membership.member_id == ""
    membership.describe()
    assert membership.parked_id == "agent-7"


@pytest.mark.parametrize("elects", [False, True], ids=["of a led group", "of the election"])
def test_a_parked_first_join_is_left_by_instance_id(
    broker: ScriptedBroker, membership: Membership, *, elects: bool
) -> None:
    """A new coordinator described the group with a former id, and the member stayed until its session ended.

    While the election waited for an agent that had stopped during its join, no group had a leader elected.
    """
    broker.members = {"agent-7": "samerack", CONSUMER: None}
    broker.script = lambda api, _request: None if api == "JoinGroup" else 0
    client = connect({"bootstrap_servers": broker.address})
    advertisement = Advertisement(identity="samerack", responsibilities=())
    member = (
        ElectionMember(client, settings=ElectionSettings(), advertisement=advertisement, wake=lambda: None)
        if elects
        else membership
    )
    assert not member.join(0.3)
    member.leave()
    client.close()
    left = [member for one in broker.arrivals if one.api == "LeaveGroup" for member in one.request.members]
    assert [(one.member_id, one.group_instance_id) for one in left] == [("", "samerack")]


def test_commits_are_asked_for_beside_a_parked_join(broker: ScriptedBroker, membership: Membership) -> None:
    """An error is raised, and who is not the coordinator any more is looked up again."""
    broker.script = lambda api, _request: None if api == "JoinGroup" else 0
    assert not membership.join(0.3)
    assert membership.committed(LONGEST_SECONDS) == {(TOPIC, 0): 7}
    before = membership.lookup
    broker.script = lambda api, _request: {"JoinGroup": None, "OffsetFetch": 16}.get(api, 0)
    with pytest.raises(kafka_errors.NotCoordinatorError):
        membership.committed(LONGEST_SECONDS)
    broker.script = lambda api, _request: None if api == "JoinGroup" else 0
    assert membership.committed(LONGEST_SECONDS)
    assert membership.lookup is not before


# a coordinator that metadata do not list yet, one that is gone, and polls that fail


def test_a_join_goes_on_at_the_next_coordinator(broker: ScriptedBroker, membership: Membership) -> None:
    """A machine that lost its power closes no connection: the answer to a parked JoinGroup was awaited for minutes."""
    broker.script = lambda api, _request: None if api == "JoinGroup" else 0
    assert not membership.join(0.3)
    broker.coordinator = 2
    broker.script = lambda api, _request: 16 if api == "DescribeGroups" else 0
    with pytest.raises(kafka_errors.NotCoordinatorError):
        membership.describe()
    broker.script = no_errors
    membership.describe()
    assert membership.join(LONGEST_SECONDS)


def test_an_agent_that_reaches_all_brokers_but_the_coordinator_is_outside(
    broker: ScriptedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The brokers have removed it: it showed its last role for as long as it did not reach the coordinator."""
    monkeypatch.setattr(GroupMember, "is_forgotten", property(lambda one: time.monotonic() - one._heard_at > 1.0))
    with _following(broker) as leader, socket.create_server(("127.0.0.1", 0)) as closed:
        broker.coordinator, broker.coordinator_port = 2, closed.getsockname()[1]
        closed.close()
        broker.script = lambda api, _request: 16 if api in {"Heartbeat", "DescribeGroups", "OffsetFetch"} else 0
        assert until(lambda: leader.reporter.role == "outside")


def test_a_coordinator_that_comes_back_has_forgotten_nobody(broker: ScriptedBroker, membership: Membership) -> None:
    """All brokers were away for longer than a session, which begins anew when they are back."""
    assert membership.join(LONGEST_SECONDS)
    membership._session_seconds = 0.5
    broker.script = lambda api, _request: 15 if api in {"FindCoordinator", "Heartbeat"} else 0
    assert until(lambda: membership.is_forgotten)
    assert not membership.is_cut_off
    membership._session_seconds = LONGEST_SECONDS
    membership._heard_at -= LONGEST_SECONDS
    broker.script = lambda api, _request: 14 if api == "Heartbeat" else 0
    assert until(lambda: not membership.is_forgotten)


def test_heartbeats_outlast_a_missing_token(membership: Membership) -> None:
    """They ended with the token source's error, as if the agent had a defect, and the agent left the group."""
    assert membership.join(LONGEST_SECONDS)
    connections = membership._connections
    is_there = threading.Event()

    def token() -> str:
        if not is_there.is_set():
            raise TokenError("no token; check its endpoint")
        return "t"

    connections.config["sasl_oauth_token_provider"] = SimpleNamespace(token=token)

    async def drop_all() -> None:
        for one in tuple(connections._open):
            connections.drop(one)

    membership._net.run(drop_all)

    def reported() -> bool:
        membership.poll_heartbeat()
        failure = membership.take_failure()
        return isinstance(failure, NotAcceptedError) and str(failure) == "no token; check its endpoint"

    assert until(reported)
    came_at = time.monotonic()
    is_there.set()
    assert until(lambda: membership.well_at > came_at)
    assert time.monotonic() - came_at < REFUSALS.most / 2  # brokers have refused nothing, and are asked soon


def test_a_coordinator_that_was_just_started_is_found(broker: ScriptedBroker, request: pytest.FixtureRequest) -> None:
    """A started broker coordinates before it is in the metadata, which are refreshed only minutes later."""
    broker.listed_as = 7
    membership: Membership = request.getfixturevalue("membership")
    assert membership.describe().members
    assert membership.join(LONGEST_SECONDS)


def test_a_poll_that_fails_keeps_no_group_waiting(broker: ScriptedBroker) -> None:
    """Each turn failed at its poll, while heartbeats kept the membership alive: the group waited for minutes."""
    with _following(broker):
        begun = time.monotonic()

        def waits(api: str, _request: Any) -> int:
            if api == "DescribeGroups":
                return -1
            rejoined = broker.count("JoinGroup", begun) > 0
            return REBALANCE_IN_PROGRESS if api == "Heartbeat" and not rejoined else 0

        broker.script = waits
        assert until(lambda: broker.count("JoinGroup", begun) > 0)
