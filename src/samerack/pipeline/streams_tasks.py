"""The whole tasks of a Kafka Streams group in a group's state, and the best plan that keeps them whole."""

from __future__ import annotations

from typing import Final

from samerack.assignors.consumer import optimal
from samerack.assignors.model import Int32Array, Problem
from samerack.assignors.streams.whole_tasks import WholeTasks, min_traffic_plan, whole_tasks
from samerack.common.records import UNKNOWN, GroupState, TopicState
from samerack.pipeline.errors import StateError

STREAMS_CLASSIC: Final = "streams-classic"
STREAMS_KINDS: Final = frozenset({STREAMS_CLASSIC, "streams"})
"""Kinds of groups whose members get whole tasks."""


def check_tasks(topic: TopicState) -> None:
    """Checks that a topic has a task for each partition, if it has tasks.

    Raises:
        StateError: it has more or less.
    """
    count = len(topic.owner)
    if topic.tasks is not None and len(topic.tasks) != count:
        raise StateError(
            f"topic {topic.name!r}: has {count} owners and {len(topic.tasks)} tasks; expected one for every partition"
        )


def tasks_of_state(state: GroupState, problem: Problem) -> WholeTasks | None:
    """Returns the tasks of a Kafka Streams group; None for other groups, and where clients or tasks are not known."""
    if state.kind not in STREAMS_KINDS:
        return None
    tasks: dict[int, list[tuple[str, int]]] = {}
    for topic in state.topics:
        for number, task in enumerate(topic.tasks or ()):
            if task != UNKNOWN:
                tasks.setdefault(task, []).append((topic.name, number))
    clients = {member.id: member.client for member in state.members if member.client is not None}
    return whole_tasks(problem, [tasks[task] for task in sorted(tasks)], clients)


def best_plan(problem: Problem, kind: str, whole: WholeTasks | None) -> Int32Array | None:
    """Returns the best balanced plan, of Kafka Streams with whole tasks; None where these are not known.

    Raises:
        AssignmentError: as the assignor.
    """
    if kind not in STREAMS_KINDS:
        return optimal.assign(problem)
    return None if whole is None else min_traffic_plan(problem, whole)
