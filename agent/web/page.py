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
from samerack.agent.streams.reporter import StreamsStatus
from samerack.agent.web.history_plot import plot
from samerack.agent.web.tables import (
    OF_ONE,
    ShownGroup,
    event_rows,
    group_address,
    groups_table,
    known_sort,
    lag_tables,
)
from samerack.common import words
from samerack.common.money import per_month
from samerack.events.event import duration
from samerack.reporting.bill import missing
from samerack.reporting.group_lag import group_lag
from samerack.reporting.report import PairCost, Report, monthly_cost
from samerack.reporting.report_service import ReportService
from samerack.reporting.wanted import MembersWanted

if TYPE_CHECKING:
    from jinja2 import Environment

_ROWS_SHOWN: Final = 30
_EVENTS_READ: Final = 20 * _ROWS_SHOWN
"""A takeover has up to a dozen events."""
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
class MatrixCell:
    """One cell of the matrix; `kind` is near, across or unknown, `heat` from 0 (nothing) to 5 (the most).

    Bytes and dollars are None where nothing was measured.
    """

    wire_bytes: int | None
    dollars_per_month: float | None
    kind: str
    heat: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Matrix:
    """Rows of client racks by columns of replica racks; "" is unknown."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[MatrixCell, ...]], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PageHeadline:
    """The figure that comes first, what it is, and the dollars of it that are avoidable; None where not known."""

    figure: str
    what: str
    avoidable: float | None = None


def matrix(pairs: Iterable[PairCost], racks: Iterable[str], *, seconds: float, is_measured: bool = True) -> Matrix:
    """Return a cell for every pair of a client rack and a replica rack (of the brokers), unknown racks last."""
    found = {(pair.client_rack, pair.replica_rack): pair for pair in pairs}
    known = set(racks) | {rack for pair in found for rack in pair if rack}
    columns = (*sorted(known), *([""] if any(replica == "" for _, replica in found) else []))
    names = (*sorted(known), *([""] if any(client == "" for client, _ in found) else []))
    highest = max((pair.wire_bytes for pair in found.values()), default=0)

    def cell(client: str, replica: str) -> MatrixCell:
        pair = found.get((client, replica))
        wire_bytes, dollars = (pair.wire_bytes, pair.dollars) if pair is not None else (0, 0.0)
        return MatrixCell(
            wire_bytes=wire_bytes if is_measured else None,
            dollars_per_month=per_month(dollars if is_measured else None, seconds),
            kind="unknown" if not client or not replica else "near" if client == replica else "across",
            heat=min(_HEATS - 1, -(-wire_bytes * (_HEATS - 1) // highest)) if highest else 0,
        )

    return Matrix(
        columns=columns, rows=tuple((client, tuple(cell(client, replica) for replica in columns)) for client in names)
    )


@cache
def environment() -> Environment:
    """Return the templates, which escape all values."""
    made = words.page_environment("agent.web")
    made.filters.update(
        rate=words.rate, when=words.when, known=words.count, age=words.age, per_month=per_month, short_id=words.short_id
    )
    made.filters.update(monthly=words.monthly, monthly_cost=monthly_cost, duration=duration)
    made.filters["at_least"] = lambda amount, unknown: words.at_least(amount, is_lower_bound=bool(unknown))
    made.filters["waits"] = lambda name: WAITS.get(name, name)
    made.filters["or_unknown"] = lambda name: words.UNKNOWN if name is None else name
    made.filters["link"] = group_address
    made.filters["quoted"] = lambda name: quote(name, safe="")
    made.globals["version"] = version("samerack")
    return made


def headline(  # noqa: PLR0913 - what may be the figure that comes first
    *,
    dollars: float | None,
    avoidable: float | None = None,
    share: float | None = None,
    share_by: str = "bytes",
    reads: float | None = None,
    is_lower_bound: bool = False,
) -> PageHeadline | None:
    """Return the first of dollars, share and bytes that is known; None if none is.

    Dollars are those a month of what crosses racks, of which better plans avoid a part; the share is by bytes or by
    partitions; `reads` is in bytes per second. `is_lower_bound`: not all dollars are known.
    """
    if dollars is not None:
        figure = words.at_least(words.money(dollars), is_lower_bound=is_lower_bound)
        return PageHeadline(figure=figure, what="a month across racks", avoidable=avoidable)
    if share is not None:
        return PageHeadline(figure=words.percent(share), what=f"of {share_by} across racks")
    if reads is not None:
        return PageHeadline(figure=words.rate(reads), what="read; what crosses racks is not known")
    return None


def _price(report: Report, dollars: float | None) -> float | None:
    """Return dollars, or None where the prices say that crossing racks costs nothing."""
    return dollars if report.prices.dollars_per_byte > 0 else None


def _refreshes(request: Request) -> bool:
    return request.query_params.get("refresh") == "on"


def rendered(template: str, request: Request, status: int = 200, **values: Any) -> Response:
    """Return a page, which loads itself again where the request says so."""
    seconds = _REFRESH_SECONDS if _refreshes(request) else 0
    cluster = request.scope.get("root_path", "").rpartition("/")[2]  # below it are the pages of one of several
    several = getattr(request.app.state, "of_several", False)
    shown = {"refresh_seconds": seconds, "cluster": cluster, "of_several": several, **values}
    text = environment().get_template(template).render(shown)
    return HTMLResponse(text, status_code=status, headers=_HEADERS)


def css_route() -> Route:
    """Return the route of the style sheet, which lies beside every page."""

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
    notes: Callable[[], Mapping[str, str]] = dict,
    wanted: Callable[[str], MembersWanted | None] = lambda _group: None,
) -> list[Route]:
    """Return the routes of the page; `notes` is what the agent waits for, and why, `wanted` the members of a group."""

    def index(request: Request) -> Response:
        report, verdict = reports.report(), reports.verdict()
        sums, window = report.totals, report.window_seconds
        return rendered(
            "index.html",
            request,
            report=report,
            headline=headline(
                dollars=_price(report, sums.dollars_per_month),
                avoidable=sums.avoidable_dollars_per_month,
                share=sums.share,
                reads=sums.wire_bytes / window if sums.wire_bytes is not None and window > 0 else None,
                is_lower_bound=sums.is_lower_bound,
            ),
            unknown_rate=report.unknown_bytes_per_second or None,
            bill=report.bill_parts,
            bill_lacks=missing(report.bill),
            matrix=matrix(report.pairs, report.racks, seconds=window, is_measured=sums.wire_bytes is not None),
            groups=groups_table(
                [
                    ShownGroup(group=one, address=group_address(one.group), role=one.role or "observes")
                    for one in report.groups
                ],
                OF_ONE,
                request.query_params,
            ),
            statuses={status.group: status for status in statuses()},
            verdict=verdict,
            applications=streams(),
            notes=notes(),
            events=event_rows(reports.events.latest(_EVENTS_READ))[:_ROWS_SHOWN],
        )

    def group(request: Request) -> Response:
        name = request.query_params.get("name", "")
        report = reports.report()
        found = next((one for one in report.groups if one.group == name), None)
        if found is None:
            why = notes().get(f"group {name}")
            return rendered("missing.html", request, 404, report=report, name=name, why=why)
        sort = known_sort(request.query_params.get("sort", ""))
        measured, history = reports.board.group(name), reports.history(name)
        return rendered(
            "group.html",
            request,
            report=report,
            group=found,
            headline=headline(
                dollars=_price(report, found.dollars_per_month),
                avoidable=found.avoidable_dollars_per_month,
                share=found.share,
                share_by=found.share_by,
                reads=found.bytes_per_second,
                is_lower_bound=bool(found.unknown_bytes),
            ),
            wanted=wanted(name),
            group_status=next((status for status in statuses() if status.group == name), None),
            matrix=matrix(
                found.pairs,
                report.racks,
                seconds=report.window_seconds,
                is_measured=found.wire_bytes is not None,
            ),
            history=history,
            drawn=plot(history),
            curve=reports.curve(name),
            sort=sort,
            lag=lag_tables(group_lag(measured), sort=sort, refresh=_refreshes(request)) if measured else None,
            racks_unknown=words.RACKS_UNKNOWN,
            events=event_rows(reports.events.latest(_EVENTS_READ, group=name))[:_ROWS_SHOWN],
        )

    return [Route("/", index), Route("/group", group), css_route()]
