"""The agent's JSON under `/v1`: traffic, lag, history, findings, events, policy, status and racks.

Anybody may read it: `samerack cost`, `lag`, `verify` and `plan` do. Programs on this machine may also post: Kafka
Streams applications their questions and what came of a plan, others librdkafka's statistics. Each question takes
processor time, and each post changes what is shown, so those from other machines and from pages in a browser are
refused.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from http import HTTPStatus
from typing import Any, Final, get_args

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from samerack.agent.group_status import GroupStatus
from samerack.agent.streams.context import NoPlanError
from samerack.agent.streams.service import StreamsService
from samerack.agent.web.server import JSON, BodyReader, RequestError, refusal, refused_change
from samerack.events import MAX_ASKED, Kind
from samerack.events.event import EVENT_LIST, EventList
from samerack.reporting import group_lag, report
from samerack.reporting.evidence import findings_to_json
from samerack.reporting.report_service import ReportService, history_to_json, host_racks, host_racks_to_json
from samerack.traffic.snapshot import ObservedMember
from samerack.traffic.statistics import MAX_BYTES, MeasuredElsewhereError, StatisticsError

POLICY: Final = (
    "group",
    "role",
    "mode",
    "waits",
    "waits_until",
    "budget",
    "breaker_open",
    "breaker_cause",
    "saved_bytes_per_second",
    "saved_dollars_per_day",
    "load_above_least",
    "fullest_member",
)
"""The fields of a group's status that show whether and when the agent rebalances it."""
MAX_QUESTION_BYTES: Final = 64 * 1024 * 1024
_AT_ONCE: Final = 2
"""Questions in memory: one that is planned, and the next one; others wait before they are read."""
_MAX_COMPUTED: Final = 65_536
_CURE: Final = "ask the agent beside the application"

Take = Callable[[str, bytes, str | None], ObservedMember]
"""Takes the group, the body and a member id or instance id, and returns the member of the statistics."""


def routes(
    reports: ReportService,
    *,
    status: Callable[[], Mapping[str, Any]] = dict,
    statuses: Callable[[], Iterable[GroupStatus]] = tuple,
) -> list[Route]:
    """Return the routes of the API: `status` is what brokers support, `statuses` those of the groups to lead."""

    def traffic(_: Request) -> Response:
        return Response(report.to_json(reports.report()), media_type=JSON)

    def verdict(_: Request) -> Response:
        return Response(findings_to_json(reports.verdict()), media_type=JSON)

    def events(request: Request) -> Response:
        asked = request.query_params
        given, kinds = asked.get("most", str(MAX_ASKED)), asked.getlist("kind")
        if not given.isascii() or not given.isdigit() or len(given) > 9 or not 1 <= int(given) <= MAX_ASKED:
            return refusal(400, f"most: {given[:20]!r} is not a number from 1 to {MAX_ASKED}")
        if unknown := [kind for kind in kinds if kind not in get_args(Kind)]:
            return refusal(400, f"kind: {unknown[0][:20]!r} is not one of {', '.join(get_args(Kind))}")
        try:
            since = float(asked.get("since", "-inf"))
        except ValueError:
            return refusal(400, f"since: {asked['since'][:20]!r} is not a number of seconds since 1970")
        found = reports.events.latest(int(given), group=asked.get("group"), kinds=kinds, since=since)
        return Response(EVENT_LIST.to_json(EventList(events=found)), media_type=JSON)

    def racks(request: Request) -> Response:
        group = reports.board.group(request.query_params.get("group", ""))
        members = group.members if group is not None else ()
        known = host_racks(reports.bootstrap, ((one.client_host, one.rack) for one in members))
        return Response(host_racks_to_json(known), media_type=JSON)

    def lag(request: Request) -> Response:
        name = request.query_params.get("group", "")
        group = reports.board.group(name)
        if group is None:
            return _unknown_group(name)
        return Response(group_lag.to_json(group_lag.group_lag(group, bootstrap=reports.bootstrap)), media_type=JSON)

    def history(request: Request) -> Response:
        name = request.query_params.get("group", "")
        if reports.board.group(name) is None:
            return _unknown_group(name)
        return Response(history_to_json(reports.history(name)), media_type=JSON)

    def policy(_: Request) -> Response:
        return JSONResponse({"groups": [{name: getattr(one, name) for name in POLICY} for one in statuses()]})

    def role_status(_: Request) -> Response:
        return JSONResponse(status())

    return [
        Route("/v1/traffic", traffic),
        Route("/v1/findings", verdict),
        Route("/v1/events", events),
        Route("/v1/racks", racks),
        Route("/v1/lag", lag),
        Route("/v1/history", history),
        Route("/v1/policy", policy),
        Route("/v1/status", role_status),
    ]


