"""The records between agent and pipeline: what is written can be read, by newer and older readers too."""

from __future__ import annotations

import json

import pytest
from pydantic import ValidationError

from common.records import SCHEMA, UNKNOWN, GroupState, MemberState, TopicState, TrafficSample, encode

SAMPLE = TrafficSample(
    id="a",
    agent="samerack@host",
    cluster="kafka",
    group="orders",
    topic="events",
    client_rack="rack-a",
    replica_rack="",
    method="estimated",
    window_start=0,
    window_end=60_000,
    bytes=5,
    records=1,
)
STATE = GroupState(
    id="b",
    agent="samerack@host",
    cluster="kafka",
    group="orders",
    at=1,
    kind="classic",
    state="Stable",
    assignor="range",
    role="leading",
    rack_aware_fetch=None,
    racks=("rack-a", "rack-b"),
    broker_racks=1,
    members=(MemberState(id="m", client_id="c", rack=1, fetches_with_rack=True, topics=(0,)),),
    topics=(TopicState(name="events", replicas=((0,), (UNKNOWN,)), owner=(0, UNKNOWN), bytes_per_second=(1.5, 0.0)),),
)


@pytest.mark.parametrize("record", [SAMPLE, STATE])
def test_what_is_written_can_be_read(record: TrafficSample | GroupState) -> None:
    """Both kinds survive the way through JSON."""
    assert type(record).model_validate_json(encode(record)) == record


def test_the_version_is_called_schema_in_json() -> None:
    """`schema` would hide a method of pydantic, so the field has another name."""
    assert json.loads(encode(SAMPLE))["schema"] == SCHEMA


def test_a_field_of_a_newer_agent_is_ignored() -> None:
    """A fleet is never upgraded at once."""
    newer = {**json.loads(encode(SAMPLE)), "schema": SCHEMA + 1, "zone_id": "use1-az1"}
    assert TrafficSample.model_validate_json(json.dumps(newer)).group == "orders"


def test_a_missing_field_is_refused() -> None:
    """What is needed is not guessed."""
    less = {key: value for key, value in json.loads(encode(SAMPLE)).items() if key != "bytes"}
    with pytest.raises(ValidationError, match="bytes"):
        TrafficSample.model_validate_json(json.dumps(less))
