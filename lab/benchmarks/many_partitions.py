"""An hour of polls of many partitions, for `lab.benchmarks.footprint`: the worker of an agent and simulated brokers.

A machine that has two hundred thousand busy partitions beside all else is not at hand, and an hour is long. So this
process has all parts of an agent, and what its measuring asks is answered here, at times that are made up. Every
partition is another log, whose records vary in size from poll to poll and from log to log; each group has committed all
that the poll before has seen. Polls follow each other as an agent's do: a third of the time at most is spent on them.
Requests and responses are not decoded, which takes a few megabytes in turn.

    python -m lab.benchmarks.many_partitions PARTITIONS SECONDS
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from itertools import starmap
from time import process_time
from types import SimpleNamespace
from typing import Any, Final, NamedTuple

import numpy as np
from kafka.protocol.metadata import MetadataResponse

from samerack.agent.assembly import AgentParts
from samerack.cluster.wire import ANSWER_SECONDS, BrokerClient, BrokerRequest, BrokerResponse
from samerack.protocol.consumer import encode_assignment, encode_subscription
from samerack.protocol.values import Assignment, Subscription, from_pairs
from samerack.settings.all_settings import Settings
from samerack.settings.leading import ElectionSettings
from samerack.settings.measuring import TrafficSettings
from samerack.traffic import watch

PER_GROUP: Final = 100
"""Partitions: each group reads a topic of its own."""
_RACKS: Final = ("rack-a", "rack-b", "rack-c")
POLL_SECONDS: Final = 5.0
_SCRAPE_SECONDS: Final = 60.0
_SEED: Final = 1
_LATEST: Final = -1


class _Offset(NamedTuple):
    partition_index: int
    offset: int
    error_code: int = 0


class _Size(NamedTuple):
    partition_index: int
    partition_size: int
    is_future_key: bool = False


class _Served(NamedTuple):
    partition_index: int
    preferred_read_replica: int = -1
    error_code: int = 0


class _Commit(NamedTuple):
    partition_index: int
    committed_offset: int
    committed_leader_epoch: int = 0
    error_code: int = 0


class Brokers(BrokerClient):
    """Three brokers, groups with a member each, and their logs, which `grow`."""

    def __init__(self, partitions: int) -> None:
        super().__init__({})
        self._groups = partitions // PER_GROUP
        self._dice = np.random.default_rng(_SEED)
        self._ends, self._sizes, self._committed = np.zeros((3, self._groups, PER_GROUP), dtype=np.int64)
        self._usual = 10 ** self._dice.uniform(2, 4, self._committed.shape)

    def grow(self) -> None:
        """Commit what is there, then append to every log."""
        self._committed[:] = self._ends
        records = self._dice.integers(20, 200, self._ends.shape)
        self._ends += records
        self._sizes += (records * self._usual * self._dice.uniform(0.5, 1.5, self._ends.shape)).astype(np.int64)

    def ask(self, questions: Sequence[BrokerRequest], timeout: float = ANSWER_SECONDS) -> list[BrokerResponse]:  # noqa: ARG002 - nobody waits
        """Answer all."""
        answers: Mapping[str, Callable[[BrokerRequest], Any]] = {
            "Metadata": self._metadata,
            "ListGroups": self._listed,
            "DescribeGroups": self._described,
            "OffsetFetch": self._commits,
            "ListOffsets": self._offsets,
            "DescribeLogDirs": self._log_sizes,
            "Fetch": self._served,
            "DescribeConfigs": lambda _: _answer(results=[]),
        }
        found = []
        for one in questions:
            kind = type(one.request).__name__.removesuffix("Request")
            answer = answers.get(kind)
            if answer is None:
                raise SystemExit(f"the benchmark does not answer {kind}")
            found.append(BrokerResponse(question=one, response=answer(one)))
        return found

    def _metadata(self, question: BrokerRequest) -> Any:
        topic = MetadataResponse.MetadataResponseTopic
        one, broker = topic.MetadataResponsePartition, MetadataResponse.MetadataResponseBroker
        topics = [
            topic(
                error_code=0,
                name=asked.name,
                partitions=[
                    one(error_code=0, partition_index=at, leader_id=at % 3, replica_nodes=nodes, isr_nodes=nodes)
                    for at, nodes in ((at, [at % 3, (at + 1) % 3]) for at in range(PER_GROUP))
                ],
            )
            for asked in question.request.topics
        ]
        brokers = [broker(node_id=at, host="h", port=1, rack=rack) for at, rack in enumerate(_RACKS)]
        return MetadataResponse(brokers=brokers, topics=topics, cluster_id="simulated")

    def _listed(self, question: BrokerRequest) -> Any:
        mine = range(question.broker, self._groups, len(_RACKS))
        return _answer(
            groups=[
                _answer(group_id=f"group-{at}", protocol_type="consumer", group_state="Stable", group_type="classic")
                for at in mine
            ]
        )

    def _described(self, question: BrokerRequest) -> Any:
        return _answer(groups=[_group(name) for name in question.request.groups])

    def _commits(self, question: BrokerRequest) -> Any:
        def of_topic(group: str) -> Any:
            offsets = self._committed[_number(group)].tolist()
            return SimpleNamespace(name=_topic(group), partitions=list(starmap(_Commit, enumerate(offsets))))

        return _answer(
            groups=[_answer(group_id=one.group_id, topics=[of_topic(one.group_id)]) for one in question.request.groups]
        )

    def _offsets(self, question: BrokerRequest) -> Any:
        def rows(topic: Any) -> list[_Offset]:
            ends = self._ends[_number(topic.name)].tolist()
            return [
                _Offset(one.partition_index, ends[one.partition_index] if one.timestamp == _LATEST else 0)
                for one in topic.partitions
            ]

        topics = [SimpleNamespace(name=topic.name, partitions=rows(topic)) for topic in question.request.topics]
        return _answer(topics=topics)

    def _served(self, question: BrokerRequest) -> Any:
        topics = [
            SimpleNamespace(topic=topic.topic, partitions=[_Served(one.partition) for one in topic.partitions])
            for topic in question.request.topics
        ]
        return _answer(responses=topics)

    def _log_sizes(self, question: BrokerRequest) -> Any:
        def rows(topic: Any) -> list[_Size]:
            sizes = self._sizes[_number(topic.topic)].tolist()
            return [_Size(at, sizes[at]) for at in topic.partitions]

        topics = [SimpleNamespace(name=topic.topic, partitions=rows(topic)) for topic in question.request.topics]
        return _answer(results=[_answer(topics=topics)])


def _answer(**fields: Any) -> Any:
    return SimpleNamespace(error_code=0, **fields)


def _number(name: str) -> int:
    return int(name.rpartition("-")[2])


def _topic(group: str) -> str:
    return f"topic-{_number(group)}"


def _group(name: str) -> Any:
    topic, rack = _topic(name), _RACKS[_number(name) % len(_RACKS)]
    owned = from_pairs((topic, at) for at in range(PER_GROUP))
    member = SimpleNamespace(
        member_id=f"consumer-1-{name}",
        group_instance_id=None,
        client_id="consumer-1",
        client_host="/10.0.0.1",
        member_metadata=encode_subscription(Subscription(topics=(topic,), rack=rack)),
        member_assignment=encode_assignment(Assignment(partitions=owned)),
    )
    return _answer(
        group_id=name, group_state="Stable", protocol_type="consumer", protocol_data="range", members=[member]
    )


def run(partitions: int, seconds: int) -> None:
    """Poll for so many seconds of a made-up clock, with a scrape each minute; end with the standard input.

    Each poll prints how many of the seconds are over.
    """
    brokers, rested = Brokers(partitions), [0.0]

    def now() -> float:
        return rested[0] + process_time()

    names: Any = watch
    names.BrokerClient = lambda _config: brokers
    names.time = SimpleNamespace(monotonic=now, time=lambda: 1_800_000_000.0 + now())
    parts = AgentParts(
        Settings(
            kafka={"bootstrap.servers": "127.0.0.1:1"},
            traffic=TrafficSettings(groups=("group-*",), sample_bytes=0, poll_seconds=POLL_SECONDS),
            election=ElectionSettings(group=""),
        ),
        notify_supervisor=lambda: None,
    )
    measuring = parts.measuring
    assert measuring is not None  # noqa: S101 - the settings say so
    _show(0)
    begun = scraped = now()
    while now() < begun + seconds:
        brokers.grow()
        rested[0] += measuring.turn()
        if now() >= scraped + _SCRAPE_SECONDS:
            parts.metrics.exposition()
            scraped = now()
        _show(now() - begun)
    sys.stdin.read()


def _show(seconds: float) -> None:
    sys.stdout.write(f"{seconds:.0f}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    run(*map(int, sys.argv[1:]))
