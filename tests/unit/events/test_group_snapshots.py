"""One group as polled, as planned and as measured: equal snapshots, so that only real changes differ."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from samerack.cluster.group import GroupView, MemberView
from samerack.cluster.racks import client_id_of
from samerack.events.cause import clients_of, of_plan, of_traffic, of_view, share_of
from samerack.protocol.values import Subscription, from_pairs
from samerack.traffic.snapshot import PartitionTraffic
from tests.unit.agent.measured import A, B, group, member, problem

COUNTS = {"clicks": 3}
MADE = problem(((A,), (B,), (B,)), {"one": A, "two": B}, {"one": [0], "two": [1, 2]})


def seen(name: str, *numbers: int, topics: tuple[str, ...] = ("clicks",)) -> MemberView:
    """A member as DescribeGroups shows it."""
    return MemberView(
        id=name,
        instance_id=None,
        client_id=f"client-{name}",
        client_host="10.0.0.1",
        subscription=Subscription(topics=topics),
        assigned=from_pairs([("clicks", number) for number in numbers]) if numbers else from_pairs([]),
    )


VIEW = GroupView(
    name="orders",
    state="Stable",
    protocol_type="consumer",
    protocol="cooperative-sticky",
    members=(seen("one", 0), seen("two", 1, 2), seen("agent", topics=())),
)


def test_a_poll_a_plan_and_measuring_show_the_same() -> None:
    """An agent in the group is in none of them."""
    polled = of_view(VIEW, partitions=COUNTS)
    clients = clients_of(VIEW.members, agent="samerack")
    assert clients == {"one": "client-one", "two": "client-two"}
    assert of_plan(MADE, MADE.owner, clients=clients, cooperative=True) == polled
    owners = (("one", 0), ("two", 1), ("two", 2))
    measured = replace(
        group(assignor="cooperative-sticky", made=MADE),
        members=tuple(replace(member(name, A), topics=frozenset({"clicks"})) for name in ("one", "two")),
        partitions=tuple(
            PartitionTraffic(
                partition=("clicks", number),
                member=name,
                serving_rack=None,
                bytes_per_second=None,
                lag_records=None,
            )
            for name, number in owners
        ),
    )
    assert of_traffic(measured, partitions=COUNTS) == polled


def test_a_plan_for_members_that_nobody_polled() -> None:
    """Client ids are read from member ids, and a withheld partition has no owner."""
    withheld = np.where(MADE.number_of == 1, np.int32(-1), MADE.owner)
    snapshot = of_plan(MADE, withheld, clients={}, cooperative=True)
    assert snapshot.members["one"].client_id == client_id_of("one")
    assert snapshot.owners() == {("clicks", 0): "one", ("clicks", 2): "two"}


def test_the_share_of_what_members_own() -> None:
    """The share is by weight, and unknown for an unknown group."""
    assert share_of(MADE) == pytest.approx(0.0)
    assert share_of(problem(((A,), (A,)), {"one": B}, {"one": [0, 1]})) == pytest.approx(1.0)
    assert share_of(None) is None
