"""The agent's JSON under `/v1`: traffic, lag, history, findings, events, policy, status and racks.

Anybody may read it: `samerack cost`, `lag`, `verify` and `plan` do. Programs on this machine may also post: Kafka
Streams applications their questions and what came of a plan, others librdkafka's statistics, and operators what the
leader of one group is to do: `POST /v1/requests` asks the agent to leave the group, to pause in it, or to resume,
`POST /v1/takeover` to take over as its leader; `GET` returns what is in force, or the progress. Each question takes
processor time, and each post changes what is shown or done, so those from other machines and from pages in a browser
are refused, and such a page may not send the content type of JSON without a preflight request.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, TypeAlias, get_args

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from samerack.agent.group_status import GroupStatus
from samerack.agent.leading import group_requests, progress
from samerack.agent.leading.progress import TakeoverOutcome
from samerack.agent.policy.requests import ASKED, MAX_SECONDS, MAX_TEXT, RequestKind
from samerack.agent.streams.context import NoPlanError
from samerack.agent.streams.service import StreamsService
from samerack.agent.web.server import JSON, BodyReader, RequestError, refusal, refused_change
from samerack.common.words import nearest, plain
from samerack.events import MAX_ASKED, Kind
from samerack.events.event import EVENT_LIST, EventList
from samerack.reporting import group_lag, report
from samerack.reporting.evidence import findings_to_json
from samerack.reporting.report_service import ReportService, history_to_json, host_racks, host_racks_to_json
from samerack.traffic.snapshot import ObservedMember
from samerack.traffic.statistics import MAX_BYTES, MeasuredElsewhereError, StatisticsError

if TYPE_CHECKING:
    from samerack.agent.leading.leader import GroupLeader

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
        known = host_racks(reports.bootstrap, ((member.client_host, member.rack) for member in members))
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


ACTIONS: Final[Mapping[str, RequestKind | None]] = {**{kind.value: kind for kind in ASKED}, group_requests.RESUME: None}
"""What may be asked for, and the kind of request that it puts into force; None ends all."""
_FIELDS: Final = frozenset({"group", "action", "seconds", "by", "why", "lead_again"})
_MAX_REQUEST_BYTES: Final = 4096

_Ask: TypeAlias = "Callable[[GroupLeader], tuple[int, bytes]]"
"""Asks a leader, and returns status and JSON of the answer; runs on a thread."""


def leader_routes(leaders: Mapping[str, GroupLeader]) -> list[Route]:
    """Return the routes with which programs on this host ask the leaders, given by group."""
    return [
        *_endpoint(
            progress.PATH,
            leaders,
            command="run samerack lead beside the agent",
            read=_takeover,
            show=lambda leader: progress.to_json(leader.takeover),
        ),
        *_endpoint(
            group_requests.PATH,
            leaders,
            command="run samerack leave, pause or resume beside the agent",
            read=_request,
            show=lambda leader: group_requests.to_json(leader.operators.status),
        ),
    ]


def _endpoint(
    path: str,
    leaders: Mapping[str, GroupLeader],
    *,
    command: str,
    read: Callable[[bytes], tuple[str, _Ask]],
    show: Callable[[GroupLeader], bytes],
) -> list[Route]:
    """Return the routes of one endpoint.

    `command` is what a user who is refused should do instead. `read` returns the group and what asks its leader, from
    the body of POST, and raises RequestError; `show` the JSON of GET, which has the group in the query.
    """
    bodies = BodyReader(max_bytes=_MAX_REQUEST_BYTES)

    async def post(request: Request) -> Response:
        if refused := refused_change(request, command):
            return refusal(403, refused)
        try:
            async with bodies.read(request) as body:
                group, ask = read(body)
        except RequestError as error:
            return error.answer()
        leader = leaders.get(group)
        if leader is None:
            return _not_led(group, leaders)
        status, content = await run_in_threadpool(ask, leader)
        return Response(content, status_code=status, media_type=JSON)

    async def get(request: Request) -> Response:
        group = request.query_params.get("group", "")
        leader = leaders.get(group)
        if leader is None:
            return _not_led(group, leaders)
        return Response(await run_in_threadpool(show, leader), media_type=JSON)

    return [Route(path, get, methods=["GET"]), Route(path, post, methods=["POST"])]


def _not_led(group: str, leaders: Mapping[str, object]) -> Response:
    name = group[:100]
    hint = (
        nearest(name, leaders.keys())
        if leaders
        else "it leads none now: start it with a fitting --group, without --observe"
    )
    return refusal(404, f"group {name!r}: the agent does not lead it; {hint}")


def _object(body: bytes, fields: AbstractSet[str], words: str, *, example: str) -> dict[str, Any]:
    """Return the object in a body, which has no other fields than these.

    Raises:
        RequestError: It is not one; the message has the `example`, or the fields in `words`.
    """
    try:
        sent: Any = json.loads(body)
    except (ValueError, RecursionError):
        raise RequestError(400, f"expected JSON: {example}") from None
    if not isinstance(sent, dict) or sent.keys() - fields:
        raise RequestError(400, f"expected an object of {words}")
    return sent


def _takeover(body: bytes) -> tuple[str, _Ask]:
    """Return the requested group, and what asks its leader for a takeover or a dry run.

    Raises:
        RequestError: The body is not valid; the message says what is expected.
    """
    sent = _object(body, {"group", "dry_run"}, "group and dry_run", example='{"group": NAME, "dry_run": false}')
    group, dry_run = sent.get("group"), sent.get("dry_run", False)
    if not isinstance(group, str) or not isinstance(dry_run, bool):
        raise RequestError(400, "expected group to be a string, and dry_run true or false")

    def ask(leader: GroupLeader) -> tuple[int, bytes]:
        asked = leader.take_over(dry_run=dry_run)
        return 409 if asked.outcome is TakeoverOutcome.REFUSED else 202, progress.to_json(asked)

    return group, ask


def _request(body: bytes) -> tuple[str, _Ask]:
    """Return the requested group, and what asks its leader to leave it, to pause in it, or to resume.

    Raises:
        RequestError: The body is not valid; the message says what is expected.
    """
    example = '{"group": NAME, "action": "leave", "seconds": 1800}'
    sent = _object(body, _FIELDS, ", ".join(sorted(_FIELDS)), example=example)
    group, action, seconds = sent.get("group"), sent.get("action"), sent.get("seconds")
    if not isinstance(group, str) or not isinstance(action, str) or action not in ACTIONS:
        raise RequestError(400, f"expected group to be a string, and action one of {', '.join(ACTIONS)}")
    if seconds is not None and (
        isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds <= MAX_SECONDS
    ):
        raise RequestError(400, f"expected seconds to be a number above 0 and up to {MAX_SECONDS:.0f}, or null")
    by, why = sent.get("by", ""), sent.get("why", "")
    if not isinstance(by, str) or not isinstance(why, str) or max(len(by), len(why)) > MAX_TEXT:
        raise RequestError(400, f"expected by and why to be strings of up to {MAX_TEXT} characters")
    lead_again = sent.get("lead_again", False)
    if not isinstance(lead_again, bool) or (lead_again and action != RequestKind.LEAVE):
        raise RequestError(400, "expected lead_again to be true or false, and true only for a leave")

    def ask(leader: GroupLeader) -> tuple[int, bytes]:
        status = leader.operators.ask(
            ACTIONS[action],
            seconds=float(seconds) if seconds is not None else None,
            by=_clean(by),
            why=_clean(why),
            lead_again=lead_again,
        )
        return 200, group_requests.to_json(status)

    return group, ask


def _clean(text: str) -> str:
    """Return a text that is safe in a log, on a page and as a label of a metric."""
    return plain(text.encode("utf-8", "replace").decode())
