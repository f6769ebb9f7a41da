"""Users' own task assignors in the agent: the whole interface, live validation, and classes that misbehave."""

from __future__ import annotations

import json
import re
import textwrap
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
import yaml
from structlog.testing import capture_logs

from samerack.agent.streams.context import PlanContext, PlanRules
from samerack.agent.streams.making import MadePlan, PlanError, make
from samerack.agent.streams.own_assignors import OwnAssignorError, OwnAssignors
from samerack.agent.streams.question import read_question
from samerack.assignors.streams.application import ProcessId
from samerack.assignors.streams.assignment import TaskType
from tests.docs import ROOT, yaml_of
from tests.parity.streams_cases import random_case
from tests.streams_http import Json, endpoint, question_of

PAGE = (ROOT / "docs" / "streams-python.md").read_text(encoding="utf-8")
EXAMPLE, *FURTHER = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


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


def test_every_name_of_the_page_can_be_imported() -> None:
    """The functions of KIP-924's `TaskAssignmentUtils` are where the page imports them from."""
    found: Json = {}
    for block in FURTHER:
        exec(block, found)  # noqa: S102 - the page's own lines
    utilities = PAGE.partition("- `TaskAssignmentUtils`")[2]
    assert {name for name in found if not name.startswith("_")} == {
        "default_standby_task_assignment",
        "identity_assignment",
        "optimize_rack_aware_active_tasks",
        "optimize_rack_aware_standby_tasks",
        "validate_task_assignment",
    }
    assert all(name in utilities for name in found if not name.startswith("_"))


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
        outcome = {"version": 1, "application": "mine", "plan": answer["plan"], "error": "NONE", "generation": None}
        assert agent.post("/v1/streams/computed", outcome) == (204, None)
    found = yaml.safe_load(heard.read_text(encoding="utf-8"))
    sources = [one for task in question["tasks"] for one in task[2] if one[2] != 2]
    given = [pair for pairs in found["partitions"].values() for pair in pairs]
    assert sorted(map(tuple, given)) == sorted((question["topics"][one[0]], one[1]) for one in sources)
    assert set(found["topics"]) == {consumer for one in question["clients"] for consumer in one["consumers"]}
    assert found["error"] == "NONE"
    assert set(found["lags"]) == {task[0] for task in question["tasks"] if task[1]}


def made(folder: Path, monkeypatch: pytest.MonkeyPatch, question: Json, source: str, *, now_ms: int = 55) -> MadePlan:
    """The plan of a question by `Mine` in this source, in the process of the test."""
    module = f"mine_{folder.name}"
    (folder / f"{module}.py").write_text(textwrap.dedent(source), encoding="utf-8")
    monkeypatch.syspath_prepend(folder)
    context = PlanContext(rules=PlanRules(assignor=f"{module}:Mine"))
    return make(read_question(json.dumps(question).encode()), context, OwnAssignors(), now_ms=now_ms)


def test_kip_924_a_task_assignment_error_keeps_the_previous_assignment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every client keeps its tasks, one that no client had is given to one, and a rebalance follows soon."""
    source = """
        from samerack.assignors.streams.application import TaskAssignmentError

        class Mine:
            def assign(self, state):
                raise TaskAssignmentError("not now")
    """
    question = asked(0, "mine")
    dealt = range(1, len(question["tasks"]))  # task 0 is new
    for number, client in enumerate(question["clients"]):
        client["active"], client["standby"] = [*dealt[number :: len(question["clients"])]], []
    planned = made(tmp_path, monkeypatch, question, source, now_ms=NOW_MS)
    ids = planned.question.task_ids
    for client in question["clients"]:
        kept = planned.plan[ProcessId(uuid=UUID(client["process"]))].of_type(TaskType.ACTIVE)
        assert {ids[task] for task in client["active"]} <= kept <= {ids[0], *(ids[task] for task in client["active"])}
    assert sum(len(one.of_type(TaskType.ACTIVE)) for one in planned.plan.values()) == len(ids)
    assert {one.followup_rebalance_deadline for one in planned.plan.values()} == {None, NOW_MS + 15_000}
    assert not any("too early" in warning for warning in planned.warnings)


FOLLOWED = """
    from samerack.assignors.streams.assignment import assignment_of
    from samerack.assignors.streams.plugin import TaskAssignment

    class Mine:
        def assign(self, state):
            first, *others = state.kafka_streams_states(compute_task_lags=False)
            first = assignment_of(first, active=state.all_tasks).with_followup_rebalance({deadline})
            return TaskAssignment(assignment=(first, *map(assignment_of, others)))
"""
NOW_MS = 1_800_000_000_000


@pytest.mark.parametrize(
    "deadline", [1, NOW_MS // 1000 + 600, NOW_MS / 1000 + 0.5, NOW_MS - 60_001, -1, "'soon'", True]
)
def test_a_follow_up_rebalance_in_seconds_or_in_the_past_is_refused(
    deadline: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reason says what is expected, and how to ask for one at once: the application would rebalance for ever."""
    source = FOLLOWED.format(deadline=deadline)
    with pytest.raises(OwnAssignorError, match=r"expected whole milliseconds since 1970, .* raise TaskAssignmentError"):
        made(tmp_path, monkeypatch, asked(0, "mine"), source, now_ms=NOW_MS)


