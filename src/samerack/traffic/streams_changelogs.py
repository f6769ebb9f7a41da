"""Finds the subtopology of each changelog of a Kafka Streams application on the classic protocol.

The group's metadata names no changelog. Their names begin with the application id and end with `-changelog`, and each
has a partition for every task of its subtopology; which one that is follows from names, from numbers of partitions and
from where members have state, or it is unknown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from samerack.traffic.streams_tasks import Sources

_CHANGELOG: Final = "-changelog"
_REPARTITION: Final = "-repartition"


class KnownBy(Enum):
    """How the subtopology of a changelog is known."""

    TOPOLOGY = "topology"
    GIVEN = "given"
    NAME = "name"
    PARTITIONS = "partitions"
    STATE = "state"
    SOURCE = "source"


@dataclass(frozen=True, slots=True, kw_only=True)
class Changelog:
    """One changelog, and the subtopology whose state it holds, among the candidates; None if that is not known.

    `known_by` is how: the brokers' description; the user; a repartition topic of the same store; the only subtopology
    with as many tasks; the only one of these in which members have state; a source topic that serves as changelog.
    """

    topic: str
    partitions: int
    subtopology: int | None
    known_by: KnownBy | None
    candidates: tuple[int, ...] = ()


def changelog_topics(application: str, topics: Iterable[str], groups: Collection[str]) -> tuple[str, ...]:
    """Return the names of an application's changelogs, ascending.

    A topic that may belong to two applications, of which `groups` are all names, is that of the longer name:
    `a-b-store-changelog` is of `a-b`.
    """
    longer = tuple(f"{group}-" for group in groups if group.startswith(f"{application}-"))
    return tuple(
        sorted(
            topic
            for topic in topics
            if topic.startswith(f"{application}-")
            and topic.endswith(_CHANGELOG)
            and len(topic) > len(application) + len(_CHANGELOG) + 1
            and not topic.startswith(longer)
        )
    )


def match(
    application: str,
    changelogs: Mapping[str, int],
    sources: Sources,
    *,
    stateful: Collection[int],
    given: Mapping[str, int],
) -> tuple[Changelog, ...]:
    """Find the subtopology of every changelog, given how many partitions each has.

    `stateful` are subtopologies of which members have state with a changelog, as far as members say so; `given` is what
    the user knows: subtopology by changelog.
    """
    sizes = Counter(task.subtopology for task, _ in sources)
    readers = {topic: task.subtopology for task, partitions in sources for topic, _ in partitions}
    found = []
    for topic, count in changelogs.items():
        candidates = tuple(sorted(part for part, size in sizes.items() if size == count))
        store = topic.removeprefix(f"{application}-").removesuffix(_CHANGELOG)
        twin = readers.get(f"{application}-{store}{_REPARTITION}")
        with_state = [part for part in candidates if part in stateful]
        subtopology: int | None = None
        known_by: KnownBy | None = None
        if topic in given:
            subtopology, known_by = given[topic], KnownBy.GIVEN
        elif twin is not None and twin in candidates:
            subtopology, known_by = twin, KnownBy.NAME
        elif len(candidates) == 1:
            subtopology, known_by = candidates[0], KnownBy.PARTITIONS
        elif len(with_state) == 1:
            subtopology, known_by = with_state[0], KnownBy.STATE
        found.append(
            Changelog(topic=topic, partitions=count, subtopology=subtopology, known_by=known_by, candidates=candidates)
        )
    found += given_sources(sources, given)
    return (*found, *_sources_that_serve(found, sources, stateful))


def is_internal(topic: str) -> bool:
    """Return whether a source is a repartition topic, which Kafka Streams makes and never restores a table from."""
    return topic.endswith(_REPARTITION)


def topics_read(sources: Sources) -> dict[int, dict[str, int]]:
    """Return the topics that each subtopology reads, each with the number of its partitions that are read."""
    read: dict[int, dict[str, int]] = {}
    for task, partitions in sources:
        topics = read.setdefault(task.subtopology, {})
        for topic, _ in partitions:
            topics[topic] = topics.get(topic, 0) + 1
    return read


def given_sources(sources: Sources, given: Mapping[str, int]) -> list[Changelog]:
    """Return the sources that serve as changelogs because the user says so: the tables of an optimised topology."""
    return [
        Changelog(topic=topic, partitions=topics[topic], subtopology=part, known_by=KnownBy.SOURCE, candidates=(part,))
        for part, topics in topics_read(sources).items()
        for topic in sorted(topics)
        if given.get(topic) == part
    ]


def _sources_that_serve(found: list[Changelog], sources: Sources, stateful: Collection[int]) -> list[Changelog]:
    """Return sources that serve as changelog: the only one that may in a subtopology with state and no changelog."""
    taken = {part for one in found for part in (one.candidates if one.subtopology is None else (one.subtopology,))}
    read = topics_read(sources)
    result = []
    for part in sorted(set(stateful) - taken):
        topics = read.get(part, {})
        tables = {topic: size for topic, size in topics.items() if not is_internal(topic)} or topics
        if len(tables) == 1:
            ((topic, size),) = tables.items()
            known_by = KnownBy.SOURCE
            result.append(
                Changelog(topic=topic, partitions=size, subtopology=part, known_by=known_by, candidates=(part,))
            )
    return result
