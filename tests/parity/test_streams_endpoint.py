"""Plans of `POST /v1/streams/assign` compared with those of `samerack assign`, and so with Kafka's.

With `compatible` the command's plans are Kafka's task by task: their digests are the recorded ones
(`test_streams_assign`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lab.sandbox.jvm import own_jar
from samerack.offline.streams import ASSIGN, answer_line
from tests import effort
from tests.parity.peer import Peer
from tests.parity.streams_cases import digest, random_case
from tests.parity.test_streams_assign import KAFKAS
from tests.streams_http import Endpoint, endpoint, question_of

UNKNOWN = -3
"""The lag of a task where Kafka Streams could not fetch the end offsets of changelogs."""
FEW = 10
"""Applications of each assignor that run with the unit tests."""
SOME = effort.of(50)
MANY = effort.of(250)
"""Of each assignor through the jar, without `compatible` and with it, where Kafka's classes are at hand."""
THROUGH_THE_JAR = [pytest.param(name, marks=() if name == "ha" else pytest.mark.extended) for name in sorted(KAFKAS)]
"""The jar does the same for each assignor, and each needs four processes of the agent."""


@pytest.fixture(scope="module")
def agent() -> Iterator[Endpoint]:
    """An endpoint with an application for each assignor and mode."""
    rules = {
        f"{assignor}-{kept}-{compatible}": {
            "assignor": assignor,
            "must_preserve_active": kept,
            "compatible": compatible,
        }
        for assignor in KAFKAS
        for kept in (False, True)
        for compatible in (False, True)
    }
    with endpoint({"applications": rules, "deadline_seconds": 30}) as running:
        yield running


def of_command(case: dict[str, Any], *, compatible: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    """The command's answer, and what of it another answer is compared with."""
    planned = answer_line(json.dumps(case | {"compatible": compatible}).encode(), ASSIGN)
    return planned, {
        "active": {client: sorted(tasks) for client, tasks in planned["active"].items()},
        "standby": {client: sorted(tasks) for client, tasks in planned["standby"].items()},
        "followups": set(planned["followup_deadline_ms"]),
    }


def of_agent(agent: Endpoint, case: dict[str, Any], name: str) -> dict[str, Any]:
    """The same of the agent's answer."""
    ids = [f"{task['subtopology']}_{task['partition']}" for task in case["tasks"]]
    answers = agent.assign(question_of(case, name))["clients"]
    clients = dict(zip((one["id"] for one in case["clients"]), answers, strict=True))
    return {
        "active": {name: sorted(ids[task] for task in client["active"]) for name, client in clients.items()},
        "standby": {name: sorted(ids[task] for task in client["standby"]) for name, client in clients.items()},
        "followups": {name for name, client in clients.items() if client["followup_ms"] is not None},
    }


def of_jar(peer: Peer, url: str, case: dict[str, Any], name: str) -> dict[str, Any]:
    """The same of what the jar gives Kafka Streams, which asks the agent there; a fall-back counts as different."""
    question = question_of(case, name)
    answer = peer.ask({"url": url, "question": question})
    assert answer["fallbacks"] == 0
    names = {row["process"]: one["id"] for row, one in zip(question["clients"], case["clients"], strict=True)}
    clients = {names[client["process"]]: client for client in answer["clients"]}
    return {
        "active": {name: sorted(client["active"]) for name, client in clients.items()},
        "standby": {name: sorted(client["standby"]) for name, client in clients.items()},
        "followups": {name for name, client in clients.items() if client["followup"]},
    }


def application_of(case: dict[str, Any], *, compatible: bool) -> str:
    """The name of the application for which the agent plans as the case says."""
    return f"{case['assignor']}-{case['must_preserve_active']}-{compatible}"


def different(agent: Endpoint, assignor: str, seeds: range) -> list[tuple[int, bool]]:
    """Cases in which any task or follow-up differs from the command's, or with `compatible` from Kafka's."""
    found = []
    for seed in seeds:
        case = random_case(seed, assignor)
        for compatible in (False, True):
            planned, wanted = of_command(case, compatible=compatible)
            kafkas = KAFKAS[assignor].split()[seed]
            if of_agent(agent, case, application_of(case, compatible=compatible)) != wanted or (
                compatible and digest(planned, assignor) != kafkas
            ):
                found.append((seed, compatible))
    return found


# each assignor needs four processes, and the way to and from them is the same
@pytest.mark.parametrize(
    "assignor", [pytest.param(name, marks=[] if name == "ha" else pytest.mark.extended) for name in sorted(KAFKAS)]
)
def test_the_agent_plans_as_the_command_and_kafka(agent: Endpoint, assignor: str) -> None:
    """A few random applications get the same tasks from the endpoint, the command and, with `compatible`, Kafka."""
    assert different(agent, assignor, range(FEW)) == []


@pytest.fixture(scope="module")
def jar() -> Iterator[Peer]:
    """A JVM in which the assignor of samerack's jar is called as by Kafka Streams."""
    with Peer("JarPeer", jars=[own_jar("samerack-streams-assignor.jar")]) as running:
        yield running


@pytest.mark.parity
@pytest.mark.timeout(280)
@pytest.mark.parametrize("assignor", THROUGH_THE_JAR)
def test_applications_get_these_plans_through_the_jar(jar: Peer, agent: Endpoint, assignor: str) -> None:
    """The jar and the agent give random applications the command's plans, with `compatible` Kafka's."""
    found = []
    for seed, compatible in ((seed, mode) for mode in (False, True) for seed in range(MANY if mode else SOME)):
        case = random_case(seed, assignor)
        # Kafka Streams has this lag for all tasks or for none, and has the full lag for a task whose state is unknown
        is_known = all(lag != UNKNOWN for lags in case["lags"].values() for lag in lags.values())
        full = max((lag for lags in case["lags"].values() for lag in lags.values()), default=0)
        case["lags"] = {
            client: {task: full if lag == UNKNOWN else lag for task, lag in lags.items()}
            for client, lags in case["lags"].items()
        }
        planned, wanted = of_command(case, compatible=compatible)
        is_kafkas = digest(planned, assignor) == KAFKAS[assignor].split()[seed]
        name = application_of(case, compatible=compatible)
        agent.prepare()
        url = f"http://127.0.0.1:{agent.port}"
        if of_jar(jar, url, case, name) != wanted or (compatible and is_known and not is_kafkas):
            found.append((seed, compatible))
    assert found == []


@pytest.mark.parity
def test_the_jar_asks_at_a_unix_socket(jar: Peer, tmp_path: Path) -> None:
    """An agent with `web.socket` gives the jar the plan that it gives at its port."""
    case = random_case(0, "ha")
    path = str(tmp_path / "agent.sock")
    rules = {"assignor": "ha", "must_preserve_active": case["must_preserve_active"]}
    with endpoint({"applications": {"orders": rules}, "deadline_seconds": 30}, unix=path) as agent:
        agent.prepare()
        assert of_jar(jar, f"unix:{path}", case, "orders") == of_command(case, compatible=False)[1]
