"""The endpoint for Streams applications: late, broken and simultaneous plans, and what the agent shows of them."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from samerack.agent.metrics import Metrics
from samerack.agent.streams.outcome import ERRORS
from samerack.agent.web.streams import MAX_BYTES
from samerack.assignors.streams.plugin import AssignmentError
from samerack.events.words import happened, reason
from tests.parity.streams_cases import random_case
from tests.streams_http import Endpoint, Json, endpoint, question_of

SLOW = """
import time
from pathlib import Path
from samerack.assignors.streams.ha import HighAvailabilityTaskAssignor

class Slow:
    def configure(self, configs):
        self.go = Path(configs["go"])

    def assign(self, state):
        while not self.go.exists():
            time.sleep(0.01)
        return HighAvailabilityTaskAssignor(clock_ms=lambda: 0).assign(state)
"""


def question(name: str, seed: int = 0) -> Json:
    """A random application of this name."""
    return question_of(random_case(seed, "ha"), name)


def settings(folder: Path, deadline_seconds: float) -> Json:
    """Settings with applications whose assignor plans once there is a file `go` in this folder."""
    (folder / "slow.py").write_text(SLOW, encoding="utf-8")
    rules = {"slow*": {"assignor": "slow:Slow", "options": {"go": str(folder / "go")}}}
    return {"python_path": [str(folder)], "applications": rules, "deadline_seconds": deadline_seconds}


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Endpoint]:
    """An agent with an application that plans only when the test lets it, and room for one more."""
    with endpoint(settings(tmp_path, 50)) as running:
        yield running


def values(metrics: Metrics, name: str) -> dict[tuple[str, ...], float]:
    """The samples of one family by the values of their labels."""
    found = {}
    for family in metrics.registry.collect():
        for sample in family.samples:
            if sample.name == name:
                found[tuple(sample.labels.values())] = sample.value
    return found


def test_a_slow_plan_keeps_no_other_application_waiting(agent: Endpoint, tmp_path: Path) -> None:
    """While one application waits for its plan, another is planned again and again."""
    agent.prepare("quick", "slow")
    slow: list[tuple[int, Any]] = []
    asking = threading.Thread(target=lambda: slow.append(agent.post("/v1/streams/assign", question("slow"))))
    asking.start()
    _await_busy(agent, "slow")
    for _ in range(3):
        assert agent.post("/v1/streams/assign", question("quick"))[0] == 200
    assert not slow
    (tmp_path / "go").touch()
    asking.join()
    assert slow[0][0] == 200


def test_a_late_plan_is_told_so_at_its_deadline(tmp_path: Path) -> None:
    """The process is killed, and another one is there for the next question."""
    with endpoint(settings(tmp_path, 1)) as agent:
        agent.prepare("slow")
        status, answer = agent.post("/v1/streams/assign", question("slow"))
        assert status == 504
        late = r"no plan within (1|0\.\d) s; "  # less if the question waited for this machine
        assert re.search(late, answer["error"])
        assert re.match(late, agent.events.latest(group="slow")[0].failure)
        with agent.service._workers.of("slow") as worker:  # a start may be what took so long
            assert worker._process is not None
            assert worker._process.is_running


def _await_busy(agent: Endpoint, *names: str) -> None:
    """Wait until plans of these applications are under way."""
    while not all(agent.service._workers._workers[name].is_busy for name in names):
        time.sleep(0.01)


def test_only_so_many_applications_are_planned_at_the_same_time(agent: Endpoint, tmp_path: Path) -> None:
    """A second question of an application that waits is refused at once; so is one that finds all processes busy."""
    agent.prepare("slow", "slower")
    asking = [
        threading.Thread(target=agent.post, args=("/v1/streams/assign", question(name))) for name in ("slow", "slower")
    ]
    for one in asking:
        one.start()
    _await_busy(agent, "slow", "slower")
    for name, why in (("slow", "another plan of this application"), ("third", "raise streams.max_processes")):
        status, answer = agent.post("/v1/streams/assign", question(name))
        assert (status, why in answer["error"]) == (503, True)
    (tmp_path / "go").touch()
    for one in asking:
        one.join()
    agent.assign(question("third"))  # a process that is idle makes room


def test_a_question_waits_for_the_process_that_starts() -> None:
    """A question that comes while its process starts, as the jar's first one, is not refused as one too many."""
    with endpoint({"deadline_seconds": 50}) as agent:
        preparing = threading.Thread(target=agent.prepare, args=("quick",))
        preparing.start()
        while not agent.service._workers._is_preparing("quick"):
            time.sleep(0.001)
        status, answer = agent.post("/v1/streams/assign", question("quick"))
        preparing.join()
    assert status == 200, answer


