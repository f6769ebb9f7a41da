"""Tasks and state of live members, from bytes that Kafka's own classes and a real application wrote."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from samerack.protocol.consumer import encode_subscription
from samerack.protocol.streams_values import LATEST_OFFSET
from samerack.protocol.values import Subscription
from samerack.settings.leading import RackSettings
from samerack.traffic import groups
from samerack.traffic.streams_application import standbys_now
from samerack.traffic.streams_instances import KnownBy, match, of_classic
from samerack.traffic.streams_members import from_subscription
from tests.unit.agent.values import Described
from tests.unit.golden import GOLDEN, golden
from tests.unit.traffic.live_streams import instances


@pytest.mark.parametrize(("asked", "answer"), golden("decode-streams-subscription-info"))
def test_state_is_what_the_client_reported(asked: dict[str, Any], answer: dict[str, Any]) -> None:
    """Process, tags and offset sums of a member are those that Kafka reads from the same bytes, in every version."""
    user_data = bytes.fromhex(asked["hex"])
    member = Described(
        member_metadata=encode_subscription(Subscription(version=3, topics=("t",), rack="a", user_data=user_data))
    )
    (client,) = instances(member).clients
    assert client.process.uuid == UUID(answer["process_id"])
    # before version 7 the tasks that it ran may have no state, so that they prove none
    known = {t: at for t, at in answer["task_offset_sums"].items() if answer["version"] >= 7 or at != LATEST_OFFSET}
    assert {str(task): offsets for task, offsets in client.offset_sums.items()} == known
    assert dict(from_subscription(user_data).tags) == answer["client_tags"]
    assert instances(member).stateful == {int(task.partition("_")[0]) for task in known}


def test_a_real_application_is_read_whole() -> None:
    """DescribeGroups of a real application of Kafka Streams 4.3: three instances, one with two threads, and standbys.

    It counts records of `in` behind a repartition topic; the changelog follows from where its members have state.
    """
    described = json.loads((GOLDEN / "streams-live-classic.json").read_text("utf-8"))
    raw = SimpleNamespace(
        group_id=described["group"],
        group_state=described["state"],
        protocol_type="consumer",
        protocol_data=described["protocol"],
        members=[
            Described(
                member_id=one["member_id"],
                client_id=one["client_id"],
                client_host=one["client_host"],
                member_metadata=bytes.fromhex(one["metadata"]),
                member_assignment=bytes.fromhex(one["assignment"]),
            )
            for one in described["members"]
        ],
    )
    found = of_classic(raw, groups.classic(raw, racks=RackSettings(), agent=""))
    assert sorted(len(one.members) for one in found.clients) == [1, 1, 2]
    assert {one.members[0].rack.rack: one.members[0].rack.source for one in found.clients} == {
        "rack-a": "subscription",
        "rack-b": "subscription",
        "rack-c": "client-tag",
    }
    reads = {str(task): partitions for task, partitions in found.sources}
    assert reads == {
        **{f"0_{number}": (("in", number),) for number in range(6)},
        **{f"1_{number}": (("app-classic-partitions-repartition", number),) for number in range(6)},
    }
    assert sorted(str(task) for one in found.clients for task in one.active) == sorted(reads)
    assert sorted(str(task) for one in found.clients for task in one.standby) == [f"1_{number}" for number in range(6)]
    assert standbys_now(found) == 1
    assert found.stateful == {1}
    logs = {"app-classic-counts-changelog": 6}
    (log,) = match("app-classic", logs, found.sources, stateful=found.stateful, given={})
    assert (log.subtopology, log.known_by) == (1, KnownBy.STATE)
    assert found.unknown == ()
