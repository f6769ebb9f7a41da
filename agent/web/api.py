"""The agent's JSON under `/v1`: traffic, lag, history, findings, events, policy, status and racks.

Read-only. `samerack cost`, `lag`, `top`, `verify` and `plan` use it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, get_args

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from samerack.agent.group_status import GroupStatus
from samerack.agent.web.guard import JSON, refusal
from samerack.events import MAX_ASKED, Kind
from samerack.events.event import all_to_json
from samerack.reporting import findings, group_history, group_lag, host_racks, report
from samerack.reporting.report_service import ReportService

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
)
"""The fields of a group's status that show whether and when the agent rebalances it."""


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
        return Response(findings.to_json(reports.verdict()), media_type=JSON)

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
        return Response(all_to_json(found), media_type=JSON)

    def racks(request: Request) -> Response:
        group = reports.board.group(request.query_params.get("group", ""))
        members = group.members if group is not None else ()
        known = host_racks.host_racks(reports.bootstrap, ((one.client_host, one.rack) for one in members))
        return Response(host_racks.to_json(known), media_type=JSON)

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
        return Response(group_history.to_json(reports.history(name)), media_type=JSON)

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
