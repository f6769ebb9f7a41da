"""The quarantine: how much it keeps, and what becomes of records that are good later."""

from __future__ import annotations

import json
import random
import shutil
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from unittest.mock import patch

import pytest

from samerack.common.errors import AgentError
from samerack.pipeline import batches, parsing, schema, tables
from samerack.pipeline.parsing import quarantined, states, traffic
from samerack.settings.pipeline import PipelineSettings
from tests.spark.records import SETTINGS, raw, sample, state

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MUTATIONS: Final = 5_000
"""Of samples, and as many of states."""
STRICT: Final = PipelineSettings(late_days=1)
"""Settings with which all records of these tests come too late."""


def put(frame: DataFrame, settings: PipelineSettings, number: int = 0) -> None:
    """Write a batch to the tables as the stream does."""
    batches.write(parsing.parsed(frame, settings), settings, writer="stream", number=number)


def rows(spark: SparkSession, settings: PipelineSettings, name: str) -> list[Any]:
    """All rows of a table."""
    return tables.read(spark, settings, name).collect()


def with_checkpoint(settings: PipelineSettings) -> None:
    """Make a checkpoint for the tables, which with rows belong to one."""
    folder = Path(tables.checkpoint(settings))
    folder.mkdir()
    (folder / "metadata").touch()


def test_a_flood_of_bad_records_is_counted_and_not_kept(spark: SparkSession, made: PipelineSettings) -> None:
    """A day keeps so many; the others of each batch are one row with their number."""
    with patch.object(batches, "BAD_A_DAY", 3):
        for number, bad in enumerate(([b"a", b"b"], [b"c", b"d", b"e"], [b"f"])):
            put(raw(spark, samples=bad), made, number)
    found = rows(spark, made, "quarantine")
    assert [row["records"] for row in found if row["raw"] is not None] == [1, 1, 1]
    others = [row for row in found if row["raw"] is None]
    assert sorted((row["records"], row["reason"], row["topic"], row["offset"]) for row in others) == [
        (1, "more than 3 bad records on a day", None, None),
        (2, "more than 3 bad records on a day", None, None),
    ]
    assert {row["day"] for row in others} == {row["at"].date() for row in others}


def test_records_that_are_good_by_now_count_once(spark: SparkSession, made: PipelineSettings) -> None:
    """They leave quarantine, repetitions count once, and what is bad still or not there as a whole stays."""
    strict, settings = (one.model_copy(update={"tables": made.tables}) for one in (STRICT, SETTINGS))
    long = state(3, members=[]).replace(b'"members"', b'"new": "' + b"x" * schema.KEPT_BYTES + b'", "members"')
    frame = raw(spark, samples=[sample(1), sample(1), sample(2), b"bad"], states=[state(1), long])
    put(frame, strict)
    with_checkpoint(settings)
    assert batches.again(spark, settings) == (3, 2)
    assert [row["bytes"] for row in rows(spark, settings, "traffic_by_minute")] == [1000, 1000]
    assert [row["id"] for row in rows(spark, settings, "group_states")] == ["state-1"]
    assert {bytes(row["raw"])[:3] for row in rows(spark, settings, "quarantine")} == {b"bad", long[:3]}
    assert batches.again(spark, settings) == (0, 2)


@pytest.mark.parametrize("killed_in", ["append", "patiently", "set_property"])
def test_counting_again_may_be_killed(spark: SparkSession, made: PipelineSettings, killed_in: str) -> None:
    """The next time completes it, whatever the stream has added to quarantine meanwhile; nothing counts twice.

    Found: by other settings, or at another time, it judged anew; what was good then stayed and counted a second time,
    and what was good only now was deleted and counted nowhere.
    """
    strict, settings = (one.model_copy(update={"tables": made.tables}) for one in (STRICT, SETTINGS))
    put(raw(spark, samples=[sample(1)], states=[state(1)]), strict)
    with_checkpoint(settings)
    called = getattr(tables, killed_in)

    def dying(*arguments: Any, **named: Any) -> None:
        if killed_in != "set_property" or arguments[-1] is None:
            raise AgentError("killed")
        called(*arguments, **named)

    with patch.object(tables, killed_in, dying), pytest.raises(AgentError, match="killed"):
        batches.again(spark, settings)
    put(raw(spark, samples=[sample(2)]), strict, 1)
    assert batches.again(spark, strict) == (2, 1)
    assert batches.again(spark, settings) == (1, 0)
    assert sum(row["bytes"] for row in rows(spark, settings, "traffic_by_minute")) == 2000
    assert [row["id"] for row in rows(spark, settings, "group_states")] == ["state-1"]


