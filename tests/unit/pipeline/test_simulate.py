"""The simulated fleet: valid records, states that agree with samples, equal bytes for equal seeds, known faults."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from functools import cache
from itertools import pairwise

import pytest
from pydantic import ValidationError

from samerack.common.errors import SettingsError
from samerack.common.records import UNKNOWN, GroupState, TrafficSample, encode
from samerack.pipeline.simulate import SORTS, Faults, Message, messages, with_faults
from samerack.pipeline.simulate_cast import START, Fleet

FLEET = Fleet(groups=40, clusters=3, days=2, step_seconds=7200, state_seconds=7200, seed=11)
RECORDS: dict[str, type[TrafficSample | GroupState]] = {"sample": TrafficSample, "state": GroupState}


@cache
def all_of(fleet: Fleet) -> tuple[Message, ...]:
    """Every message of the fleet, simulated once for all tests."""
    return tuple(messages(fleet))


def test_every_sample_is_what_encode_writes() -> None:
    """Samples are built from a template for speed, and equal the bytes that `encode` writes."""
    for message in all_of(FLEET):
        record = RECORDS[message.kind].model_validate_json(message.value)
        assert encode(record) == message.value
        assert message.key.decode() == f"{record.cluster}/{record.group}"


def test_no_id_comes_twice() -> None:
    """Ids are unique over kinds, groups, topics, racks and time, and have at most 64 characters."""
    ids = [json.loads(message.value)["id"] for message in all_of(FLEET)]
    assert len(set(ids)) == len(ids)
    assert max(map(len, ids)) <= 64


def test_the_same_seed_gives_the_same_bytes() -> None:
    """The same seed gives the same fleet, another seed another one."""
    assert all_of(FLEET) == tuple(messages(FLEET))
    assert all_of(FLEET) != all_of(Fleet(groups=40, clusters=3, days=2, step_seconds=7200, seed=12))


def test_samples_agree_with_the_state_before_them() -> None:
    """The bytes that a state implies between two racks equal the sum of the samples of that step."""
    expected: dict[tuple[str, str, str, str], float] = {}
    seen: dict[tuple[str, str, str, str], int] = defaultdict(int)
    now = START
    for message in [*all_of(FLEET), Message("state", b"", b"", -1)]:
        if message.at != now:
            assert seen.keys() == expected.keys()
            assert all(seen[key] == pytest.approx(expected[key], abs=100) for key in expected)
            expected, now = {}, message.at
            seen.clear()
        if message.value and message.kind == "state":
            expected.update(_by_racks(GroupState.model_validate_json(message.value)))
        elif message.value:
            one = TrafficSample.model_validate_json(message.value)
            seen[one.group, one.topic, one.client_rack, one.replica_rack] += one.bytes


def _by_racks(state: GroupState) -> dict[tuple[str, str, str, str], float]:
    """The bytes between racks in a step, by the rules of KIP-392."""
    result: dict[tuple[str, str, str, str], float] = defaultdict(float)
    names = [*state.racks, ""]
    for topic in state.topics:
        for replicas, owner, rate in zip(topic.replicas, topic.owner, topic.bytes_per_second, strict=True):
            member = state.members[owner]
            any_replica = state.rack_aware_fetch and member.fetches_with_rack
            serving = member.rack if any_replica and member.rack in replicas else replicas[0]
            key = (state.group, topic.name, names[member.rack], names[serving])
            result[key] += rate * FLEET.step_seconds
    return result


def test_a_group_may_lose_its_racks_be_led_and_see_replicas_move() -> None:
    """Each of these three events occurs in the states."""
    history: dict[str, list[GroupState]] = defaultdict(list)
    for message in all_of(FLEET):
        if message.kind == "state":
            state = GroupState.model_validate_json(message.value)
            history[state.group].append(state)

    def aware(state: GroupState) -> int:
        return sum(member.fetches_with_rack for member in state.members)

    changed = Counter(
        what
        for states in history.values()
        for before, after in pairwise(states)
        for what, happened in {
            "led": (before.role, after.role) == ("", "leading"),
            "lost": aware(before) > aware(after) == 0,
            "moved": [topic.replicas for topic in before.topics] != [topic.replicas for topic in after.topics],
        }.items()
        if happened
    )
    assert min(changed["led"], changed["lost"], changed["moved"]) >= 1
    assert all(member.rack >= UNKNOWN for states in history.values() for state in states for member in state.members)


@pytest.mark.parametrize("wrong", [{"groups": 0}, {"racks": 51}, {"days": 0.0}])
def test_a_fleet_that_cannot_be_is_refused(wrong: dict[str, int]) -> None:
    """The error names the key and the allowed range."""
    with pytest.raises(SettingsError, match=r"at least|at most|more than"):
        Fleet(**wrong)


def test_good_records_survive_all_faults_exactly_once() -> None:
    """Without duplicates and malformed records the stream equals the original, except for the order of late samples."""
    plain = all_of(FLEET)
    spoilt = list(with_faults(plain, Faults(duplicates=0.1, late=0.05, malformed=0.05, late_seconds=20_000)))
    faults = Counter(message.fault for message in spoilt)
    good = [message._replace(fault="") for message in spoilt if message.fault in ("", "late")]
    assert sorted(good) == sorted(plain)
    samples = sum(message.kind == "sample" for message in plain)
    assert faults["duplicate"] == pytest.approx(0.1 * len(plain), rel=0.25)
    assert faults["late"] == pytest.approx(0.05 * samples, rel=0.25)
    assert sum(faults[sort] for sort in SORTS) == pytest.approx(0.05 * len(plain), rel=0.25)
    assert spoilt == list(with_faults(plain, Faults(duplicates=0.1, late=0.05, malformed=0.05, late_seconds=20_000)))


def test_late_samples_come_after_later_ones() -> None:
    """A late sample comes exactly as late as requested, unless the fleet ends before."""
    newest, late = 0, 0
    for message in with_faults(all_of(FLEET), Faults(late=0.1, late_seconds=14_400)):
        newest = max(newest, message.at)
        if message.fault == "late" and newest < START + 2 * 86_400_000 - 7_200_000:
            assert newest - message.at == 14_400_000
            late += 1
    assert late > 10


def test_every_sort_of_malformed_record_is_refused() -> None:
    """All sorts of malformed records occur, and no reader of the contract accepts one."""
    spoilt = [message for message in with_faults(all_of(FLEET), Faults(malformed=0.2)) if message.fault]
    assert {message.fault for message in spoilt} == set(SORTS)
    for message in spoilt:
        with pytest.raises(ValidationError):
            RECORDS[message.kind].model_validate_json(message.value)


def test_a_share_beyond_one_is_refused() -> None:
    """The error says that five percent is 0.05."""
    with pytest.raises(SettingsError, match=r"0\.05"):
        Faults(late=5)
