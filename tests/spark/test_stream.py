"""Records become rows: which records count, what is added up, which are bad and why."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable
from datetime import date, datetime
from typing import TYPE_CHECKING

import pytest

from samerack.pipeline import parsing
from samerack.pipeline.parsing import BYTES_PER_SECOND, LONGEST_NAME, quarantined, states, traffic
from samerack.pipeline.simulate import Faults, messages, with_faults
from samerack.pipeline.simulate_cast import Fleet
from tests.records import MINUTE, START
from tests.spark.records import EVER, SETTINGS, raw, sample, state

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DAY = date(2025, 11, 1)
MAX_IN_A_MINUTE = 60 * BYTES_PER_SECOND
ODD = "longer than 1000 characters, or with control characters"
FIELD = "a field is missing, or of the wrong type"
NOON = datetime(2025, 11, 1, 12)  # noqa: DTZ001 - Spark gives times without a zone; the session's is UTC


def parsed(frame: DataFrame) -> DataFrame:
    """Parsed with the settings for which the records are made."""
    return parsing.parsed(frame, SETTINGS)


def reasons(frame: DataFrame) -> list[str | None]:
    """The reason why each record is bad, or None, in order."""
    return [row["reason"] for row in parsed(frame).orderBy("kafka_topic", "offset").select("bad.reason").collect()]


@pytest.fixture(autouse=True)
def _in_utc(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set the process's zone to UTC, because PySpark shows times in it."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()


def test_each_good_sample_is_a_row_of_its_minute(spark: SparkSession) -> None:
    """Whichever agent of an election counted it, the election has; an agent without one counts alone."""
    later = {"window_start": START + MINUTE, "window_end": START + MINUTE + 1}
    values = [
        sample(1),
        sample(2, window_start=START + 59_999, window_end=START + 70_000, bytes=5, records=1),
        sample(3, **later, bytes=7),
        sample(4, replica_rack=""),
        sample(5, method="estimated"),
        sample(7, agent="other@host"),
        sample(8, agent="other@host", election=""),
        sample(9, agent="old@host", election=...),
        sample(6, bytes=-1),
        b"nonsense",
    ]
    rows = traffic(parsed(raw(spark, samples=values, states=[state(1)]))).collect()
    one, who = ("east", "orders", "clicks", "rack-a"), "samerack"
    assert Counter(map(tuple, rows)) == {
        (*one, "rack-b", "exact", who, NOON, 1000, 10, 1, DAY): 2,
        (*one, "rack-b", "exact", who, NOON, 5, 1, 1, DAY): 1,
        (*one, "rack-b", "exact", who, NOON.replace(minute=1), 7, 10, 1, DAY): 1,
        (*one, "", "exact", who, NOON, 1000, 10, 1, DAY): 1,
        (*one, "rack-b", "estimated", who, NOON, 1000, 10, 1, DAY): 1,
        (*one, "rack-b", "exact", "other@host", NOON, 1000, 10, 1, DAY): 1,
        (*one, "rack-b", "exact", "old@host", NOON, 1000, 10, 1, DAY): 1,
    }


def test_a_state_keeps_everything_that_the_record_says(spark: SparkSession) -> None:
    """A state is one row with its lists; unknown rates are an empty list."""
    without_rates = [{"name": "clicks", "replicas": [[0]], "owner": [0]}]
    frame = parsed(raw(spark, samples=[sample(1)], states=[state(1), state(2, topics=without_rates)]))
    first, second = (row.asDict(recursive=True) for row in states(frame).orderBy("id").collect())
    assert first == {
        **json.loads(state(1)),
        "at": NOON,
        "day": DAY,
    }
    assert second["topics"] == [
        {
            "name": "clicks",
            "replicas": [[0]],
            "owner": [0],
            "bytes_per_second": [],
            **dict.fromkeys(("tasks", "weights", "loads")),
        }
    ]


def test_bad_records_are_kept_whole_with_the_reason_and_their_place(spark: SparkSession) -> None:
    """A row of the quarantine has the reason, the unchanged bytes, topic, partition and offset."""
    frame = parsed(raw(spark, samples=[sample(1), b"\xff{", sample(2, bytes="many")], states=[None]))
    rows = quarantined(frame).drop("at", "day", "records").collect()
    assert {(row[0], None if row[1] is None else bytes(row[1]), *row[2:]) for row in rows} == {
        ("not JSON", b"\xff{", SETTINGS.traffic_topic, 0, 1),
        ("bytes: missing, or of the wrong type", sample(2, bytes="many"), SETTINGS.traffic_topic, 0, 2),
        ("empty", None, SETTINGS.states_topic, 0, 0),
    }


def unspaced(record: bytes) -> bytes:
    """The record without white space between values, as agents write it, even if it is no JSON."""
    return record.replace(b'": ', b'":').replace(b', "', b',"')


@pytest.mark.parametrize("written", [bytes, unspaced])
def test_every_rule_names_what_is_wrong_with_a_sample(spark: SparkSession, written: Callable[[bytes], bytes]) -> None:
    """Each way to spoil a sample has its reason; a good sample has none."""
    soon = int(time.time() * 1000) + 3_600_000
    cases = {
        sample(1): None,
        b"": "empty",
        b'{"schema": 1, "id"': "not JSON",
        b"[" + sample(1) + b"]": "not a JSON object",
        b"17": "not a JSON object",
        sample(1, id=...): "id: missing, or of the wrong type",
        sample(1, group=None): "group: missing, or of the wrong type",
        sample(1, schema=0): "schema: unknown version 0",
        sample(1, schema=99, bytes=...): "schema: unknown version 99",
        sample(1, schema=2**31): "schema: missing, or of the wrong type",
        sample(1, id=""): "id: not of 1 to 64 characters",
        sample(1, id="x" * 64): None,
        sample(1, id="x" * 65): "id: not of 1 to 64 characters",
        **{
            sample(1, bytes=value): "bytes: missing, or of the wrong type"
            for value in (0.5, "1", True, [1], "NaN", {"": 1}, None)
        },
        sample(1, bytes=float("inf")): "not JSON",
        sample(1, schema=-1): "schema: unknown version -1",
        sample(1, bytes=2**63): "bytes: missing, or of the wrong type",
        sample(1, bytes=2**62): "bytes: absurdly many",
        sample(1, bytes=MAX_IN_A_MINUTE, records=MAX_IN_A_MINUTE): None,
        sample(1, bytes=MAX_IN_A_MINUTE + 1): "bytes: absurdly many",
        sample(1, records=MAX_IN_A_MINUTE + 1): "records: absurdly many",
        sample(1, bytes=MAX_IN_A_MINUTE, window_end=START + 1): None,
        sample(1, bytes=60 * MAX_IN_A_MINUTE, window_end=START + 60 * MINUTE): None,
        sample(1, records=-1): "records: negative",
        sample(1, window_end=START): "window: ends before it begins",
        sample(1, window_end=START + 86_400_000): "window: absurdly long",
        sample(1, window_start=2**62, window_end=2**62 + 1): "window_start: in the future",
        sample(1, window_start=soon, window_end=soon + 1): "window_start: in the future",
        sample(1, window_start="2025-11-01"): "window_start: missing, or of the wrong type",
        sample(1, window_start=-(2**63), window_end=2**63 - 1): "window_start: negative",
        sample(1, window_start=0, window_end=1): f"window_start: more than {EVER} days ago",
        sample(1, method="guessed"): "method: unknown",
        sample(1, topic="clicks/1"): "topic: no name of a Kafka topic",
        sample(1, topic="x" * 249): None,
        sample(1, topic="x" * 250): "topic: no name of a Kafka topic",
        sample(1, group="x" * LONGEST_NAME): None,
        sample(1, group="x" * (LONGEST_NAME + 1)): f"group: {ODD}",
        sample(1, group="orders\nbatch 7: all is well"): f"group: {ODD}",
        sample(1, cluster="\x1b[2J"): f"cluster: {ODD}",
        sample(1, client_rack="rack\u2028a"): f"client_rack: {ODD}",
        sample(1, election="\x00"): f"election: {ODD}",
        sample(1, group="bücher 書籍"): None,
    }
    assert reasons(raw(spark, samples=[written(case) for case in cases])) == list(cases.values())


def test_every_rule_names_what_is_wrong_with_a_state(spark: SparkSession) -> None:
    """Each way to spoil a state has its reason; a sample in the states' topic is a state without required fields."""
    member, topic = json.loads(state(1))["members"][0], json.loads(state(1))["topics"][0]
    cases = {
        state(1): None,
        state(1, rack_aware_fetch=True): None,
        state(1, members=[]): None,
        state(1, members=...): "members: missing, or of the wrong type",
        state(1, topics={}): "topics: missing, or of the wrong type",
        state(1, at=-1): "at: negative",
        state(1, kind="new"): "kind: unknown",
        state(1, racks=[None]): "racks: one is null",
        state(1, members=[{**member, "rack": None}]): f"members: {FIELD}",
        state(1, topics=[{"name": "clicks"}]): f"topics: {FIELD}",
        state(1, planning={"by_bytes": True, "max_skew": 0}): f"planning: {FIELD}",
        state(1, planning=None): None,
        state(1, rack_aware_fetch="perhaps"): "rack_aware_fetch: missing, or of the wrong type",
        sample(1): "at: missing, or of the wrong type",
        state(1, at=0): f"at: more than {EVER} days ago",
        state(1, assignor="\x1b]0;title\x07"): f"assignor: {ODD}",
        state(1, racks=["rack-a", "\n"]): f"racks: {ODD}",
        state(1, racks=["r"] * 1001): "racks: more than 1000",
        state(1, members=[{**member, "client_id": "x" * 1001}]): f"members: client_id {ODD}",
        state(1, members=[{**member, "id": "\r"}]): f"members: id {ODD}",
        state(1, topics=[{**topic, "name": "a b"}]): "topics: no name of a Kafka topic",
        state(1, topics=[{**topic, "bytes_per_second": [1e12, 0]}]): None,
        **{
            state(1, topics=[{**topic, "bytes_per_second": [rate, 1]}]): "topics: a rate is out of range"
            for rate in (None, -1, 1e13, 1e300)
        },
        **{
            state(1, topics=[{**topic, "bytes_per_second": [rate, 1]}]): "not JSON"
            for rate in (float("nan"), float("inf"), float("-inf"))
        },
        state(1, topics=[{**topic, "bytes_per_second": ["NaN", 1]}]): f"topics: {FIELD}",
        state(1, topics=[{**topic, "owner": [0] * 1_000_001}]): "topics: more than 1000000 partitions",
        state(1, racks=["r"] * 1000, topics=[{**topic, "owner": [0] * 100_001}]): (
            "topics: more than 100000000 partitions times racks"
        ),
        state(1, members=[member] * 10_001, topics=[topic] * 10_000): (
            "members: more than 100000000 members times topics"
        ),
    }
    assert reasons(raw(spark, states=list(cases))) == list(cases.values())


