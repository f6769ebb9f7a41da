"""The placement of all replicas, read from the bytes of a response."""

from __future__ import annotations

import struct
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka import errors as kafka_errors
from kafka.protocol.metadata import MetadataRequest

from samerack.cluster.metadata import all_placements, placements_request, read_placements
from samerack.common.errors import AgentError
from tests.unit.cluster.scripted_wire import ScriptedBrokerClient, all_topics, partition, topic

_REPLICAS = st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=4, unique=True)
_PARTITIONS = st.lists(st.tuples(_REPLICAS, st.booleans()), max_size=5)


@given(st.dictionaries(st.text(st.characters(codec="ascii", exclude_characters="\0"), min_size=1), _PARTITIONS))
def test_each_partition_has_its_brokers(topics: dict[str, list[tuple[list[int], bool]]]) -> None:
    """Whatever the topics are, a row has the leader first, or -1, and then the other replicas."""
    described = [
        topic(
            name,
            *(partition(n, one[0] if led else -1, sorted(one), one[:1]) for n, (one, led) in enumerate(partitions)),
        )
        for name, partitions in topics.items()
    ]
    found = read_placements(all_topics({1: "a", 2: None}, *described))
    assert {name: len(rows) for name, rows in found.rows.items()} == {name: len(p) for name, p in topics.items()}
    for name, partitions in topics.items():
        for row, (replicas, led) in zip(found.rows[name], partitions, strict=True):
            brokers = found.brokers[found.placement[row]]
            assert brokers[0] == (replicas[0] if led else -1)
            assert brokers[1:] == tuple(sorted(replicas[1:] if led else replicas))


def test_topics_with_an_error_are_left_out_and_numbers_are_put_in_order() -> None:
    """A broker may list partitions in any order; the rows of what follows a refused topic stay right."""
    content = all_topics(
        {1: "a"},
        topic("refused", partition(0, 5, [5], [5]), error_code=29),
        topic("t", partition(1, 2, [2], [2]), partition(0, 1, [1, 3], [1])),
        topic("__consumer_offsets", partition(0, 1, [1], [1])),
        internal=["__consumer_offsets"],
    )
    found = read_placements(content)
    assert dict(found.rows) == {"t": range(2), "__consumer_offsets": range(2, 3)}
    assert [found.brokers[one] for one in found.placement] == [(1, 3), (2,), (1,)]
    assert found.internal == {"__consumer_offsets"}


def test_equal_placements_are_kept_once() -> None:
    """Thousands of partitions share few placements."""
    number = count()
    content = all_topics({1: "a"}, *(topic(f"t{next(number)}", partition(0, 1, [1, 2], [1])) for _ in range(50)))
    assert read_placements(content).brokers == ((1, 2),)


def test_the_request_is_for_all_topics_and_creates_none() -> None:
    """kafka-python decodes what is sent to the same request."""
    asked = placements_request()
    asked.with_header(correlation_id=7, client_id="c")
    assert asked.header is not None
    frame = asked.encode(framed=True, header=True)
    sent = MetadataRequest.decode(frame, version=8, framed=True, header=True)
    assert (sent.topics, sent.allow_auto_topic_creation) == (None, False)
    assert (sent.header.correlation_id, sent.header.client_id) == (7, "c")
    body = all_topics({1: "a"}, topic("t", partition(0, 1, [1], [1])))

    class Buffer:
        def read(self) -> bytes:
            return body

    assert dict(asked.header.get_response_class().decode(Buffer()).rows) == {"t": range(1)}


def test_a_response_that_is_cut_off_is_an_error_of_its_bytes() -> None:
    """kafka-python reports errors of these types as a broken response."""
    content = all_topics({1: "a"}, topic("t", partition(0, 1, [1], [1])))
    for length in range(len(content) - 4):  # the operations at the end are not read
        with pytest.raises((struct.error, ValueError)):
            read_placements(content[:length])


def test_no_answer_is_an_error_of_the_agent() -> None:
    """The reason is named."""
    with pytest.raises(AgentError, match="kafka: metadata: no answer in 10 s"):
        all_placements(ScriptedBrokerClient(lambda _: kafka_errors.RequestTimedOutError()))
