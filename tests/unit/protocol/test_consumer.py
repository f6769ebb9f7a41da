"""Subscriptions and assignments, written and read: what is kept, what Kafka sorts, and newer versions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from samerack.protocol.consumer import decode_assignment, decode_subscription, encode_assignment, encode_subscription
from samerack.protocol.errors import NOT_IN_BYTES, ProtocolError
from samerack.protocol.values import Assignment, Subscription, from_flat, from_pairs, no_partitions, to_pairs
from tests.unit.protocol.strategies import ASSIGNMENTS, SUBSCRIPTIONS


def utf16(text: str) -> bytes:
    """A sort key for Java's order of strings."""
    return text.encode("utf-16-be")


@given(SUBSCRIPTIONS)
def test_subscription_survives_without_what_its_version_lacks(value: Subscription) -> None:
    """A subscription that is written and read is equal, but sorted and without newer fields."""
    read = decode_subscription(encode_subscription(value))
    assert read.topics == tuple(sorted(value.topics, key=utf16))
    owned = sorted(to_pairs(value.owned), key=lambda pair: (utf16(pair[0]), pair[1]))
    assert to_pairs(read.owned) == (owned if value.version >= 1 else [])
    assert read.generation == (value.generation if value.version >= 2 else -1)
    assert read.rack == (value.rack if value.version >= 3 else None)
    assert (read.version, read.user_data, read.trailing) == (value.version, value.user_data, value.trailing)


@given(ASSIGNMENTS)
def test_assignment_survives_in_first_seen_topic_order(value: Assignment) -> None:
    """An assignment that is written and read is equal, with one run per topic, in the plan's order."""
    data = encode_assignment(value)
    read = decode_assignment(data)
    pairs = to_pairs(value.partitions)
    first_seen = list(dict.fromkeys(topic for topic, _ in pairs))
    assert read.partitions.topics == tuple(first_seen)
    assert to_pairs(read.partitions) == sorted(pairs, key=lambda pair: first_seen.index(pair[0]))
    assert (read.version, read.user_data, read.trailing) == (value.version, value.user_data, value.trailing)
    assert encode_assignment(read) == data


@given(SUBSCRIPTIONS, st.integers(4, 2**15 - 1))
def test_newer_subscription_keeps_version_and_trailing_bytes(value: Subscription, version: int) -> None:
    """An unknown newer version is read with the newest known format, and written back unchanged."""
    newest = encode_subscription(Subscription(topics=value.topics, owned=value.owned, rack=value.rack))
    data = version.to_bytes(2, "big") + newest[2:] + value.trailing
    read = decode_subscription(data)
    assert (read.version, read.trailing, read.rack) == (version, value.trailing, value.rack)
    assert encode_subscription(read) == data


def test_newer_assignment_keeps_version_and_trailing_bytes() -> None:
    """An assignment of an unknown newer version is written back unchanged."""
    data = bytes.fromhex("0009 00000001 000161 00000001 00000005 ffffffff beef")
    read = decode_assignment(data)
    assert (read.version, read.trailing) == (9, b"\xbe\xef")
    assert encode_assignment(read) == data


def test_topics_sort_by_utf16_code_units() -> None:
    """An emoji comes before U+FF5E, as in Java, though its code point is higher."""
    fullwidth_tilde, emoji = "\uff5e", "\U0001f600"
    value = Subscription(
        version=1, topics=(fullwidth_tilde, emoji), owned=from_pairs([(fullwidth_tilde, 0), (emoji, 1)])
    )
    read = decode_subscription(encode_subscription(value))
    assert read.topics == read.owned.topics == (emoji, fullwidth_tilde)


def test_empty_rack_and_negative_generation_read_as_none() -> None:
    """An empty rack is no rack, a negative generation is -1, also when written, a negative length of user data none."""
    read = decode_subscription(bytes.fromhex("0003 00000000 fffffffb 00000000 fffffff7 0000"))
    assert read == Subscription(topics=())
    read = decode_subscription(bytes.fromhex("0003 00000000 ffffffff 00000000 00000000 fff9"))
    assert read == Subscription(topics=(), generation=0)
    odd = encode_subscription(Subscription(topics=(), generation=-9))
    assert odd == encode_subscription(Subscription(topics=()))