def compact(record: bytes) -> bytes:
    """The record as agents write it."""
    return json.dumps(json.loads(record), ensure_ascii=False, separators=(",", ":")).encode()


@pytest.mark.parametrize("made", [sample, state])
@pytest.mark.parametrize("spaced", [True, False])
def test_a_record_is_one_object_and_nothing_else(
    spark: SparkSession,
    made: Callable[..., bytes],
    spaced: bool,  # noqa: FBT001 - a table
) -> None:
    """White space may surround the object; another value, text, or a bracket too many make the record bad."""
    good = made(1) if spaced else compact(made(1))
    after = "text after the JSON object"
    cases = {
        good: None,
        b"\n" + good: None,
        b" \t\r\n" + good + b"\r\n": None,
        **{good + more: after for more in (good, b"\n" + good, b"," + good, b" junk", b"//", b"\x00", b"{", b"null")},
        **{good + more: after for more in (b"}", b"]", b"] junk", b"}} junk", b"}]}", b"]}]", b',"broken":1} junk')},
        b"[" + good + b"]": "not a JSON object",
        b"\xef\xbb\xbf" + good: "not JSON",
        good.replace(b'"', b"'"): "not JSON",
        good[:-1]: "not JSON",
        good[:-1] + b",}": "not JSON",
        good[:-1] + b"]": "not JSON",
        b" \n ": "not JSON",
        b"{} {}": after,
        good[:-1] + b', "group": "other"}': "a field twice",
        good[:-1] + b', "new": ' + b"9" * 1001 + b"}": "not JSON",
        good[:-1] + b', "new": {"a": 1, "a": 2}}': "a field twice",
        good.replace(b"orders", b"\\ud800"): "half of a surrogate pair",
        good.replace(b"orders", b"\\uDE00\\uD83D"): "half of a surrogate pair",
        good.replace(b"orders", b"\\ud83d\\ude00"): None,
        good.replace(b"orders", b"\\\\ud800"): None,
    }
    assert reasons(raw(spark, **{f"{made.__name__}s": list(cases)})) == list(cases.values())


