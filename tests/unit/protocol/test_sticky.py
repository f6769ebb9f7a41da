"""User data of the sticky assignors: Kafka's order of topics, and its lenient parsing."""

from __future__ import annotations

import pytest
from hypothesis import given

from samerack.protocol.errors import ProtocolError
from samerack.protocol.sticky import decode_cooperative_sticky, decode_sticky, encode_cooperative_sticky, encode_sticky
from samerack.protocol.values import StickyUserData, from_pairs, no_partitions, to_pairs
from tests.unit.protocol.strategies import INT32, pairs

NOTHING = StickyUserData(owned=no_partitions(), generation=-1)
TWELVE = [f"t{number}" for number in (5, 40, 17, 3, 88, 21, 60, 9, 74, 33, 52, 11)]


@given(pairs(), INT32)
def test_user_data_survives(owned: list[tuple[str, int]], generation: int) -> None:
    """Both versions keep the partitions of every topic in order; version 1 keeps the generation."""
    for version in (0, 1):
        read = decode_sticky(encode_sticky(from_pairs(owned), generation, version))
        assert read.generation == (generation if version else None)
        by_topic = {topic: [number for name, number in owned if name == topic] for topic, _ in owned}
        assert dict(zip(read.owned.topics, (run.tolist() for run in read.owned.numbers), strict=True)) == by_topic


@pytest.mark.parametrize(
    ("topics", "written"),
    [
        (["zeta", "alpha", "m"], ["zeta", "alpha", "m"]),
        # "Aa" and "BB" have equal hash codes: the later one comes first in their bucket
        (["Aa", "BB"], ["BB", "Aa"]),
        (["BB", "Aa"], ["Aa", "BB"]),
    ],
)
def test_topics_come_in_hash_map_order(topics: list[str], written: list[str]) -> None:
    """Version 1 lists topics in the order of a Java HashMap that was filled by computeIfAbsent."""
    assert list(decode_sticky(encode_sticky(from_pairs([(topic, 0) for topic in topics]), 1)).owned.topics) == written


def test_version_0_lists_topics_as_they_came() -> None:
    """Version 0 keeps the order in which topics first occur."""
    owned = from_pairs([("zeta", 1), ("alpha", 0), ("zeta", 0)])
    assert to_pairs(decode_sticky(encode_sticky(owned, None, 0)).owned) == [("zeta", 1), ("zeta", 0), ("alpha", 0)]


def test_map_grows_at_the_next_question() -> None:
    """The thirteenth topic makes the map grow only if another partition follows it."""
    topics = [*TWELVE, "t14"]
    last = from_pairs([(topic, 0) for topic in topics])
    followed = from_pairs([*((topic, 0) for topic in topics), ("t14", 1)])
    order_of_16 = decode_sticky(encode_sticky(last, 1)).owned.topics
    order_of_32 = decode_sticky(encode_sticky(followed, 1)).owned.topics
    assert sorted(order_of_16) == sorted(order_of_32)
    assert order_of_16 != order_of_32


@pytest.mark.parametrize(
    ("data", "value"),
    [
        (None, StickyUserData(owned=no_partitions(), generation=None)),
        ("", StickyUserData(owned=no_partitions(), generation=None)),
        ("ff", NOTHING),
        ("ffffffff", NOTHING),
        ("00000001 ffff 00000000 00000000", NOTHING),
        ("00000001 000161 ffffffff 00000001", NOTHING),
        ("00000000", StickyUserData(owned=no_partitions(), generation=None)),
        ("00000000 00", StickyUserData(owned=no_partitions(), generation=None)),
        ("00000000 fffffff6 0000", StickyUserData(owned=no_partitions(), generation=-10)),
        (
            "00000001 0003 61ff62 00000001 00000004 00000007",
            StickyUserData(owned=from_pairs([("a\ufffdb", 4)]), generation=7),
        ),
    ],
)
def test_what_kafka_cannot_read_is_no_ownership(data: str | None, value: StickyUserData) -> None:
    """Unreadable user data means no partitions in generation -1; bytes after a readable message are ignored."""
    assert decode_sticky(None if data is None else bytes.fromhex(data)) == value


@pytest.mark.parametrize(
    ("data", "generation"),
    [(None, None), (b"", -1), (b"\0\0", -1), (b"\0\0\0\7\0", 7), (b"\xff\xff\xff\xf0", -16)],
)
def test_cooperative_generation_is_read_leniently(data: bytes | None, generation: int | None) -> None:
    """Missing user data means no generation, too few bytes mean -1, and further bytes are ignored."""
    assert decode_cooperative_sticky(data) == generation


def test_what_cannot_be_written_is_refused() -> None:
    """There is no version 2, and a generation has 32 bits."""
    with pytest.raises(ProtocolError, match="version 2"):
        encode_sticky(no_partitions(), 1, 2)
    with pytest.raises(ProtocolError, match="generation"):
        encode_cooperative_sticky(2**31)