def test_a_prepared_process_is_the_one_that_plans(agent: Endpoint) -> None:
    """`prepare` starts the process of the application, which then plans; one that was killed is replaced."""
    assert agent.post("/v1/streams/prepare", {"version": 1, "application": "quick"}) == (204, None)
    with agent.service._workers.of("quick") as worker:
        assert worker._process is not None
        prepared = worker._process.pid
    agent.assign(question("quick"))
    with agent.service._workers.of("quick") as worker:
        assert worker._process is not None
        assert worker._process.pid == prepared
        worker._process.end()
    assert agent.assign(question("quick"))["plan"]


def test_each_plan_is_an_event_with_what_crosses_racks_before_and_after(agent: Endpoint) -> None:
    """Event, metrics, JSON and page have the figures of the answer's bill."""
    answer = agent.assign(question("orders", 2))
    bill = answer["bill"]
    event = agent.events.latest()[0]
    assert (event.kind, event.group, event.action, event.assignor) == ("streams-plan", "orders", "planned", "ha")
    assert (event.moved, event.seconds is not None) == (bill["moved"], True)
    assert happened(event) == "streams-plan: planned"
    assert f"{bill['moved']} moved" in reason(event)
    tasks = len(question("orders", 2)["tasks"])
    for name, wanted in (
        ("samerack_streams_tasks", tasks),
        ("samerack_streams_cross_rack_sources", bill["sources_after"]),
        ("samerack_streams_cross_rack_changelogs", bill["changelogs_after"]),
        ("samerack_streams_warmups", bill["warmups"]),
        ("samerack_streams_fallbacks_total", 0),
    ):
        found = values(agent.metrics, name)
        assert found == ({} if wanted is None else {("orders",): float(wanted)}), name
    assert values(agent.metrics, "samerack_streams_plans_total") == {("orders", "ha"): 1.0}
    shown = agent.service.board.to_json()[0]
    assert (shown["application"], shown["planned"]["plan"], shown["plans"]) == ("orders", answer["plan"], 1)
    page = agent.get("/")
    assert "Kafka Streams applications" in page
    assert f">{tasks}</td>" in page
    assert json.loads(agent.get("/v1/streams"))["applications"][0]["planned"]["plan"] == answer["plan"]


def test_outcomes_are_shown(agent: Endpoint) -> None:
    """What the application reports of a plan that was not used is an event, a metric and the status; else a count."""
    told = {"version": 1, "application": "orders", "plan": None, "error": "NONE", "generation": 7}
    assert agent.post("/v1/streams/computed", told) == (204, None)
    assert agent.post("/v1/streams/computed", told | {"plan": "x"}) == (204, None)
    assert agent.events.latest() == ()
    assert agent.service.board.all()[0].used == 1
    assert agent.post("/v1/streams/computed", told | {"fallback": "no answer within 2000 ms"}) == (204, None)
    assert agent.post("/v1/streams/computed", told | {"plan": "x", "error": "MISSING_PROCESS_ID"}) == (204, None)
    rejected, fell_back = agent.events.latest()
    assert (rejected.action, rejected.reason, rejected.generation) == ("rejected", "MISSING_PROCESS_ID", 7)
    assert (fell_back.action, fell_back.reason) == ("fell-back", "no answer within 2000 ms")
    assert values(agent.metrics, "samerack_streams_fallbacks_total") == {("orders",): 1.0}
    assert values(agent.metrics, "samerack_streams_rejections_total") == {("orders", "MISSING_PROCESS_ID"): 1.0}
    assert agent.service.board.all()[0].trouble == "rejected: MISSING_PROCESS_ID"


def test_the_errors_of_an_outcome_are_kafkas() -> None:
    """The endpoint knows each `AssignmentError`."""
    assert tuple(error.value for error in AssignmentError) == ERRORS


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "version 1"),
        ({"version": 2}, "version 1"),
        ({"version": 1, "application": "", "error": "NONE"}, "application"),
        ({"version": 1, "application": "a", "error": "OTHER"}, "error"),
        ({"version": 1, "application": "a", "error": []}, "error"),
        ({"version": 1, "application": "a", "error": "NONE", "plan": 1}, "plan"),
        ({"version": 1, "application": "a", "error": "NONE", "generation": "1"}, "generation"),
    ],
)
def test_a_wrong_outcome_changes_nothing(agent: Endpoint, body: Any, reason: str) -> None:
    """The answer is 400 with what is expected."""
    status, answer = agent.post("/v1/streams/computed", body)
    assert (status, reason in answer["error"]) == (400, True)
    assert agent.service.board.all() == ()


def test_a_question_is_bounded(agent: Endpoint) -> None:
    """A body above the limit, and one without a name in front, are refused."""
    assert agent.post("/v1/streams/assign", b" " * (MAX_BYTES + 1))[0] == 413
    late = json.dumps({"filler": "x" * 5_000, **question("orders")}).encode()
    status, answer = agent.post("/v1/streams/assign", late)
    assert (status, "within the first 4096 bytes" in answer["error"]) == (400, True)
