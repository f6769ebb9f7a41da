"""Changelogs are found by name, and their subtopologies by what is known, or stay unknown."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from samerack.assignors.streams.application import task_id
from samerack.traffic.streams_instances import KnownBy, changelog_topics, match
from samerack.traffic.streams_members import Sources


def sources(**tasks: tuple[str, int]) -> Sources:
    """So many tasks of a subtopology that reads a topic; `_0=("in", 2)` is subtopology 0 with two tasks."""
    return tuple(
        (task_id(f"{name.removeprefix('_')}_{number}"), ((topic, number),))
        for name, (topic, count) in tasks.items()
        for number in range(count)
    )


def test_changelogs_begin_with_the_application_id() -> None:
    """Other topics, and those of an application with a longer name, are not its changelogs."""
    topics = [
        "app-counts-changelog",
        "app-counts-repartition",
        "app-v2-counts-changelog",
        "other-counts-changelog",
        "app-changelog",
        "in",
    ]
    assert changelog_topics("app", topics, ["app", "app-v2", "other"]) == ("app-counts-changelog",)
    assert changelog_topics("app-v2", topics, ["app", "app-v2"]) == ("app-v2-counts-changelog",)
    assert changelog_topics("app", topics, ["app"]) == ("app-counts-changelog", "app-v2-counts-changelog")


TWO_ALIKE = sources(_0=("in", 2), _1=("app-x-repartition", 2))


@pytest.mark.parametrize(
    ("topic", "read", "stateful", "given", "found"),
    [
        ("app-x-changelog", TWO_ALIKE, [], {}, (1, KnownBy.NAME)),
        ("app-y-changelog", TWO_ALIKE, [], {}, (None, None)),
        ("app-y-changelog", TWO_ALIKE, [1], {}, (1, KnownBy.STATE)),
        ("app-y-changelog", TWO_ALIKE, [0, 1], {}, (None, None)),
        ("app-y-changelog", TWO_ALIKE, [0, 1], {"app-y-changelog": 0}, (0, KnownBy.GIVEN)),
        ("app-y-changelog", sources(_0=("in", 2), _1=("u", 3)), [], {}, (0, KnownBy.PARTITIONS)),
        ("app-y-changelog", sources(_0=("in", 3)), [], {}, (None, None)),
    ],
)
def test_the_subtopology_of_a_changelog(
    topic: str,
    read: Sources,
    stateful: list[int],
    given: Mapping[str, int],
    found: tuple[int | None, KnownBy | None],
) -> None:
    """A store's repartition topic, the number of partitions, or the only state say it; else it is unknown."""
    one = match("app", {topic: 2}, read, stateful=stateful, given=given)[0]
    assert (one.subtopology, one.known_by) == found


def test_a_source_serves_as_changelog_where_there_is_no_other() -> None:
    """With topology.optimization a table's source is its changelog: the only source of a subtopology with state."""
    (one,) = match("app", {}, sources(_0=("in", 2)), stateful=[0], given={})
    assert (one.topic, one.partitions, one.subtopology, one.known_by) == ("in", 2, 0, KnownBy.SOURCE)


def test_a_repartition_topic_does_not_hide_the_source_that_serves() -> None:
    """Kafka Streams restores no table from its repartition topics: beside one, the other source is the changelog."""
    read = tuple(
        (task, (*partitions, ("users", task.partition))) for task, partitions in sources(_0=("app-x-repartition", 2))
    )
    (one,) = match("app", {}, read, stateful=[0], given={})
    assert (one.topic, one.partitions, one.known_by) == ("users", 2, KnownBy.SOURCE)


def test_a_source_that_the_user_names_is_a_changelog_beside_others() -> None:
    """An aggregation has its own changelog, and the table beside it that of its source topic, as far as it is read."""
    read = tuple((task, (("in", task.partition), ("users", task.partition))) for task, _ in sources(_0=("in", 2)))
    found = match("app", {"app-y-changelog": 2}, read, stateful=[0], given={"users": 0})
    assert [(one.topic, one.partitions, one.subtopology, one.known_by) for one in found] == [
        ("app-y-changelog", 2, 0, KnownBy.PARTITIONS),
        ("users", 2, 0, KnownBy.SOURCE),
    ]


def test_a_changelog_that_may_be_of_several_leaves_none_to_a_source() -> None:
    """Where a changelog may belong to a subtopology with state, its source is not taken to serve as one."""
    found = match("app", {"app-y-changelog": 2}, TWO_ALIKE, stateful=[0, 1], given={})
    assert [one.known_by for one in found] == [None]
