"""The endpoint for Streams applications: late, broken and simultaneous plans, and what the agent shows of them."""

from __future__ import annotations

import errno
import json
import re
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from structlog.testing import capture_logs

from lab.sandbox.admin import wait_until
from samerack.agent.metrics import Metrics
from samerack.agent.streams.context import MAX_TEXT, NoPlanError
from samerack.agent.streams.reporter import ERRORS, MAX_APPLICATIONS, read_outcome
from samerack.agent.streams.service import StreamsService
from samerack.agent.web.api import MAX_QUESTION_BYTES
from samerack.assignors.streams.plugin import AssignmentError
from samerack.common import pickle_process
from samerack.events.event import happened, reason
from samerack.settings.streams import StreamsSettings
from tests.parity.streams_cases import random_case
from tests.streams_http import Endpoint, Json, endpoint, question_of

SLOW = """
import time
from pathlib import Path
from samerack.assignors.streams.ha import HighAvailabilityTaskAssignor
from samerack.assignors.streams.plugin import TaskAssignment

class Slow:
    def configure(self, configs):
        self.go = Path(configs["go"])

    def assign(self, state):
        while not self.go.exists():
            time.sleep(0.01)
        return HighAvailabilityTaskAssignor(clock_ms=lambda: 0).assign(state)
"""

COUNTED = """plans = 0

    def assign(self, state):
        self.plans += 1
        found = self.planned(state)
        first, *others = found.assignment
        return TaskAssignment(assignment=(first.with_followup_rebalance(10**15 + self.plans), *others))

    def planned"""


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
    """An agent with an application that plans only when the test lets it."""
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


def test_an_application_is_planned_after_the_one_before(agent: Endpoint, tmp_path: Path) -> None:
    """Applications that ask at the same time are planned one after the other."""
    agent.prepare()
    answers: list[tuple[int, Any]] = []
    asking = [
        threading.Thread(target=lambda name=name: answers.append(agent.ask(question(name))))
        for name in ("slow", "quick")
    ]
    asking[0].start()
    _await_busy(agent)
    asking[1].start()
    assert not answers
    (tmp_path / "go").touch()
    for one in asking:
        one.join()
    assert [status for status, _ in answers] == [200, 200]


def test_a_late_plan_is_refused_at_its_deadline(tmp_path: Path) -> None:
    """The process is killed, and another one starts for the next question."""
    with endpoint(settings(tmp_path, 1)) as agent:
        agent.prepare()
        killed = pid_of(agent)
        status, answer = agent.ask(question("slow"))
        assert status == 504
        late = r"no plan within (1|0\.\d) s; "  # less if the question waited for this machine
        assert re.search(late, answer["error"])
        assert re.match(late, agent.events.latest(group="slow")[0].failure)
        wait_until(lambda: agent.service._process.is_ready, "another process is ready")
        assert pid_of(agent) != killed


def pid_of(agent: Endpoint) -> int:
    """The id of the process that plans, which has been started."""
    process = agent.service._process._process
    assert process is not None
    return process.pid


def _await_busy(agent: Endpoint) -> None:
    """Wait until a plan is under way."""
    while not agent.service._lock.locked():
        time.sleep(0.01)


@pytest.mark.parametrize(("is_ready", "why"), [(True, "other plans are in progress"), (False, "is still starting")])
def test_a_question_without_a_turn_is_refused(agent: Endpoint, *, is_ready: bool, why: str) -> None:
    """The reason is what keeps the process busy: its start, or other plans."""
    if is_ready:
        agent.prepare()
    with agent.service._turn(1.0), pytest.raises(NoPlanError, match=why), agent.service._turn(0.01):
        pass


def test_questions_of_many_applications_at_once_wait_for_each_other() -> None:
    """Applications on one host that rebalance at the same moment all get their plans."""
    with endpoint({"deadline_seconds": 50}) as agent, ThreadPoolExecutor(6) as pool:
        agent.prepare()
        assert [status for status, _ in pool.map(agent.ask, [question(f"app-{n}") for n in range(6)])] == [200] * 6


def test_questions_that_get_no_turn_in_time_are_counted_as_busy() -> None:
    """Also those whose bodies were not read, as too many others were in memory; the reason says what to raise."""
    names = [f"app-{number}" for number in range(4)]
    with endpoint({"deadline_seconds": 0.3}) as agent, ThreadPoolExecutor(len(names)) as pool:
        agent.prepare()
        with agent.service._turn(1.0):
            answers = list(pool.map(agent.ask, map(question, names)))
            agent.service.report_no_turn("")
        counted = values(agent.metrics, "samerack_streams_failures_total")
    assert [status for status, _ in answers] == [503] * 4
    assert all("raise streams.deadline_seconds" in answer["error"] for _, answer in answers)
    assert {labels[0] for labels, count in counted.items() if labels[1] == "busy" and count == 1.0} == {*names}


