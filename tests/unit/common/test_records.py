"""The records between agent and pipeline: newer and older readers can read them, too."""

from __future__ import annotations

import json

import pytest
from pydantic import ValidationError

from samerack.common.records import SCHEMA, GroupState, TrafficSample, encode
from tests.records import SAMPLE, STATE


@pytest.mark.parametrize("record", [SAMPLE, STATE])
def test_what_is_written_can_be_read(record: TrafficSample | GroupState) -> None:
    """Both kinds of record are equal after writing and reading JSON."""
    assert type(record).model_validate_json(encode(record)) == record


def test_the_version_is_called_schema_in_json() -> None:
    """`schema` would hide a method of pydantic, so the field has another name."""
    assert json.loads(encode(SAMPLE))["schema"] == SCHEMA


def test_a_field_of_a_newer_agent_is_ignored() -> None:
    """Agents of different versions may run at the same time."""
    newer = {**json.loads(encode(SAMPLE)), "schema": SCHEMA + 1, "zone_id": "use1-az1"}
    assert TrafficSample.model_validate_json(json.dumps(newer)).group == "orders"


def test_a_state_of_an_older_agent_does_not_say_who_sends_its_rack() -> None:
    """The state is still read, with an unknown value."""
    state = json.loads(encode(STATE))
    for member in state["members"]:
        del member["tells_rack"]
    (member,) = GroupState.model_validate_json(json.dumps(state)).members
    assert member.tells_rack is None


def test_a_missing_field_is_refused() -> None:
    """A required field has no default."""
    less = {key: value for key, value in json.loads(encode(SAMPLE)).items() if key != "bytes"}
    with pytest.raises(ValidationError, match="bytes"):
        TrafficSample.model_validate_json(json.dumps(less))
