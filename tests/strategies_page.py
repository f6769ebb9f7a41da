"""Writes docs/strategies.md, what each Streams strategy makes of one application: `python -m tests.strategies_page`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from samerack.assignors.streams.application import Strategy
from samerack.offline.streams_compare import (
    ACTIVE_HEADINGS,
    COSTS,
    STANDBY_HEADINGS,
    ComparedApplication,
    as_markdown,
    compare_actives,
    compare_standbys,
    instance_of,
)
from samerack.offline.streams_json import Client, Partition, StreamsQuestion, Task

PAGE: Final = Path(__file__).parent.parent / "docs" / "strategies.md"
_SHOWN: Final = "skewed replicas"
"""The application of the page; tests compare the strategies on all."""

_HEAD: Final = """\
# Which strategy for Streams tasks?

<!-- made by `python -m tests.strategies_page`, which has the texts -->

| You want | Set |
|---|---|
| the least traffic across zones | `rack.aware.assignment.strategy=min_traffic` (from Kafka 3.6) |
| no client that has most of a subtopology | `balance_subtopology` (from Kafka 3.7); it can cost some traffic |
| few moves | a higher `rack.aware.assignment.non_overlap_cost` |
| standbys in other zones than their actives | `rack.aware.assignment.tags`, which hold whatever traffic costs |

Without tags, saving traffic puts standbys beside their active, where the data is: a lost zone then loses both.

An application of 120 tasks on eight clients; `samerack assign --compare FILE` shows your own. *Cost* is 10 for each
partition read across racks and 1 for each task that moves (KIP-925, 4.B.III). *Crowding* is how many tasks of one
subtopology the fullest thread has more than the emptiest. `min_traffic, 1 to 10` has StickyTaskAssignor's costs.

## Actives

"""

_STANDBYS: Final = """

## Standbys

`min_traffic` is the exact optimum of what KIP-925 (4.C.I) does by swapping pairs; `racks apart` is the same where no
task may be in fewer racks than before.

"""


def page() -> str:
    """Return the page in Markdown."""
    shown = [instance for instance in instances() if instance.name == _SHOWN]
    actives = as_markdown(ACTIVE_HEADINGS, (row for row in compare_actives(shown) if _is_shown(row["strategy"])))
    standbys = as_markdown(STANDBY_HEADINGS, (row for row in compare_standbys(shown) if _is_shown(row["strategy"])))
    return f"{_HEAD}{actives}{_STANDBYS}{standbys}\n"


def _is_shown(strategy: str) -> bool:
    """Whether KIP-925 as it was accepted has the strategy, or samerack."""
    return not strategy.startswith(("version 4", "reliability first"))


# -- applications to compare them on

SUBTOPOLOGIES: Final = 3
"""The last one has no state."""
STRIDES: Final = {"source": 1, "other": 7, "changelog": 11}
"""How replicas of source, second source and changelog run around the racks: unlike each other, as in real clusters."""


def instances() -> list[ComparedApplication]:
    """Return applications that are made by counting, so that everybody gets the same ones."""
    return [
        _counted("even", "abc" * 2, "abc", replication=2, partitions=24),
        _counted("one replica", "abc" * 3, "abc", partitions=36),
        _counted("skewed clients", "aaaabc", "abc", partitions=30),
        _counted("skewed replicas", "abcd" * 2, "aaabcd", partitions=40),
        _counted("unequal threads", "abcabc", "abc", partitions=42, threads=(1, 2, 4)),
        _counted("two standbys", "abcde" * 2, "abcde", replication=2, partitions=50, standbys=2),
        _counted("large", "abcde" * 8, "abbcdee", replication=2, partitions=300),
    ]


def _counted(
    name: str,
    client_racks: str,
    replica_racks: str,
    *,
    partitions: int,
    replication: int = 1,
    standbys: int = 1,
    threads: Sequence[int] = (1,),
) -> ComparedApplication:
    """Return an application whose actives are dealt in turn to the threads."""

    def racks(topic: str, subtopology: int, partition: int) -> list[str]:
        first = partition * STRIDES[topic] + partition // len(replica_racks) + subtopology
        return sorted({replica_racks[(first + step) % len(replica_racks)] for step in range(replication)})

    def task(subtopology: int, partition: int) -> Task:
        """Return a task with one source, two in the second subtopology, and a changelog unless it is of the last."""
        stateful = subtopology < SUBTOPOLOGIES - 1
        topics = ["source", *(["other"] if subtopology == 1 else []), *(["changelog"] if stateful else [])]
        parts = [
            Partition(
                topic=f"{topic}-{subtopology}",
                partition=partition,
                source=topic != "changelog",
                changelog=topic == "changelog",
                racks=racks(topic, subtopology, partition),
            )
            for topic in topics
        ]
        return Task(subtopology=subtopology, partition=partition, stateful=stateful, partitions=parts)

    clients = [
        Client(id=str(number), rack=rack, threads=threads[number % len(threads)])
        for number, rack in enumerate(client_racks)
    ]
    tasks = [task(subtopology, partition) for subtopology in range(SUBTOPOLOGIES) for partition in range(partitions)]
    turns = [client.id for client in clients for _ in range(client.threads)]
    assignment: dict[str, list[str]] = {client.id: [] for client in clients}
    for number, one in enumerate(tasks):
        assignment[turns[number % len(turns)]].append(f"{one.subtopology}_{one.partition}")
    question = StreamsQuestion(
        clients=clients,
        tasks=tasks,
        assignment=assignment,
        num_standby_replicas=standbys,
        strategy=Strategy.MIN_TRAFFIC.value,
        traffic_cost=COSTS.traffic,
        non_overlap_cost=COSTS.non_overlap,
    )
    return instance_of(name, question)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