def test_a_question_waits_for_the_process_that_starts() -> None:
    """A question that comes while its process starts, as the jar's first one, is not refused as one too many."""
    with endpoint({"deadline_seconds": 50}) as agent:
        preparing = threading.Thread(target=agent.prepare)
        preparing.start()
        _await_busy(agent)
        status, answer = agent.ask(question("quick"))
        preparing.join()
    assert status == 200, answer


def test_a_prepared_process_is_the_one_that_plans(agent: Endpoint) -> None:
    """`prepare` starts the process, which then plans; one that was killed is replaced."""
    assert agent.post("/v1/streams/prepare", {"version": 1, "application": "quick"}) == (204, None)
    prepared = pid_of(agent)
    agent.assign(question("quick"))
    assert pid_of(agent) == prepared
    agent.service._process.end()
    assert agent.assign(question("quick"))["plan"]


def test_a_process_that_many_wait_for_is_prepared_once(agent: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each notice that had waited made a ready process plan again, before questions; outcomes are taken meanwhile."""
    called, waiting = list[str](), 16  # as many notices as are in memory at once
    call, prepare = agent.service._call, agent.service.prepare

    def counted(function: str, *arguments: Any, seconds: float) -> tuple[Any, ...]:
        called.append(function)
        return call(function, *arguments, seconds=seconds)

    def entered() -> None:
        called.append("prepare")
        prepare()

    monkeypatch.setattr(agent.service, "_call", counted)
    monkeypatch.setattr(agent.service, "prepare", entered)
    with ThreadPoolExecutor(waiting) as pool:
        with agent.service._turn(1.0):
            notices = [pool.submit(agent.prepare) for _ in range(waiting)]
            wait_until(lambda: len(called) == waiting, "all notices wait")
            assert agent.post("/v1/streams/computed", OUTCOME) == (204, None)
        for notice in notices:
            notice.result()
    assert called.count("warm_up") == 1


def test_applications_have_an_object_each_of_one_class(tmp_path: Path) -> None:
    """A user's class keeps what it knows of an application in its object, and plans for several in one process."""
    with endpoint(settings(tmp_path, 50)) as agent:
        (tmp_path / "go").touch()
        (tmp_path / "slow.py").write_text(SLOW.replace("def assign", COUNTED), encoding="utf-8")
        plans = [agent.assign(question(name))["clients"] for name in ("slow-1", "slow-1", "slow-2")]
    followups = [[one["followup_ms"] % 10 for one in plan if one["followup_ms"] is not None] for plan in plans]
    assert followups == [[1], [2], [1]]


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


OUTCOME: Json = {"version": 1, "application": "orders", "plan": None, "error": "NONE", "generation": None}
"""As the jar posts it: the generation of the group is not known there."""


def test_a_plan_of_an_agent_before_this_one_leaves_the_page_whole(agent: Endpoint) -> None:
    """An application that used a plan and has asked this agent for none is not shown, and the page is."""
    assert agent.post("/v1/streams/computed", OUTCOME | {"plan": "x"}) == (204, None)
    assert agent.service.board.all() == ()
    assert "What happened" in agent.get("/")


def test_the_application_that_was_idle_the_longest_makes_room(agent: Endpoint) -> None:
    """At most so many applications have a status and series, whoever names some; what is new is always shown."""
    names = [f"app-{number:03}" for number in range(MAX_APPLICATIONS + 1)]
    for name in names:
        agent.service._reporter.failed(name, NoPlanError(HTTPStatus.SERVICE_UNAVAILABLE, "busy"))
        agent.service._reporter.failed(names[0], NoPlanError(HTTPStatus.SERVICE_UNAVAILABLE, "busy"))
    kept = [names[0], *names[2:]]
    assert [one.application for one in agent.service.board.all()] == kept
    for family in ("samerack_streams_failures_total", "samerack_streams_fallbacks_total"):
        assert sorted({labels[0] for labels in values(agent.metrics, family)}) == kept, family


def test_outcomes_are_shown(agent: Endpoint) -> None:
    """What the application reports of a plan that was not used is an event, a metric and the status; else a count."""
    assert agent.post("/v1/streams/computed", OUTCOME) == (204, None)
    assert agent.events.latest() == ()
    assert agent.post("/v1/streams/computed", OUTCOME | {"fallback": "no answer within 2000 ms"}) == (204, None)
    assert agent.post("/v1/streams/computed", OUTCOME | {"plan": "x", "error": "MISSING_PROCESS_ID"}) == (204, None)
    assert agent.post("/v1/streams/computed", OUTCOME | {"plan": "y"}) == (204, None)
    rejected, fell_back = agent.events.latest()
    assert (rejected.action, rejected.reason) == ("rejected", "MISSING_PROCESS_ID")
    assert agent.service.board.all()[0].used == 1
    assert (fell_back.action, fell_back.reason) == ("fell-back", "no answer within 2000 ms")
    assert values(agent.metrics, "samerack_streams_fallbacks_total") == {("orders",): 1.0}
    assert values(agent.metrics, "samerack_streams_rejections_total") == {("orders", "MISSING_PROCESS_ID"): 1.0}
    assert agent.service.board.all()[0].trouble == "rejected: MISSING_PROCESS_ID"
    agent.assign(question("orders"))
    assert set(values(agent.metrics, "samerack_streams_tasks")) == {("orders",)}
    assert agent.post("/v1/streams/computed", OUTCOME | {"fallback": "no answer within 2000 ms"}) == (204, None)
    assert values(agent.metrics, "samerack_streams_tasks") == {}  # the plan is not in use


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
        ({"version": 1, "application": "a" * 250, "error": "NONE"}, "application: expected a name of at most 249"),
        ({"version": 1, "application": "a", "error": "NONE", "plan": "p" * 250}, "plan: expected a name of at most"),
        ({"version": 1, "application": "a", "error": "NONE", "fallback": 1}, "fallback"),
        ({"version": 1, "application": "\ud800", "error": "NONE"}, "application: expected a name of at most 249"),
        ({"version": 1, "application": "a", "error": "NONE", "plan": "\ud800"}, "plan: expected a name of at most"),
    ],
)
def test_a_wrong_outcome_changes_nothing(agent: Endpoint, body: Any, reason: str) -> None:
    """The answer is 400 with what is expected."""
    status, answer = agent.post("/v1/streams/computed", body)
    assert (status, reason in answer["error"]) == (400, True)
    assert agent.service.board.all() == ()