@pytest.mark.parametrize("written", [bytes, compact])
def test_what_is_no_text_is_none_in_a_sample(spark: SparkSession, written: Callable[[bytes], bytes]) -> None:
    """Spark's parser makes texts of all values; texts that look like other values stay good."""
    others: tuple[object, ...] = (5, -5, 5.5, 1e9, True, False, [1], [], {"a": 1}, {})
    names = ("id", "agent", "cluster", "group", "topic", "client_rack", "replica_rack", "method", "election")
    cases = {
        **{sample(1, group=value): "group: missing, or of the wrong type" for value in others},
        **{sample(1, **{name: 5}): f"{name}: missing, or of the wrong type" for name in names},
        **{
            sample(1, group=text): None
            for text in ("5", "-5.5", "1e9", "true", "false", "null", "[1]", "{", "}", '"5"', '":', "\\", "\\u0041")
        },
        sample(1, client_rack="1", replica_rack="2"): None,
        sample(1, election=None): None,
        sample(1, group=5, schema=2): "schema: unknown version 2",
        # unknown fields, among them those of states, may be anything
        sample(1, members=5, topics={"x": [5]}, kind=7, at="x"): None,
        sample(1, new={"group": 5, "topic": [None]}): None,
    }
    frame = raw(spark, samples=[written(case) for case in cases])
    assert reasons(frame) == list(cases.values())