@pytest.mark.parametrize(
    ("deadline", "due", "warnings"),
    [
        (NOW_MS - 60_000, NOW_MS + 15_000, 1),
        (NOW_MS, NOW_MS + 15_000, 1),
        (NOW_MS + 20_000, NOW_MS + 20_000, 0),
        (None, None, 0),
    ],
    ids=["just past", "at once", "later", "never"],
)
def test_an_early_follow_up_rebalance_waits(
    deadline: int | None, due: int | None, warnings: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One warning says so, with the same text for each plan, which the application's log has once then."""
    planned = made(tmp_path, monkeypatch, asked(0, "mine"), FOLLOWED.format(deadline=deadline), now_ms=NOW_MS)
    assert {one.followup_rebalance_deadline for one in planned.plan.values()} == {None, due}
    assert sum("too early: it comes after 15 s" in one for one in planned.warnings) == warnings


def test_actives_that_must_stay_do_not_rebalance_for_ever() -> None:
    """By Kafka's class each such plan asks for the next one at once."""
    context = PlanContext(rules=PlanRules(assignor="sticky", must_preserve_active=True))
    planned = make(read_question(json.dumps(asked(0, "mine")).encode()), context, OwnAssignors(), now_ms=NOW_MS)
    assert {one.followup_rebalance_deadline for one in planned.plan.values()} == {None, NOW_MS + 15_000}


def test_a_callback_that_fails_does_not_hide_why_the_plan_is_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reason has the error of KIP-924 first, and then the failure of `on_assignment_computed`."""
    source = """
        from samerack.assignors.streams.plugin import TaskAssignment

        class Mine:
            def assign(self, state):
                return TaskAssignment(assignment=())

            def on_assignment_computed(self, assignment, subscription, error):
                raise RuntimeError("no disk")
    """
    with pytest.raises(PlanError, match=r"is not valid: MISSING_PROCESS_ID; .* failed: RuntimeError: no disk"):
        made(tmp_path, monkeypatch, asked(0, "mine"), source)


def test_a_callback_that_fails_is_a_warning_in_the_log(tmp_path: Path) -> None:
    """The application has used the plan; who wrote the class reads why it did not handle the outcome."""
    source = """
        from samerack.assignors.streams.ha import HighAvailabilityTaskAssignor

        class Mine:
            def assign(self, state):
                return HighAvailabilityTaskAssignor(clock_ms=lambda: 0).assign(state)

            def on_assignment_computed(self, assignment, subscription, error):
                raise RuntimeError("no disk")
    """
    with endpoint(settings(tmp_path, source)) as agent:
        plan = agent.assign(asked(0, "mine"))["plan"]
        outcome = {"version": 1, "application": "mine", "plan": plan, "error": "NONE"}
        with capture_logs() as logged:
            assert agent.post("/v1/streams/computed", outcome)[0] == 422
    (warning,) = (one for one in logged if one["event"] == "streams-outcome-not-passed-on")
    assert (warning["log_level"], warning["application"], warning["plan"]) == ("warning", "mine", plan)
    assert "on_assignment_computed failed: RuntimeError: no disk" in warning["reason"]


def test_a_wrong_answer_never_leaves_the_agent(tmp_path: Path) -> None:
    """An error of KIP-924 is a refusal with its name, an event, and the class gets it."""
    source = """
        from pathlib import Path
        from samerack.assignors.streams.assignment import assignment_of
        from samerack.assignors.streams.plugin import TaskAssignment

        class Mine:
            def configure(self, configs):
                self.heard = Path(configs["path"])

            def assign(self, state):
                every = tuple(assignment_of(one, active=state.all_tasks) for one in state.states)
                return TaskAssignment(assignment=every)

            def on_assignment_computed(self, assignment, subscription, error):
                self.heard.write_text(f"{error.value} {len(assignment.partitions)}")
    """
    heard, error = tmp_path / "heard", "ACTIVE_TASK_ASSIGNED_MULTIPLE_TIMES"
    with endpoint(settings(tmp_path, source, options={"path": str(heard)})) as agent:
        agent.prepare()
        status, answer = agent.ask(asked(0, "mine"))
        assert (status, error in answer["error"]) == (422, True), answer
        assert [one.action for one in agent.events.latest()] == ["failed"]
        assert heard.read_text(encoding="utf-8") == f"{error} 0"


@pytest.mark.parametrize(
    ("source", "status", "reason"),
    [
        ("import nowhere_at_all", 422, "cannot be made: ModuleNotFoundError"),
        ("class Mine:\n    def assign(self, state): return 1 / 0", 422, "assign failed: ZeroDivisionError"),
        ("import os\nclass Mine:\n    def assign(self, state): os._exit(3)", 500, "process died"),
        # other causes on the same two ways, each of which needs a process of its own
        pytest.param("class Mine: pass", 422, "has no assign", marks=pytest.mark.extended),
        pytest.param(
            "class Mine:\n    def assign(self, state): return None",
            422,
            "expected a TaskAssignment",
            marks=pytest.mark.extended,
        ),
    ],
)
def test_a_class_that_fails_is_a_refusal_with_its_cause(tmp_path: Path, source: str, status: int, reason: str) -> None:
    """The application gets why there is no plan; another one is planned, also after a process has ended."""
    with endpoint(settings(tmp_path, source)) as agent:
        agent.prepare()
        found, answer = agent.ask(asked(0, "mine"))
        assert (found, reason in answer["error"]) == (status, True), answer
        assert status == 422 or agent.assign(asked(0, "another"))["assignor"] == "ha"


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