def test_topic_in_several_runs_is_read_whole_and_written_once() -> None:
    """Runs stay separate when read, and become one run when written; an empty run is not written."""
    data = bytes.fromhex("0001 00000003 000161 00000001 00000007 000162 00000000 000161 00000001 00000003 ffffffff")
    read = decode_assignment(data)
    assert read.partitions.topics == ("a", "b", "a")
    assert to_pairs(read.partitions) == [("a", 7), ("a", 3)]
    assert encode_assignment(read).hex() == "000100000001000161000000020000000700000003ffffffff"


@pytest.mark.parametrize("topics", [1, 1000, 50_000])
def test_many_owned_partitions_share_one_array(topics: int) -> None:
    """100,000 owned partitions are converted at once: all runs are read-only views of one array."""
    numbers = np.repeat(np.arange(100_000 // topics, dtype=np.int32)[None], topics, axis=0).ravel()
    names = [f"topic-{index:06}" for index in range(topics)]
    owned = from_flat(names, [100_000 // topics] * topics, numbers)
    read = decode_subscription(encode_subscription(Subscription(topics=tuple(names), owned=owned)))
    assert len(read.owned) == 100_000
    assert read.owned == owned
    assert len({id(run.base) for run in read.owned.numbers}) == 1
    assert not any(run.flags.writeable for run in read.owned.numbers)
    assert {run.dtype for run in read.owned.numbers} == {np.dtype(np.int32)}


@pytest.mark.parametrize(
    ("value", "field", "message"),
    [
        (Subscription(topics=("x" * 32_768,)), "topics", "longest"),
        (Subscription(topics=("ä" * 16_384,)), "topics", "32768 bytes"),
        (Subscription(topics=("\ud800",)), "topics", "surrogate"),
        (Subscription(topics=(), rack="x" * 40_000), "rack", "longest"),
        (Subscription(topics=(), generation=2**31), "generation", "outside"),
        (Subscription(topics=(), version=-1), "version", "start at 0"),
        (Subscription(topics=(), version=2**15), "version", "outside"),
        (Subscription(topics=(), owned=from_pairs([("x" * 32_768, 0)])), "owned.topic", "longest"),
    ],
    ids=lambda value: None if isinstance(value, Subscription) else value,
)
def test_values_that_fit_no_field_are_refused(value: Subscription, field: str, message: str) -> None:
    """If a value does not fit its field, the error names the field."""
    with pytest.raises(ProtocolError, match=message) as error:
        encode_subscription(value)
    assert (error.value.field, error.value.offset) == (field, NOT_IN_BYTES)


def test_longest_topic_is_written() -> None:
    """A name of 32,767 bytes, the longest possible, is written and read."""
    value = Assignment(partitions=from_pairs([("x" * 32_767, 1)]))
    assert decode_assignment(encode_assignment(value)) == value


def test_a_subscription_of_kafka_go_is_read() -> None:
    """Its joingroup.go writes version 1 and ends after the user data, so the member owns nothing."""
    read = decode_subscription(bytes.fromhex("0001 00000001 000161 00000006") + b"rack-a")
    assert read == Subscription(version=1, topics=("a",), user_data=b"rack-a")


@given(SUBSCRIPTIONS.filter(lambda value: value.topics), st.integers(1, 4))
def test_a_subscription_may_end_after_any_field_behind_its_topics(value: Subscription, fields: int) -> None:
    """Fields missing at the end are empty; bytes that end within a field are refused."""
    whole = Subscription(
        version=3, topics=value.topics, user_data=value.user_data, owned=value.owned, generation=5, rack="r"
    )
    data = encode_subscription(whole)
    parts = [
        encode_subscription(Subscription(version=0, topics=value.topics))[:-4],
        encode_subscription(Subscription(version=0, topics=value.topics, user_data=value.user_data)),
        encode_subscription(Subscription(version=1, topics=value.topics, user_data=value.user_data, owned=value.owned)),
        data[:-3],
    ]
    end = len(parts[fields - 1])
    read = decode_subscription(data[:end])
    complete = decode_subscription(data)
    assert read.topics == complete.topics
    assert read.user_data == (complete.user_data if fields >= 2 else None)
    assert read.owned == (complete.owned if fields >= 3 else no_partitions())
    assert (read.generation, read.rack) == (5 if fields >= 4 else -1, None)
    with pytest.raises(ProtocolError):
        decode_subscription(data[: end + 1])


def test_an_assignment_may_end_after_its_partitions() -> None:
    """Missing user data is read as None."""
    data = encode_assignment(Assignment(partitions=from_pairs([("t", 4)])))
    assert decode_assignment(data[:-4]) == Assignment(partitions=from_pairs([("t", 4)]))