def test_every_field_within_a_state_is_of_its_type(spark: SparkSession) -> None:
    """A value of another type and a null in a list are named by the state's field, whether it may be missing or not."""
    member, topic = json.loads(state(1))["members"][0], json.loads(state(1))["topics"][0]
    planning = json.loads(state(1))["planning"]
    mistyped = "missing, or of the wrong type"
    of_member: list[dict[str, object]] = [
        {"id": 5},
        {"client_id": True},
        {"rack": 2**31},
        {"rack": "0"},
        {"rack": 0.5},
        {"topics": ["0"]},
    ]
    of_member += [{"topics": 0}, {"client": "0"}, {"tells_rack": 1}, {"fetches_with_rack": "yes"}]
    of_topic: list[dict[str, object]] = [
        {"name": 5},
        {"name": {}},
        {"owner": [0.5, 0]},
        {"replicas": [0, 1]},
        {"tasks": "x"},
        {"weights": [{}]},
    ]
    of_topic += [{"bytes_per_second": "x"}, {"bytes_per_second": ["1.5", 2]}, {"owner": [2**31, 0]}]
    nulls: list[dict[str, object]] = [{"owner": [0, None]}, {"replicas": [[0, None], [1]]}, {"replicas": [None, [1]]}]
    nulls += [{"tasks": [None, 1]}, {"weights": [1, None]}]
    cases = {
        **{state(1, members=[member, {**member, **wrong}]): f"members: {FIELD}" for wrong in of_member},
        **{state(1, topics=[topic, {**topic, **wrong}]): f"topics: {FIELD}" for wrong in of_topic},
        **{state(1, topics=[topic, {**topic, **wrong}]): "topics: a list has null" for wrong in nulls},
        state(1, members=[{**member, "topics": [0, None]}]): "members: a list has null",
        state(1, members=[member, None]): f"members: {FIELD}",
        state(1, members=[member, 5]): f"members: {mistyped}",
        state(1, racks=["rack-a", 5]): f"racks: {mistyped}",
        state(1, racks=5): f"racks: {mistyped}",
        state(1, kind=5): f"kind: {mistyped}",
        state(1, at=0.5): f"at: {mistyped}",
        state(1, broker_racks=2**31): f"broker_racks: {mistyped}",
        state(1, rack_aware_fetch=1): f"rack_aware_fetch: {mistyped}",
        state(1, planning=5): f"planning: {FIELD}",
        state(1, planning={**planning, "by_bytes": 1}): f"planning: {FIELD}",
        state(1, planning={**planning, "max_skew": 2**63}): f"planning: {FIELD}",
        state(1, refusal=5): f"refusal: {mistyped}",
        state(1, refusal="x" * 1001): "refusal: longer than 1000 characters, or with control characters",
        state(1, refusal=None): None,
        state(1, members=[{**member, "id": "5", "client_id": "true"}], racks=["1", "2"]): None,
        state(1, members=[{**member, "client": None, "tells_rack": None}]): None,
        state(1, topics=[{**topic, "tasks": None, "weights": None}]): None,
        # unknown fields, among them those of samples, may be anything
        state(1, bytes="x", topic=5, new={"racks": [5, None]}, broken=5): None,
        state(1, members=[{**member, "name": 5, "owner": [None]}]): None,
    }
    assert reasons(raw(spark, states=list(cases))) == list(cases.values())


