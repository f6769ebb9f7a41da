"""An agent's Streams endpoint without an agent: the server and the processes that plan are the real ones."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any
from urllib.parse import quote
from uuid import UUID

from samerack.agent.metrics import Metrics
from samerack.agent.streams.metrics import StreamsMetrics
from samerack.agent.streams.reporter import StreamsBoard, StreamsReporter
from samerack.agent.streams.service import StreamsService
from samerack.agent.web import api as web_api
from samerack.agent.web import page as web_page
from samerack.agent.web.server import application
from samerack.events import EventLog
from samerack.settings.streams import StreamsSettings
from tests.unit.agent.measured import reports
from tests.unit.agent.serving import ask, post, running

Json = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """A running server."""

    port: int
    service: StreamsService
    events: EventLog
    metrics: Metrics

    def post(self, path: str, body: Json | bytes) -> tuple[int, Any]:
        """Status and JSON of the answer; None if it has no body."""
        return post(self.port, path, body)

    def prepare(self) -> None:
        """Start the process that plans, and wait until it is ready."""
        status, answer = self.post("/v1/streams/prepare", {"version": 1, "application": "any"})
        if status != HTTPStatus.NO_CONTENT:
            raise RuntimeError(f"{status}: {answer}")

    def get(self, path: str) -> str:
        """The text of a page."""
        return ask(self.port, path)[1]

    def ask(self, question: Json) -> tuple[int, Any]:
        """Status and answer of a question."""
        return self.post(f"/v1/streams/assign?application={quote(question['application'])}", question)

    def assign(self, question: Json) -> Json:
        """The plan of a question that has one; its process has started before, however slow this machine is."""
        self.prepare()
        status, answer = self.ask(question)
        if status != 200:
            raise RuntimeError(f"{status}: {answer}")
        found: Json = answer
        return found


@contextmanager
def endpoint(settings: Json, *, unix: str = "", **known: Any) -> Iterator[Endpoint]:
    """The endpoint with these settings of the section `streams`; `known` as of `StreamsService`."""
    events, metrics, board = EventLog(), Metrics(), StreamsBoard()
    metrics.registry.register(board)
    reporter = StreamsReporter(events=events, metrics=StreamsMetrics(metrics.registry), board=board)
    service = StreamsService(StreamsSettings.model_validate(settings), reporter, **known)
    routes = [
        *web_api.streams_routes(service),
        *web_page.routes(reports(), streams=service.board.all),
    ]
    app = application(metrics.exposition, healthy=dict, ready=dict, more=routes)
    try:
        with running(app, unix=unix) as port:
            yield Endpoint(port=port, service=service, events=events, metrics=metrics)
    finally:
        service.stop()


def question_of(case: Json, name: str) -> Json:
    """A question of `samerack streams assign` as the jar posts it, for an application of this name."""
    racks = sorted(
        {rack for task in case["tasks"] for part in task["partitions"] for rack in part["racks"]}
        | {client["rack"] for client in case["clients"] if client["rack"]}
    )
    topics = sorted({part["topic"] for task in case["tasks"] for part in task["partitions"]})
    ids = [f"{task['subtopology']}_{task['partition']}" for task in case["tasks"]]

    def partition(part: Json) -> list[Any]:
        kind = 3 if part["source"] and part["changelog"] else 1 if part["source"] else 2
        return [topics.index(part["topic"]), part["partition"], kind, [racks.index(rack) for rack in part["racks"]]]

    def client(given: Json, number: int) -> Json:
        own = given["id"]
        return {
            "process": given.get("uuid") or str(UUID(int=number)),
            "threads": given["threads"],
            "consumers": [f"{own}-consumer"],
            "active": [ids.index(task) for task in case.get("previous_active", {}).get(own, ())],
            "standby": [ids.index(task) for task in case.get("previous_standby", {}).get(own, ())],
            "lags": [[ids.index(task), lag] for task, lag in case["lags"][own].items()],
            "host": None,
            "tags": given.get("tags", {}),
            "rack": None if given["rack"] is None else racks.index(given["rack"]),
        }

    return {
        "version": 1,
        "application": name,
        "release": "4.3.1",
        "configs": {
            "assignor": None,
            "acceptable_recovery_lag": case["acceptable_recovery_lag"],
            "max_warmup_replicas": case["max_warmup_replicas"],
            "num_standby_replicas": case["num_standby_replicas"],
            "probing_rebalance_interval_ms": 600_000,
            "rack_aware_assignment_tags": case.get("rack_aware_assignment_tags", []),
            "rack_aware_strategy": case["strategy"],
            "rack_aware_traffic_cost": case["traffic_cost"],
            "rack_aware_non_overlap_cost": case["non_overlap_cost"],
        },
        "topics": topics,
        "racks": racks,
        "tasks": [
            [name, int(task["stateful"]), [partition(part) for part in task["partitions"]]]
            for name, task in zip(ids, case["tasks"], strict=True)
        ],
        "clients": [client(given, number) for number, given in enumerate(case["clients"], start=1)],
    }
