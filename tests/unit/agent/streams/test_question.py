"""Which questions of Streams applications are refused, with which place and cure."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any

import pytest

from samerack.agent.streams.question import PlanQuestionError, read_question
from samerack.assignors.streams.application import task_id
from tests.parity.streams_cases import random_case
from tests.streams_http import Json, question_of

QUESTION = question_of(random_case(3, "ha"), "orders")


def changed(path: tuple[Any, ...], value: Any) -> Json:
    """The question with another value at a place."""
    question = deepcopy(QUESTION)
    place: Any = question
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return question


def read(question: Json) -> Any:
    """The question as the agent reads it."""
    return read_question(json.dumps(question).encode())


def test_an_application_is_read_whole() -> None:
    """Every task, partition, rack, lag and tag arrives at its place in KIP-924's model."""
    question = read(QUESTION)
    assert [str(task.id) for task in question.tasks] == [task[0] for task in QUESTION["tasks"]]
    for task, given in zip(question.tasks, QUESTION["tasks"], strict=True):
        assert task.is_stateful == bool(given[1])
        for part, (topic, number, kind, racks) in zip(task.topic_partitions, given[2], strict=True):
            assert (part.topic, part.partition) == (QUESTION["topics"][topic], number)
            assert (part.is_source, part.is_changelog) == (kind != 2, kind != 1)
            assert part.racks == frozenset(QUESTION["racks"][rack] for rack in racks)
    for client, given in zip(question.clients, QUESTION["clients"], strict=True):
        assert str(client.process_id) == given["process"]
        assert client.client_tags == given["tags"]
        assert {str(task) for task in client.previous_active_tasks} == {
            QUESTION["tasks"][task][0] for task in given["active"]
        }
        for task, lag in given["lags"]:
            assert client.lag_for(task_id(QUESTION["tasks"][task][0])) == lag


def test_lags_that_all_clients_share_are_sent_once() -> None:
    """`lags` of the question hold for each client that does not name the task."""
    stateful = [index for index, task in enumerate(QUESTION["tasks"]) if task[1]]
    shared = {**QUESTION, "lags": [[task, 7] for task in stateful]}
    shared["clients"] = [client | {"lags": client["lags"][:1]} for client in QUESTION["clients"]]
    for client, given in zip(read(shared).clients, QUESTION["clients"], strict=True):
        own = dict(given["lags"][:1])
        for task in stateful:
            assert client.lag_for(task_id(QUESTION["tasks"][task][0])) == own.get(task, 7)


WRONG: list[tuple[Json, str]] = [
    (changed(("version",), 2), "version 2 is unknown"),
    (changed(("version",), 1.0), "version: expected a whole number"),
    (changed(("application",), ""), "application: expected a name"),
    (changed(("application",), "x" * 250), "at most 249"),
    (changed(("topics",), [1]), "topics: expected strings"),
    (changed(("topics", 0), "\ud800"), "topics: expected strings in UTF-8"),
    (changed(("racks",), None), "racks: expected a list"),
    (changed(("tasks", 0, 0), "none"), "task id 'none'"),
    (changed(("tasks", 0, 1), 2), "tasks: number 0"),
    (changed(("tasks", 0, 2, 0, 0), 99), "tasks: number 0"),
    (changed(("tasks", 0, 2, 0, 0), -1), "tasks: number 0"),
    (changed(("tasks", 0, 2, 0, 2), 4), "tasks: number 0"),
    (changed(("tasks", 0, 2, 0, 3), [-1]), "tasks: number 0"),
    (changed(("tasks", 0), QUESTION["tasks"][1]), "one is listed twice"),
    (changed(("clients",), []), "no client to assign tasks to"),
    (changed(("clients", 0, "process"), "7"), "badly formed"),
    (changed(("clients", 0, "threads"), 0), "0 threads"),
    (changed(("clients", 0, "threads"), "1"), "threads: expected a whole number"),
    (changed(("clients", 0, "rack"), 99), "IndexError"),
    (changed(("clients", 0, "active"), [10_000]), "IndexError"),
    (changed(("clients", 0, "active"), [-1]), "not an index into tasks"),
    (changed(("clients", 0, "lags"), [[-1, 3]]), "not an index into tasks"),
    (changed(("clients", 0, "lags"), [[0, "3"]]), "expected [[TASK, LAG], ...]"),
    (changed(("clients", 0, "tags"), {"a": 1}), "tags: expected strings"),
    (changed(("clients", 0, "host"), "nowhere"), "invalid literal"),
    (changed(("configs", "max_warmup_replicas"), 0), "give at least 1"),
    (changed(("configs", "rack_aware_strategy"), 1), "expected a string"),
    (changed(("configs", "assignor"), "legacy-sticky"), "expected ha, sticky or null, not 'legacy-sticky'"),
]


@pytest.mark.parametrize(("question", "reason"), WRONG)
def test_a_wrong_question_is_refused_with_its_place(question: Json, reason: str) -> None:
    """The message names what is wrong."""
    with pytest.raises(PlanQuestionError) as refused:
        read(question)
    assert reason in str(refused.value)


@pytest.mark.parametrize("body", [b"", b"[]", b"[" * 100_000, b"\xff", b"null", b"{}", b'{"version":1}'])
def test_what_is_no_question_is_refused(body: bytes) -> None:
    """Whatever bytes arrive, the answer is a refusal."""
    with pytest.raises(PlanQuestionError):
        read_question(body)


@pytest.mark.parametrize("key", sorted(QUESTION))
def test_no_value_of_a_key_is_a_crash(key: str) -> None:
    """Any JSON value in place of any key is read or refused."""
    values: list[Any] = [None, 0, -1, 1.5, "", "x", [], [[]], [None], {}, {"a": []}, True]
    for value in values:
        try:
            read(QUESTION | {key: value})
        except PlanQuestionError:
            continue