def _unknown_group(group: str) -> Response:
    return refusal(404, f"group {group}: the agent does not know it")


def streams_routes(streams: StreamsService) -> list[Route]:
    """Return the routes with which Kafka Streams applications on this host ask for plans, and one that shows the plans.

    `POST /v1/streams/prepare` says that an application will ask: the process that plans starts.
    """
    questions = BodyReader(max_bytes=MAX_QUESTION_BYTES, at_once=_AT_ONCE, wait_seconds=streams.deadline_seconds)
    outcomes, notices = BodyReader(max_bytes=_MAX_COMPUTED), BodyReader(max_bytes=_MAX_COMPUTED)

    def answering(
        bodies: BodyReader, answer: Callable[[bytes, Request, float], bytes | None]
    ) -> Callable[..., Awaitable[Response]]:
        async def endpoint(request: Request) -> Response:
            since = time.monotonic()
            if refused := refused_change(request, _CURE):
                return refusal(403, refused)
            try:
                async with bodies.read(request) as body:
                    found = await run_in_threadpool(answer, body, request, since)
            except RequestError as error:
                is_busy = bodies is questions and error.status == HTTPStatus.SERVICE_UNAVAILABLE
                return await run_in_threadpool(busy, request) if is_busy else error.answer()
            except NoPlanError as error:
                return refusal(error.status, str(error))
            return Response(status_code=204) if found is None else Response(found, media_type=JSON)

        return endpoint

    def plan(body: bytes, request: Request, since: float) -> bytes:
        return streams.plan(body, request.query_params.get("application", ""), since=since)

    def busy(request: Request) -> Response:
        error = streams.report_no_turn(request.query_params.get("application", ""))
        return refusal(error.status, str(error))

    def computed(body: bytes, *_: object) -> None:
        streams.computed(body)

    def prepare(*_: object) -> None:
        streams.prepare()

    def show(_: Request) -> Response:
        return JSONResponse({"applications": streams.board.to_json()})

    return [
        Route("/v1/streams", show),
        Route("/v1/streams/assign", answering(questions, plan), methods=["POST"]),
        Route("/v1/streams/computed", answering(outcomes, computed), methods=["POST"]),
        Route("/v1/streams/prepare", answering(notices, prepare), methods=["POST"]),
    ]


def statistics_routes(take: Take) -> list[Route]:
    """Return the route to which applications on this host post librdkafka's statistics; refused ones change nothing.

    `take` raises StatisticsError for invalid statistics.
    """
    bodies = BodyReader(max_bytes=MAX_BYTES)
    one_at_a_time = asyncio.Lock()  # parsing takes many times the memory of the body

    async def statistics(request: Request) -> Response:
        if refused := refused_change(request, "post to an agent beside the application"):
            return refusal(403, refused)
        group = request.query_params.get("group", "")
        if not group:
            return refusal(400, "missing group; post to /v1/statistics?group=NAME")
        try:
            async with bodies.read(request) as body, one_at_a_time:
                member = await run_in_threadpool(take, group, body, request.query_params.get("member"))
        except RequestError as error:
            return error.answer()
        except MeasuredElsewhereError as error:
            return refusal(409, str(error))
        except StatisticsError as error:
            return refusal(400, str(error))
        return JSONResponse({"member": member.id, "rack": member.rack.rack})

    return [Route("/v1/statistics", statistics, methods=["POST"])]