def test_every_sort_of_malformed_record_that_is_simulated_is_bad(spark: SparkSession) -> None:
    """In a simulated fleet exactly the malformed records are bad."""
    fleet = Fleet(groups=4, days=0.02, start=START)
    made = list(with_faults(messages(fleet), Faults(duplicates=0.1, late=0.1, malformed=0.5)))
    frame = raw(
        spark,
        samples=[message.value for message in made if message.kind == "sample"],
        states=[message.value for message in made if message.kind == "state"],
    )
    ordered = sorted(made, key=lambda message: message.kind != "state")  # the states' topic is first by name
    wrong = reasons(frame)
    assert len(wrong) == len(made)
    assert [reason is not None for reason in wrong] == [
        message.fault not in {"", "late", "duplicate"} for message in ordered
    ]


def test_a_newer_agents_fields_are_left_out_and_its_versions_count_nowhere(spark: SparkSession) -> None:
    """New fields are ignored; a record of a new version, whose fields may mean something else, is bad."""
    member = {**json.loads(state(1))["members"][0], "zone": "z"}
    frame = parsed(
        raw(
            spark,
            samples=[sample(1, new={"a": [1]}, broken="x"), sample(2, schema=2)],
            states=[state(1, members=[member]), state(2, schema=2)],
        )
    )
    assert [row["bytes"] for row in traffic(frame).collect()] == [1000]
    assert [row["members"][0].asDict(recursive=True) for row in states(frame).collect()] == (
        json.loads(state(1))["members"]
    )
    assert [row["reason"] for row in quarantined(frame).collect()] == ["schema: unknown version 2"] * 2


def test_only_the_beginning_of_a_long_bad_record_is_kept(spark: SparkSession) -> None:
    """Its fields, which may be as long, are not kept."""
    long = sample(1, topic="x" * 200_000)
    (row,) = parsed(raw(spark, samples=[long])).collect()
    assert bytes(row["bad"]["raw"]) == long[:65_536]
    assert (row["bad"]["topic"], row["sample"], row["state"]) == (SETTINGS.traffic_topic, None, None)


def test_a_record_is_known_again_by_all_of_its_bytes(spark: SparkSession) -> None:
    """Equal bytes are the same record; another record with the same id is not."""
    frame = parsed(raw(spark, samples=[sample(1), sample(1), sample(1, bytes=1), b"bad", b"bad"]))
    first, again, other, *bad = (bytes(row["key"]) for row in frame.orderBy("offset").collect())
    assert first == again != other
    assert len({first, other, *bad}) == 4
