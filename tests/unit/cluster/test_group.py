"""A described group as a value: lenient decoding, and which member leads next."""

from __future__ import annotations

from dataclasses import replace

import pytest

from samerack.cluster.group import MemberView, endangers, is_agent, topics_of, view_member
from samerack.protocol.consumer import encode_assignment, encode_subscription
from samerack.protocol.values import Assignment, Subscription, from_pairs, to_pairs
from tests.unit.agent.values import Described, group, member

SUBSCRIPTION = Subscription(version=3, topics=("t",), rack="a")
ASSIGNMENT = Assignment(version=1, partitions=from_pairs([("t", 0), ("t", 2)]))


def test_a_member_is_decoded() -> None:
    """Subscription, assignment, instance id and host are decoded from the broker's answer."""
    seen = view_member(
        Described(
            group_instance_id="pod-1",
            member_metadata=encode_subscription(SUBSCRIPTION),
            member_assignment=encode_assignment(ASSIGNMENT),
        ),
        consumer=True,
    )
    assert (seen.id, seen.instance_id, seen.client_host) == ("m-1", "pod-1", "10.0.0.1")
    assert seen.subscription == SUBSCRIPTION
    assert to_pairs(seen.assigned) == [("t", 0), ("t", 2)]
    assert seen.unreadable is None


READABLE, BROKEN = (encode_subscription(SUBSCRIPTION), encode_assignment(ASSIGNMENT)), (b"\x00", b"\xff")


@pytest.mark.parametrize(
    ("metadata", "assignment", "consumer", "found"),
    [
        (b"", b"", True, (None, 0, ())),
        (BROKEN[0], READABLE[1], True, (None, 2, ("subscription: ",))),
        (READABLE[0], BROKEN[1], True, (SUBSCRIPTION, 0, ("assignment: ",))),
        (*BROKEN, True, (None, 0, ("subscription: ", "; assignment: "))),
        (*BROKEN, False, (None, 0, ())),
    ],
    ids=["rebalancing", "no subscription", "no assignment", "neither", "not of the consumer protocol"],
)
def test_what_cannot_be_decoded_leaves_the_rest_readable(
    metadata: bytes, assignment: bytes, *, consumer: bool, found: tuple[Subscription | None, int, tuple[str, ...]]
) -> None:
    """The reason is given for what is unreadable; empty bytes are no error, and an empty instance id is none."""
    seen = view_member(
        Described(group_instance_id="", member_metadata=metadata, member_assignment=assignment), consumer=consumer
    )
    subscription, owned, reasons = found
    assert (seen.instance_id, seen.subscription, len(seen.assigned)) == (None, subscription, owned)
    assert all(reason in (seen.unreadable or "") for reason in reasons)
    assert bool(seen.unreadable) == bool(reasons)


def test_what_is_described_again_is_not_decoded_again() -> None:
    """Groups are described every second and hardly change; large assignments are not kept in memory for that."""
    large = encode_assignment(Assignment(version=1, partitions=from_pairs([("t", number) for number in range(600)])))
    for assignment, is_same in ((READABLE[1], True), (large, False)):
        first, second = (
            view_member(Described(member_metadata=READABLE[0], member_assignment=assignment), consumer=True)
            for _ in range(2)
        )
        assert first == second
        assert (first.assigned is second.assigned) is is_same


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("/10.0.0.1", "10.0.0.1"),
        ("10.0.0.1", "10.0.0.1"),
        ("pod.example/10.0.0.1", "10.0.0.1"),
        ("/0:0:0:0:0:0:0:1", "::1"),
        ("/2001:db8:0:0:0:0:0:5", "2001:db8::5"),
        ("pod.example/fe80:0:0:0:0:0:0:5%eth0", "fe80::5%eth0"),
        ("/a:b", "a:b"),
        ("", ""),
    ],
)
def test_the_host_is_its_address(host: str, address: str) -> None:
    """Brokers print an address with all its zeros after a slash, with the host name before it if they resolved one.

    Agents advertise the addresses that sockets print: with the brokers' they never matched.
    """
    assert view_member(Described(client_host=host), consumer=True).client_host == address


def test_roundrobin_of_old_clients_is_endangered() -> None:
    """Only roundrobin with a member of subscription v0 may fail on a member without topics."""
    old = replace(member("m-1"), subscription=Subscription(version=0, topics=("t",)))
    assert endangers(group(member("m-2", "t"), old, protocol="roundrobin"))
    assert not endangers(group(member("m-2", "t"), old, protocol="range"))
    assert not endangers(group(member("m-2", "t"), member("m-3", readable=False), protocol="roundrobin"))


def test_topics_of_all_subscriptions() -> None:
    """Each subscribed topic occurs once."""
    assert topics_of([SUBSCRIPTION.topics, ("t", "u")]) == {"t", "u"}
    assert topics_of([]) == frozenset()


@pytest.mark.parametrize(
    ("one", "agent"),
    [
        (member("x", instance_id="other", client_id="samerack"), True),
        (member("x", "t", instance_id="other", client_id="samerack"), False),
        (member("x", client_id="samerack"), False),
        (member("x", instance_id="other", client_id="orders"), False),
    ],
    ids=["another agent", "reads a topic", "not static", "another client"],
)
def test_agents_are_distinguished_from_consumers(one: MemberView, agent: bool) -> None:  # noqa: FBT001 - a column of the table
    """Two agents that do not know each other must not treat each other as consumers."""
    assert is_agent(one, "samerack") is agent
