"""Users' own task assignors in the agent: the whole interface, live validation, and classes that misbehave."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.docs import ROOT, yaml_of
from tests.parity.streams_cases import random_case
from tests.streams_http import Json, endpoint, question_of

PAGE = (ROOT / "docs" / "streams-python.md").read_text(encoding="utf-8")
EXAMPLE = PAGE.partition("```python\n")[2].partition("```")[0]


def asked(seed: int, name: str) -> Json:
    """A random application of this name; topics of its first subtopology are a VIP client's."""
    question = question_of(random_case(seed, "ha"), name)
    question["topics"] = [f"vip-{topic}" if topic.startswith("s0-") else topic for topic in question["topics"]]
    return question


def settings(folder: Path, source: str, **rules: Any) -> Json:
    """Settings by which an application `mine` is planned by `Mine` in this source."""
    (folder / "mine.py").write_text(textwrap.dedent(source), encoding="utf-8")
    return {
        "python_path": [str(folder)],
        "applications": {"mine": {"assignor": "mine:Mine"} | rules},
        "deadline_seconds": 20,
    }


def test_the_example_of_the_page_has_forty_lines() -> None:
    """The page promises an assignor in 40 lines."""
    assert len(EXAMPLE.splitlines()) <= 40


def test_the_example_keeps_the_tasks_of_a_vip_in_one_zone(tmp_path: Path) -> None:
    """With the page's code and settings all tasks of the VIP's topics run in the zone; every plan is valid."""
    (tmp_path / "vip.py").write_text(EXAMPLE, encoding="utf-8")
    given = yaml.safe_load(yaml_of("streams-python.md"))["streams"]
    rules = given["applications"]["orders-*"] | {"options": {"topics": "vip-", "zone": "r0"}}
    with endpoint(
        given | {"python_path": [str(tmp_path)], "applications": {"orders-*": rules}, "deadline_seconds": 20}
    ) as agent:
        kept = 0
        for seed in range(12):
            question = asked(seed, "orders-eu")
            answer = agent.assign(question)
            racks = [None if one["rack"] is None else question["racks"][one["rack"]] for one in question["clients"]]
            runs = {task: rack for one, rack in zip(answer["clients"], racks, strict=True) for task in one["active"]}
            assert len(runs) == len(question["tasks"])
            assert answer["assignor"] == "vip:VipAssignor"
            if "r0" in racks:
                vip = {index for index, task in enumerate(question["tasks"]) if task[0].startswith("0_")}
                assert {runs[task] for task in vip} == {"r0"}
                kept += 1
    assert kept > 5


def test_a_class_has_the_whole_interface(tmp_path: Path) -> None:
    """`configure`, `assign` and `on_assignment_computed` get options, application, assignment, subscription, error."""
    source = """
        import json
        from samerack.assignors.streams.assignment import assignment_of
        from samerack.assignors.streams.plugin import TaskAssignment

        class Mine:
            def configure(self, configs):
                self.path = configs["path"]

            def assign(self, application_state):
                first, *others = application_state.kafka_streams_states(compute_task_lags=True).values()
                tasks = application_state.all_tasks
                self.lags = {str(task): first.lag_for(task) for task, info in tasks.items() if info.is_stateful}
                return TaskAssignment(assignment=(
                    assignment_of(first.process_id, active=tasks).with_followup_rebalance(4_102_444_800_000),
                    *(assignment_of(other.process_id) for other in others),
                ))

            def on_assignment_computed(self, assignment, subscription, error):
                with open(self.path, "w") as out:
                    json.dump({"partitions": {key: list(value) for key, value in assignment.partitions.items()},
                               "topics": dict(subscription.topics), "error": error.value, "lags": self.lags}, out)
    """
    heard = tmp_path / "heard.json"
    question = asked(0, "mine")
    with endpoint(settings(tmp_path, source, options={"path": str(heard)})) as agent:
        answer = agent.assign(question)
        assert {one["followup_ms"] for one in answer["clients"]} <= {None, 4_102_444_800_000}
        assert sorted(task for one in answer["clients"] for task in one["active"]) == list(
            range(len(question["tasks"]))
        )
        told = {"version": 1, "application": "mine", "plan": answer["plan"], "error": "NONE", "generation": 3}
        assert agent.post("/v1/streams/computed", told) == (204, None)
    found = yaml.safe_load(heard.read_text(encoding="utf-8"))
    sources = [one for task in question["tasks"] for one in task[2] if one[2] != 2]
    given = [pair for pairs in found["partitions"].values() for pair in pairs]
    assert sorted(map(tuple, given)) == sorted((question["topics"][one[0]], one[1]) for one in sources)
    assert set(found["topics"]) == {consumer for one in question["clients"] for consumer in one["consumers"]}
    assert found["error"] == "NONE"
    assert set(found["lags"]) == {task[0] for task in question["tasks"] if task[1]}


