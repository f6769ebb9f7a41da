"""The membership without a broker: what it offers and sends, and what happens between JoinGroup and SyncGroup."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor as AiokafkaSticky
from aiokafka.coordinator.protocol import ConsumerProtocolMemberMetadata
from kafka import errors as kafka_errors
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor as KafkaPythonSticky
from kafka.protocol.consumer.metadata import ConsumerProtocolSubscription

from samerack.agent.leading.membership import REBALANCE_SECONDS, Membership, user_data
from samerack.cluster import client, diagnosis
from samerack.cluster.client import ClusterClient, connect
from samerack.cluster.connections import Connections
from samerack.cluster.group_member import JOIN_VERSION, STUCK_SECONDS, GroupMember, Joined, MembershipState
from samerack.common.errors import AgentError
from samerack.protocol.consumer import decode_subscription
from samerack.protocol.sticky import claims
from samerack.protocol.values import no_partitions
from samerack.settings.leading import LeadingSettings
from tests.unit.agent.leading.conftest import WAIT_SECONDS, Coordinator
from tests.unit.waiting import until

OFFERED = ("range", "roundrobin", "sticky", "cooperative-sticky", "RoundRobinAssigner")
Make = Callable[[], Membership]


@pytest.fixture
def make() -> Iterator[Make]:
    """Make memberships whose client never connects."""
    client = ClusterClient({"bootstrap_servers": "127.0.0.1:1"})

    def build() -> Membership:
        return Membership(client, group="orders", settings=LeadingSettings(), assign=lambda _: {}, wake=lambda: None)

    yield build
    client.close()


def test_every_offered_protocol_carries_an_empty_subscription(make: Make) -> None:
    """The agent subscribes to no topic, owns nothing and has no rack, whichever protocol is chosen."""
    offered = make().group_protocols()
    assert tuple(name for name, _ in offered) == OFFERED
    for _, content in offered:
        subscription = decode_subscription(content)
        assert (subscription.version, subscription.topics, subscription.rack) == (0, (), None)
        assert subscription.owned == no_partitions()
        assert (
            content.hex() == "0000" + "00000000" + "ffffffff"
        )  # nothing behind it: kafka-go's leader reads no further


def test_a_nudge_changes_the_metadata_of_version_0(make: Make) -> None:
    """Each nudge changes the metadata, so that the coordinator rebalances; sticky leaders read no claim in it."""
    membership = make()
    offers = [dict(membership.group_protocols())]
    for _ in range(2):
        membership.nudge()
        offers.append(dict(membership.group_protocols()))
    for assignor in ("sticky", "cooperative-sticky"):
        assert len({offer[assignor] for offer in offers}) == 3
        for offer in offers[1:]:
            subscription = decode_subscription(offer[assignor])
            assert (subscription.version, subscription.trailing) == (0, b"")
            owned, generation = claims(subscription, assignor)
            assert (owned, generation < 0) == (no_partitions(), True)


@pytest.mark.parametrize(
    ("present", "order"),
    [
        ("range", OFFERED),
        ("cooperative-sticky", ("cooperative-sticky", "range", "roundrobin", "sticky", "RoundRobinAssigner")),
        ("of-their-own", OFFERED),
    ],
)
def test_the_present_protocol_is_offered_first(make: Make, present: str, order: tuple[str, ...]) -> None:
    """Joining does not change the vote for a protocol; a name that the agent does not know is not offered."""
    membership = make()
    membership.offer("sticky")
    membership.offer(present)
    assert tuple(name for name, _ in membership.group_protocols()) == order


@pytest.mark.parametrize(
    ("silent_seconds", "rebalances", "state"),
    [
        (2 * REBALANCE_SECONDS, False, MembershipState.STABLE),
        (STUCK_SECONDS + 1, False, MembershipState.UNJOINED),
        (0.0, True, MembershipState.UNJOINED),
    ],
)
def test_a_long_question_costs_no_membership(
    membership: Membership,
    coordinator: Coordinator,
    silent_seconds: float,
    rebalances: bool,  # noqa: FBT001 - a column of the table
    state: MembershipState,
) -> None:
    """The membership ends STUCK_SECONDS after its last poll: one request may take the rebalance timeout.

    While the group waits for this member it ends after that timeout.
    """
    assert membership.join(WAIT_SECONDS)
    membership._heartbeat_seconds = 0.01
    if rebalances:
        membership._rebalance_seconds = 0.05
        coordinator.beats = kafka_errors.RebalanceInProgressError.errno
    membership._polled_at = time.monotonic() - silent_seconds
    series = membership._beating
    beating = membership._connections.call_soon(GroupMember._beat, membership, series)
    assert until(lambda: beating.is_done or (coordinator.sent.count("Heartbeat") > 1 and not rebalances))
    assert (membership.state, membership.wants_join) == (state, state is MembershipState.UNJOINED)
    assert len(coordinator.of("LeaveGroup")) == rebalances
    membership._beating = None


def test_a_leader_assigns_between_join_and_sync(membership: Membership, coordinator: Coordinator) -> None:
    """The members of the JoinGroup answer go to the planner, and its assignments into SyncGroup."""
    coordinator.leaders = ["me"]
    coordinator.members = [
        SimpleNamespace(member_id="me", group_instance_id="samerack", metadata=b"mine"),
        SimpleNamespace(member_id="other", group_instance_id="", metadata=bytearray(b"theirs")),
    ]
    coordinator.assign = Mock(return_value={"me": b"", "other": b"plan"})
    assert membership.join(WAIT_SECONDS)
    members = (("me", "samerack", b"mine"), ("other", None, b"theirs"))
    coordinator.assign.assert_called_once_with(Joined(generation=7, protocol="range", me="me", members=members))
    join, sync = coordinator.requests
    assert join.max_version == JOIN_VERSION
    assert (sync.generation_id, sync.member_id, sync.protocol_name) == (7, "me", "range")
    assert sync.assignments == [("me", b""), ("other", b"plan")]
    assert membership.leading
    assert (membership.member_id, membership.leader_id, membership.generation_id) == ("me", "me", 7)


@pytest.mark.parametrize("leader", ["other", "me"], ids=["follows", "skips"])
def test_nothing_is_assigned_if_nothing_is_asked(membership: Membership, coordinator: Coordinator, leader: str) -> None:
    """A follower, and a restarted leader whose assignment stays in force (KIP-814), send no assignments."""
    coordinator.leaders, coordinator.skips = [leader], leader == "me"
    coordinator.assign = lambda _: pytest.fail("asked for a plan")
    assert membership.join(WAIT_SECONDS)
    assert list(coordinator.requests[1].assignments) == []
    assert membership.leading == coordinator.skips


def test_an_assignment_that_cannot_be_read_is_none(membership: Membership, coordinator: Coordinator) -> None:
    """A leader that sent the agent three bytes made it leave and join again every two seconds."""
    coordinator.leaders, coordinator.assignment = ["other"], b"\0\0\0"
    assert membership.join(WAIT_SECONDS)
    assert membership.state is MembershipState.STABLE
    assert membership.assigned == no_partitions()


def test_the_reason_of_a_trigger_is_reported_once(membership: Membership, coordinator: Coordinator) -> None:
    """JoinGroup carries the reason of a trigger up to the limit of brokers, and the next JoinGroup does not.

    A roll joins without its member id and with its instance id, and so gets another place in the order.
    """
    coordinator.leaders = ["other"] * 2
    membership.trigger("x" * 300)
    assert membership.join(WAIT_SECONDS)
    assert membership.member_id == "me"
    membership.rejoin_for_position()
    assert (membership.member_id, membership.state, membership.wants_join) == ("", MembershipState.UNJOINED, True)
    assert not membership.leading
    assert membership.join(WAIT_SECONDS)
    joins = coordinator.of("JoinGroup")
    assert joins[0].reason == f"samerack: {'x' * 300}"[:255]
    assert "xxx" not in joins[1].reason
    assert [(one.member_id, one.group_instance_id) for one in joins] == [("", "samerack")] * 2


def test_leaving_outlasts_a_move_of_the_coordinator(membership: Membership, coordinator: Coordinator) -> None:
    """A LeaveGroup that a former coordinator refused is sent again to the next one."""
    coordinator.leaves = [kafka_errors.NotCoordinatorError.errno, 0]
    assert membership.join(WAIT_SECONDS)
    membership.leave()
    assert [one.members[0].member_id for one in coordinator.of("LeaveGroup")] == ["me", "me"]
    assert membership.member_id == ""


@pytest.mark.parametrize(
    ("found", "message"),
    [
        ("h:1: nothing listens; start it", "h:1: nothing listens; start it"),
        ("", r"127\.0\.0\.1:1: .*nobody answers.*kafka\.bootstrap\.servers"),
    ],
    ids=["a cause is found", "the library's text is shown"],
)
def test_a_bootstrap_that_fails_names_the_setting(monkeypatch: pytest.MonkeyPatch, found: str, message: str) -> None:
    """Any error of the library becomes one error with cause and setting, and its network thread ends."""
    begin = Mock(side_effect=kafka_errors.KafkaTimeoutError("nobody answers"))
    monkeypatch.setattr(Connections, "begin", begin)
    diagnoses = diagnosis.Diagnoses()
    diagnoses.end_attempts = False
    monkeypatch.setattr(client, "_DIAGNOSES", diagnoses)
    monkeypatch.setattr(diagnosis, "why_unreachable", lambda _: found)
    before = set(threading.enumerate())
    with pytest.raises(AgentError, match=f"^kafka {message}"):
        connect({"bootstrap_servers": "127.0.0.1:1"}, timeout=0.3)
    assert begin.call_args.args == (0.3,)
    assert set(threading.enumerate()) <= before  # threads of earlier tests may end meanwhile


# user data, which start a rebalance

TOPIC = "t"
PARTITIONS = {0, 1, 2, 3}
CLUSTER: Any = SimpleNamespace(
    partitions_for_topic=lambda _topic: PARTITIONS,
    topics=lambda: {TOPIC},
    available_partitions_for_topic=lambda _: PARTITIONS,
)
NUDGES = (0, 1, 2, 1000)


@pytest.mark.parametrize("nudges", NUDGES)
def test_sticky_leaders_bear_it(nudges: int) -> None:
    """Their assignors iterate over the former partitions: a list of length -1 made one and its application fail."""
    data = user_data("sticky", nudges) or b""
    of_aiokafka = AiokafkaSticky.assign(
        CLUSTER,
        {"m": ConsumerProtocolMemberMetadata(0, [TOPIC], b""), "agent": ConsumerProtocolMemberMetadata(0, [], data)},
    )
    members = [
        ("m", ConsumerProtocolSubscription(0, [TOPIC], b"")),
        ("agent", ConsumerProtocolSubscription(0, [], data)),
    ]
    group = [SimpleNamespace(member_id=one, group_instance_id=None, metadata=metadata) for one, metadata in members]
    for assigned in (of_aiokafka, KafkaPythonSticky().assign(CLUSTER, group)):
        assert len(assigned["m"].partitions()) == len(PARTITIONS)
        assert not assigned["agent"].partitions()
