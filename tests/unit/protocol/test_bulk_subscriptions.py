"""The subscriptions of a group, read at once: the same as each by itself, and the same errors."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from samerack.protocol import bulk
from samerack.protocol.bulk import SubscriptionReader
from samerack.protocol.consumer import decode_subscription, encode_subscription
from samerack.protocol.errors import ProtocolError
from samerack.protocol.values import Subscription, from_flat, from_pairs, to_pairs
from tests.unit.protocol.strategies import SUBSCRIPTIONS


@given(st.lists(SUBSCRIPTIONS, max_size=6))
def test_all_are_read_as_each_by_itself(values: list[Subscription]) -> None:
    """Every field of every member is as `decode_subscription` reads it."""
    messages = [encode_subscription(value) for value in values]
    assert _read(messages) == [decode_subscription(message) for message in messages]


@given(st.lists(SUBSCRIPTIONS, min_size=1, max_size=4), st.data())
def test_a_damaged_message_is_read_or_refused_as_by_itself(values: list[Subscription], data: st.DataObject) -> None:
    """With one byte changed, or cut off anywhere, the result or the error is that of `decode_subscription`."""
    messages = [bytearray(encode_subscription(value)) for value in values]
    damaged = data.draw(st.sampled_from(messages))
    at = data.draw(st.integers(0, len(damaged) - 1))
    if data.draw(st.booleans()):
        damaged[at] = data.draw(st.integers(0, 255))
    else:
        del damaged[at:]
    given_bytes = [bytes(message) for message in messages]
    assert _result(_read, given_bytes) == _result(
        lambda all_of_them: [decode_subscription(message) for message in all_of_them], given_bytes
    )


def _read(messages: Sequence[bytes]) -> list[Subscription]:
    """Read them twice with one reader: the second time, list of topics are known."""
    reader = SubscriptionReader()
    first = reader.read(messages)
    assert reader.read(messages) == first
    return first


def _result(read: Callable[[Sequence[bytes]], list[Subscription]], messages: Sequence[bytes]) -> object:
    try:
        return read(messages)
    except ProtocolError as error:
        return str(error)


def test_members_share_lists_and_names() -> None:
    """Equal topic lists are one object, also where other lists come in between, and so are the names of owned ones."""
    lists = [tuple(f"t{number}" for number in range(count)) for count in range(12)]
    owned = from_pairs([("t1", 0), ("t3", 7)])
    messages = [encode_subscription(Subscription(topics=topics, owned=owned)) for topics in (*lists, *lists)]
    read = _read(messages)
    for first, second in zip(read[:12], read[12:], strict=True):
        assert first.topics is second.topics
    assert len({id(one.owned.names) for one in read}) == 1
    assert {tuple(to_pairs(one.owned)) for one in read} == {(("t1", 0), ("t3", 7))}


def test_names_of_every_length_are_distinguished() -> None:
    """Names that differ only in their last byte, around the size of a word, and beyond one chunk of runs."""
    names = [f"{'x' * size}{end}" for size in (*range(20), 200) for end in "ab"]
    topics = sorted(names)
    sizes = [number % 3 for number in range(len(topics))]
    owned = from_flat(topics, sizes, np.concatenate([np.arange(size, dtype=np.int32) for size in sizes]))
    message = encode_subscription(Subscription(topics=tuple(topics), owned=owned))
    assert _read([message] * 5) == [decode_subscription(message)] * 5


def test_equal_hashes_of_different_names_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """If all names have the same hash, members are read one by one, and nothing is mixed up."""
    monkeypatch.setattr(bulk, "_MIX", np.uint64(0))
    messages = [encode_subscription(Subscription(topics=("a", "b"), owned=from_pairs([("a", 1), ("b", 2)])))]
    assert _read(messages) == [decode_subscription(messages[0])]


def test_a_large_group_has_several_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """More runs than fit in one chunk are read in several, and new names may come in any of them."""
    monkeypatch.setattr(bulk, "_CHUNK", 1 << 12)
    wide = [f"wide-{number:05}" for number in range(10_000)]
    numbers = np.arange(len(wide), dtype=np.int32) % 7
    messages = [
        encode_subscription(Subscription(topics=("t",), owned=from_flat(wide, [1] * len(wide), numbers))),
        encode_subscription(Subscription(topics=("t",), owned=from_flat(["zero-00000"], [1], numbers[:1]))),
    ]
    assert _read(messages) == [decode_subscription(message) for message in messages]