WRONG = {
    "ACTIVE_TASK_ASSIGNED_MULTIPLE_TIMES": "[assignment_of(p, active=tasks) for p in clients]",
    "INVALID_STANDBY_TASK": "[assignment_of(clients[0], active=tasks), assignment_of(clients[1], standby=stateless), "
    "*rest]",
    "MISSING_PROCESS_ID": "[assignment_of(clients[0], active=tasks)]",
    "UNKNOWN_PROCESS_ID": "[assignment_of(clients[0], active=tasks), assignment_of(clients[1]), *rest, "
    "assignment_of(ProcessId(uuid=UUID(int=7**40)))]",
    "UNKNOWN_TASK_ID": "[assignment_of(clients[0], active=[*tasks, TaskId(subtopology=99, partition=0)]), "
    "assignment_of(clients[1]), *rest]",
    "ACTIVE_AND_STANDBY_TASK_ASSIGNED_TO_SAME_KAFKASTREAMS": "[assignment_of(clients[0], active=tasks), "
    "assignment_of(clients[0], standby=tasks), assignment_of(clients[1]), *rest]",
}


def test_a_wrong_answer_never_leaves_the_agent(tmp_path: Path) -> None:
    """Each error of KIP-924 is a refusal with its name, and the class is told."""
    source = f"""
        from pathlib import Path
        from uuid import UUID
        from samerack.assignors.streams.assignment import assignment_of
        from samerack.assignors.streams.model import ProcessId, TaskId
        from samerack.assignors.streams.plugin import TaskAssignment

        WRONG = {WRONG!r}

        class Mine:
            def configure(self, configs):
                self.folder = Path(configs["path"])

            def assign(self, state):
                tasks, clients = list(state.all_tasks), list(state.states)
                stateless = [task for task, info in state.all_tasks.items() if not info.is_stateful]
                rest = [assignment_of(p) for p in clients[2:]]
                names = globals() | locals()
                return TaskAssignment(assignment=tuple(eval(WRONG[(self.folder / "error").read_text()], names)))

            def on_assignment_computed(self, assignment, subscription, error):
                (self.folder / "heard").write_text(f"{{error.value}} {{len(assignment.partitions)}}")
    """
    heard = tmp_path / "heard"
    question = asked(0, "mine")
    question["tasks"][0][1] = 0
    question["clients"] = question["clients"][:1] + [one | {"process": f"{9:032x}"} for one in question["clients"][:1]]
    with endpoint(settings(tmp_path, source, options={"path": str(tmp_path)})) as agent:
        agent.prepare("mine")
        for number, error in enumerate(WRONG, start=1):
            (tmp_path / "error").write_text(error, encoding="utf-8")
            heard.unlink(missing_ok=True)
            status, answer = agent.post("/v1/streams/assign", question)
            assert (status, error in answer["error"]) == (422, True), error
            assert [one.action for one in agent.events.latest()] == ["failed"] * number
            assert heard.read_text(encoding="utf-8").endswith(" 0"), error


DIES = "import os\nclass Mine:\n    def assign(self, state): os._exit(3)"


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("import nowhere_at_all", "cannot be made: ModuleNotFoundError"),
        ("class Mine:\n    def assign(self, state): return 1 / 0", "assign failed: ZeroDivisionError"),
        # other causes on the same two ways, each of which needs a process of its own
        pytest.param("class Other: pass", "cannot be made: AttributeError", marks=pytest.mark.extended),
        pytest.param("class Mine: pass", "has no assign", marks=pytest.mark.extended),
        pytest.param(
            "class Mine:\n    def assign(self, state): return None",
            "expected a TaskAssignment",
            marks=pytest.mark.extended,
        ),
    ],
)
def test_a_class_that_fails_is_a_refusal_with_its_cause(tmp_path: Path, source: str, reason: str) -> None:
    """The application is told why there is no plan."""
    with endpoint(settings(tmp_path, source)) as agent:
        agent.prepare("mine")
        status, answer = agent.post("/v1/streams/assign", asked(0, "mine"))
        assert (status, reason in answer["error"]) == (422, True), answer


def test_a_class_that_ends_its_process_ends_no_other(tmp_path: Path) -> None:
    """The application is told, and the next one is planned as ever."""
    with endpoint(settings(tmp_path, DIES)) as agent:
        agent.prepare("mine")
        status, answer = agent.post("/v1/streams/assign", asked(0, "mine"))
        assert (status, "has died" in answer["error"]) == (500, True), answer
        assert agent.assign(asked(0, "another"))["assignor"] == "ha"


def test_what_a_class_prints_is_no_answer(tmp_path: Path) -> None:
    """Output of the class does not reach the pipe on which plans are sent."""
    source = """
        from samerack.assignors.streams.ha import HighAvailabilityTaskAssignor

        class Mine:
            def assign(self, state):
                print("x" * 100_000)
                return HighAvailabilityTaskAssignor(clock_ms=lambda: 0).assign(state)
    """
    with endpoint(settings(tmp_path, source)) as agent:
        assert agent.assign(asked(0, "mine"))["assignor"] == "mine:Mine"
