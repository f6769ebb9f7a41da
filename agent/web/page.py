"""The web page: `/` for the whole cluster, `/group?name=…` for one group. Plain HTML, no scripts, no external content.

The templates escape everything that comes from Kafka.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from samerack.agent.group_status import GroupStatus
from samerack.agent.policy import WAITS
from samerack.agent.streams.board import StreamsStatus
from samerack.agent.web.groups_table import OF_ONE, ShownGroup, groups_table
from samerack.agent.web.history_plot import plot
from samerack.agent.web.lag_tables import group_address, known_sort, lag_tables
from samerack.common import words
from samerack.events.words import duration, happened, reason
from samerack.reporting.bill_parts import bill_parts, missing
from samerack.reporting.group_lag import group_lag
from samerack.reporting.report import PairCost, Report
from samerack.reporting.report_service import ReportService

if TYPE_CHECKING:
    from jinja2 import Environment

_EVENTS_SHOWN: Final = 30
_REFRESH_SECONDS: Final = 10
_HEATS: Final = 6
_HEADERS: Final[Mapping[str, str]] = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; img-src data:; base-uri 'none'; "
    "form-action 'self'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One cell of the matrix; `kind` is near, across or unknown, `heat` from 0 (nothing) to 5 (the most)."""

    wire_bytes: int
    dollars: float
    kind: str
    heat: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Matrix:
    """Rows of client racks by columns of replica racks; "" is unknown."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Cell, ...]], ...]


def matrix(pairs: Iterable[PairCost], racks: Iterable[str]) -> Matrix:
    """Returns a cell for every pair of a client rack and a replica rack, unknown racks last."""
    found = {(pair.client_rack, pair.replica_rack): pair for pair in pairs}
    known = set(racks) | {rack for pair in found for rack in pair if rack}
    columns = (*sorted(known), *([""] if any(replica == "" for _, replica in found) else []))
    names = (*sorted(known), *([""] if any(client == "" for client, _ in found) else []))
    highest = max((pair.wire_bytes for pair in found.values()), default=0)

    def cell(client: str, replica: str) -> Cell:
        pair = found.get((client, replica))
        wire_bytes = pair.wire_bytes if pair is not None else 0
        return Cell(
            wire_bytes=wire_bytes,
            dollars=(pair.dollars or 0.0) if pair is not None else 0.0,
            kind="unknown" if not client or not replica else "near" if client == replica else "across",
            heat=min(_HEATS - 1, -(-wire_bytes * (_HEATS - 1) // highest)) if highest else 0,
        )

    return Matrix(
        columns=columns, rows=tuple((client, tuple(cell(client, replica) for replica in columns)) for client in names)
    )


@cache
def environment() -> Environment:
    """Returns the templates, which escape all values."""
    from samerack.common import pages  # noqa: PLC0415 - Jinja: for an agent whose page someone opens

    made = pages.environment("agent.web")
    made.filters.update(rate=words.rate, when=words.when, known=words.count, age=words.age)
    made.filters["monthly"] = words.monthly
    made.filters.update(duration=duration, happened=happened, reason=reason)
    made.filters["waits"] = lambda name: WAITS.get(name, name)
    made.filters["or_unknown"] = lambda name: words.UNKNOWN if name is None else name
    made.filters["link"] = group_address
    made.filters["quoted"] = lambda name: quote(name, safe="")
    made.globals["version"] = version("samerack")
    return made


def totals(report: Report) -> dict[str, Any]:
    """Returns the figures at the top of the page."""
    sums = report.totals
    return {
        "rate": report.cross_rack_bytes_per_second,
        "share": sums.share,
        "unknown_rate": report.unknown_bytes_per_second or None,
        "dollars_per_month": sums.dollars_per_month,
        "avoidable_dollars_per_month": sums.avoidable_dollars_per_month,
        "guessed_dollars_per_month": sums.guessed_dollars_per_month,
        "saved_dollars_per_month": report.saved_dollars_per_month,
    }


def _refreshes(request: Request) -> bool:
    return request.query_params.get("refresh") == "on"


def rendered(template: str, request: Request, status: int = 200, **values: Any) -> Response:
    """Returns a page, which loads itself again where the request says so."""
    seconds = _REFRESH_SECONDS if _refreshes(request) else 0
    cluster = request.scope.get("root_path", "").rpartition("/")[2]  # below it are the pages of one of several
    text = environment().get_template(template).render(refresh_seconds=seconds, cluster=cluster, **values)
    return HTMLResponse(text, status_code=status, headers=_HEADERS)


def css_route() -> Route:
    """Returns the route of the style sheet, which lies beside every page."""

    def css(_: Request) -> Response:
        return Response(
            environment().get_template("page.css").render(),
            media_type="text/css",
            headers={"X-Content-Type-Options": "nosniff"},
        )

    return Route("/page.css", css)


def routes(
    reports: ReportService,
    *,
    statuses: Callable[[], Iterable[GroupStatus]] = tuple,
    streams: Callable[[], tuple[StreamsStatus, ...]] = tuple,
) -> list[Route]:
    """Returns the routes of the page.

    Args:
        reports: traffic, findings and events.
        statuses: the status of each group that the agent is to lead.
        streams: Kafka Streams applications that asked for plans.
    """

    def index(request: Request) -> Response:
        report = reports.report()
        return rendered(
            "index.html",
            request,
            report=report,
            totals=totals(report),
            bill=bill_parts(report),
            bill_lacks=missing(report),
            matrix=matrix(report.pairs, report.racks),
            groups=groups_table(
                [
                    ShownGroup(group=one, address=group_address(one.group), role=one.role or "observes")
                    for one in report.groups
                ],
                OF_ONE,
                request.query_params,
            ),
            statuses={status.group: status for status in statuses()},
            verdict=reports.verdict(),
            applications=streams(),
            events=reports.events.latest(_EVENTS_SHOWN),
        )

    def group(request: Request) -> Response:
        name = request.query_params.get("name", "")
        report = reports.report()
        found = next((one for one in report.groups if one.group == name), None)
        if found is None:
            return rendered("missing.html", request, 404, report=report, name=name)
        sort = known_sort(request.query_params.get("sort", ""))
        measured, history = reports.board.group(name), reports.history(name)
        return rendered(
            "group.html",
            request,
            report=report,
            group=found,
            group_status=next((status for status in statuses() if status.group == name), None),
            matrix=matrix(found.pairs, report.racks),
            history=history,
            drawn=plot(history),
            curve=reports.curve(name),
            sort=sort,
            lag=lag_tables(group_lag(measured), sort=sort, refresh=_refreshes(request)) if measured else None,
            racks_unknown=words.RACKS_UNKNOWN,
            events=reports.events.latest(_EVENTS_SHOWN, group=name),
        )

    return [Route("/", index), Route("/group", group), css_route()]