def test_counting_again_counts_into_a_quarantine_that_was_made_anew(
    spark: SparkSession, made: PipelineSettings
) -> None:
    """Found: of a new table with a smaller version, records were deleted that Delta took for written before."""
    strict, settings = (one.model_copy(update={"tables": made.tables}) for one in (STRICT, SETTINGS))
    with_checkpoint(settings)
    for number in range(2):
        put(raw(spark, samples=[sample(number)]), strict, number)
        assert batches.again(spark, settings) == (1, 0)
        shutil.rmtree(tables.location(settings, "quarantine"))
        tables.create(spark, settings)
    assert sum(row["bytes"] for row in rows(spark, settings, "traffic_by_minute")) == 2000


def mutated(good: bytes, chance: random.Random) -> bytes:
    """A record with one to three changes: of its bytes, of its text, or of its fields."""
    value = good
    for _ in range(chance.randint(1, 3)):
        value = chance.choice((_bytes, _piece, _field))(value, chance)
    return value


def _bytes(value: bytes, chance: random.Random) -> bytes:
    place = chance.randrange(len(value) + 1)
    return value[:place] + chance.randbytes(chance.randint(0, 2)) + value[place + chance.randint(0, 2) :]


def _piece(value: bytes, chance: random.Random) -> bytes:
    """Repeat, drop, or move a piece, or add a sign of JSON."""
    first, last = sorted(chance.randrange(len(value) + 1) for _ in range(2))
    piece, place = value[first:last], chance.randrange(len(value) + 1)
    sign = chance.choice(
        (b"{", b"}", b"[", b"]", b",", b":", b'"', b"\\", b"null", b"-", b"0", b" ", b"\n", b"\\u0041")
    )
    return chance.choice(
        (
            value + piece,
            value[:first] + value[last:],
            value[:place] + piece + value[place:],
            value[:place] + sign + value[place:],
        )
    )


_ODD: Final[tuple[object, ...]] = (
    None,
    True,
    0,
    -1,
    5,
    0.5,
    1e300,
    2**31,
    2**63,
    "",
    "x",
    "5",
    [],
    [None],
    [0],
    {},
    {"a": 1},
    "é",
    "\x00",
)


def _field(value: bytes, chance: random.Random) -> bytes:
    """Give a field, or one within it, another value, or leave it out; what is no object is left."""
    try:
        whole = json.loads(value)
    except (ValueError, RecursionError):
        return value
    if not isinstance(whole, dict) or not whole:
        return value
    inner, name = whole, chance.choice(list(whole))
    if isinstance(inner[name], list) and inner[name] and isinstance(inner[name][0], dict) and inner[name][0]:
        inner = inner[name][0]
        name = chance.choice(list(inner))
    if chance.random() < 0.3:
        del inner[name]
    else:
        inner[name] = chance.choice(_ODD)
    return json.dumps(whole, ensure_ascii=chance.random() < 0.5).encode("utf-8", "surrogatepass")


def is_one_object(value: bytes) -> bool:
    """Whether Python reads exactly one JSON object with each name once."""

    def once(pairs: list[tuple[str, object]]) -> dict[str, object]:
        if len(dict(pairs)) != len(pairs):
            raise ValueError
        return dict(pairs)

    def never(_: str) -> None:
        raise ValueError

    try:
        found = json.loads(value.decode(), object_pairs_hook=once, parse_constant=never)
        json.dumps(found, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return False
    return isinstance(found, dict)


def test_every_mutation_of_a_good_record_is_in_exactly_one_table(spark: SparkSession) -> None:
    """Of ten thousand, each is counted, a state, or in quarantine with a reason; and what is no JSON object is bad."""
    chance = random.Random(20260101)  # noqa: S311 - no secret
    compact = [json.dumps(json.loads(sample(number)), separators=(",", ":")).encode() for number in range(MUTATIONS)]
    spaced = [sample(number) for number in range(MUTATIONS)]
    samples = [chance.choice(both) for both in zip(compact, spaced, strict=True)]
    made = [[mutated(good, chance) for good in kind] for kind in (samples, [state(n) for n in range(MUTATIONS)])]
    frame = parsing.parsed(raw(spark, samples=made[0], states=made[1]), SETTINGS).persist()
    try:
        judged = frame.select("sort", "sample.bytes").collect()
        refused = quarantined(frame).select("topic", "offset", "reason").collect()
        counted = traffic(frame).selectExpr("count(*)", "sum(bytes)").collect()[0]
        kept = states(frame).select("id").collect()
    finally:
        frame.unpersist()
    sorts = Counter(row["sort"] for row in judged)
    assert sum(sorts.values()) == 2 * MUTATIONS
    assert min(sorts.values()) > 100, sorts
    assert (counted[0], len(kept), len(refused)) == (sorts["sample"], sorts["state"], sorts["bad"])
    assert counted[1] == sum(row["bytes"] for row in judged if row["sort"] == "sample")
    assert all(row["reason"] for row in refused)
    bad = {(row["topic"], row["offset"]) for row in refused}
    assert len(bad) == len(refused)
    for topic, values in zip((SETTINGS.traffic_topic, SETTINGS.states_topic), made, strict=True):
        passed = [
            value for offset, value in enumerate(values) if (topic, offset) not in bad and not is_one_object(value)
        ]
        assert passed == []