def test_reasons_are_in_utf_8() -> None:
    """Half a surrogate pair, which JSON and exceptions may have, is replaced: no event can have it."""
    outcome = read_outcome(json.dumps(OUTCOME | {"fallback": "no \ud800"}).encode())
    assert outcome.fallback == "no \ufffd"
    assert str(NoPlanError(HTTPStatus.UNPROCESSABLE_ENTITY, "no \ud800")) == "no \ufffd"


def test_a_reason_is_bounded(agent: Endpoint) -> None:
    """A question with a text of any length leaves a short reason in answer, event and status."""
    wrong = question("orders")
    wrong["tasks"][0][0] = "x" * 100_000
    agent.prepare()
    status, answer = agent.ask(wrong)
    assert (status, len(answer["error"])) == (400, MAX_TEXT)
    assert len(agent.events.latest()[0].failure) == MAX_TEXT


def test_a_machine_without_room_for_a_process_is_a_refusal(agent: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    """The question has an answer and an event with the cause; an agent that begins warns, and runs."""

    def no_room(*_: Any, **_options: Any) -> None:
        raise OSError(errno.EAGAIN, "Resource temporarily unavailable")

    monkeypatch.setattr(pickle_process, "subprocess", SimpleNamespace(Popen=no_room, PIPE=None))
    status, answer = agent.ask(question("orders"))
    assert (status, "cannot start: [Errno 11] Resource" in answer["error"]) == (500, True)
    assert "cannot start" in agent.events.latest()[0].failure
    assert agent.post("/v1/streams/prepare", {"version": 1, "application": "orders"})[0] == 500
    named = StreamsSettings.model_validate({"applications": {"orders": {}}})
    with capture_logs() as logged:
        StreamsService(named, agent.service._reporter).start()
        wait_until(lambda: bool(logged), "the start has failed")
    assert [(one["event"], one["application"]) for one in logged] == [("streams-process-not-started", "orders")]


def test_a_question_that_waited_until_its_deadline_kills_no_process(agent: Endpoint) -> None:
    """Where the start of the process took the time of the plan, the process stays, and the reason says so."""
    agent.prepare()
    body = json.dumps(question("orders")).encode()
    with pytest.raises(NoPlanError, match=r"was ready only \d\d\.\d s after the request") as refused:
        agent.service.plan(body, "orders", since=time.monotonic() - 49.9)
    assert refused.value.status == 504
    assert agent.service._process.is_ready


def test_a_question_is_bounded(agent: Endpoint) -> None:
    """A body above the limit, one that is no question, and one without its name in the address are refused."""
    assert agent.post("/v1/streams/assign", b" " * (MAX_QUESTION_BYTES + 1))[0] == 413
    for path, body, why in (
        ("?application=orders", b"[", "not valid JSON"),
        ("?application=others", question("orders"), "application: does not match the one in the URL"),
        ("?application=" + "x" * 250, question("orders"), "?application=: expected a name of at most 249"),
        ("", question("orders"), "?application=: expected a name"),
    ):
        status, answer = agent.post(f"/v1/streams/assign{path}", body)
        assert (status, why in answer["error"]) == (400, True)


def test_a_warning_is_given_once(agent: Endpoint) -> None:
    """KIP-925, 4.D.III: that tags have no key `rack` is in the first plan's event; the status has it on."""
    for _ in range(3):
        answer = agent.assign(question("orders", seed=6))
        assert any("no key `rack`" in warning for warning in answer["warnings"])
    details = [one.detail for one in agent.events.latest() if one.action == "planned"]
    assert ["no key `rack`" in detail for detail in details] == [False, False, True]
    (status,) = json.loads(agent.get("/v1/streams"))["applications"]
    assert any("no key `rack`" in warning for warning in status["planned"]["warnings"])
