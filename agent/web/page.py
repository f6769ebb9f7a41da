"""The web page: `/` for the whole cluster, `/group?name=…` for one group. Plain HTML, no scripts, no external content.

The templates escape everything that comes from Kafka.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from samerack.agent.events.words import duration, happened, reason
from samerack.agent.policy import WAITS
from samerack.agent.reporting.report import PairCost, Report
from samerack.agent.reporting.report_service import ReportService
from samerack.common import words
from samerack.common.money import SECONDS_PER_MONTH

if TYPE_CHECKING:
    from jinja2 import Environment

_EVENTS_SHOWN: Final = 30
_GROUPS_SHOWN: Final = 200
_REFRESH_SECONDS: Final = 10
_HEATS: Final = 6
_HEADERS: Final[Mapping[str, str]] = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; img-src data:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'",
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
            dollars=pair.dollars if pair is not None else 0.0,
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
    made.filters.update(rate=words.rate, when=words.when)
    made.filters.update(duration=duration, happened=happened, reason=reason)
    made.filters["waits"] = lambda name: WAITS.get(name, name)
    made.filters["link"] = lambda group: f"/group?name={quote(group, safe='')}"
    return made


def totals(report: Report) -> dict[str, Any]:
    """Returns the figures at the top of the page."""
    window = report.window_seconds
    crossing = sum(group.cross_rack_bytes for group in report.groups)
    known = sum(group.wire_bytes - group.unknown_bytes for group in report.groups)
    saved = [group.saved_dollars_per_month for group in report.groups if group.saved_dollars_per_month is not None]
    return {
        "rate": crossing / window if window > 0 else None,
        "share": crossing / known if known else None,
        "dollars_per_month": report.prices.dollars(crossing) / window * SECONDS_PER_MONTH if window > 0 else None,
        "saved_dollars_per_month": sum(saved) if saved else None,
    }


def routes(reports: ReportService) -> list[Route]:
    """Returns the routes of the page."""

    def page(template: str, request: Request, status: int = 200, **values: Any) -> Response:
        refresh = request.query_params.get("refresh") == "on"
        text = environment().get_template(template).render(refresh_seconds=_REFRESH_SECONDS if refresh else 0, **values)
        return HTMLResponse(text, status_code=status, headers=_HEADERS)

    def index(request: Request) -> Response:
        report = reports.report()
        return page(
            "index.html",
            request,
            report=report,
            totals=totals(report),
            matrix=matrix(report.pairs, report.racks),
            groups=report.groups[:_GROUPS_SHOWN],
            statuses={status.group: status for status in reports.statuses()},
            verdict=reports.verdict(),
            events=reports.events.latest(_EVENTS_SHOWN),
        )

    def group(request: Request) -> Response:
        name = request.query_params.get("name", "")
        report = reports.report()
        found = next((one for one in report.groups if one.group == name), None)
        if found is None:
            return page("missing.html", request, 404, report=report, name=name)
        return page(
            "group.html",
            request,
            report=report,
            group=found,
            group_status=next((status for status in reports.statuses() if status.group == name), None),
            matrix=matrix(found.pairs, report.racks),
            curve=reports.curve(name),
            events=reports.events.latest(_EVENTS_SHOWN, group=name),
        )

    def css(_: Request) -> Response:
        return Response(
            environment().get_template("page.css").render(),
            media_type="text/css",
            headers={"X-Content-Type-Options": "nosniff"},
        )

    return [Route("/", index), Route("/group", group), Route("/page.css", css)]
