"""`samerack cost [GROUP]`: what groups read across racks and what it costs, as tables, JSON, or live in a terminal."""

from __future__ import annotations

import os
import select
import sys
import termios
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Annotated, Final

import typer
from rich import box
from rich.console import ConsoleDimensions, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from samerack.cli.asking import BY_AGENT, AgentPlace, MeasureOption, WindowOption, figures, live, place
from samerack.cluster.broker_configs import ASSIGNOR
from samerack.common import words
from samerack.common.console import USUAL, WIDE, Console
from samerack.common.errors import AgentError, SettingsError
from samerack.common.money import per_month
from samerack.common.records import LEADING
from samerack.reporting.bill import missing
from samerack.reporting.report import (
    GroupCost,
    PairCost,
    Report,
    ServerAssignment,
    monthly_cost,
    monthly_sum,
    not_in_sums,
    sums_in_words,
    to_json,
)
from samerack.settings.options import BootstrapOption, ConfigOption, SetOption
from samerack.traffic.snapshot import BlindSpot

_UNKNOWN_RACK = "(none)"
_SHOWN: Final = 5
_NARROW: Final = 70
_ROOMY: Final = 90


def cost(
    group: Annotated[str | None, typer.Argument(help="One group in detail; default: a table of all groups.")] = None,
    config: ConfigOption = None,
    bootstrap: BootstrapOption = None,
    window: WindowOption = 20.0,
    *,
    measure: MeasureOption = False,
    watch: Annotated[
        bool, typer.Option("--watch", help="Show all groups live: q quits; c, b and s sort by cost, bytes and share.")
    ] = False,
    interval: Annotated[
        float, typer.Option("--interval", "-i", min=0.5, max=3600.0, help="With --watch, seconds between polls.")
    ] = 5.0,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object instead of tables.")] = False,
    assignments: SetOption = None,
) -> None:
    """Show what consumer groups read across racks, from whom, and what it costs a month.

    Without GROUP also what replication and producers carry. A running agent is asked (at web.host:web.port); where none
    runs, this command measures for --window seconds itself. Changes nothing.
    """
    where = place(config, bootstrap, assignments, only_errors=watch)
    if watch:
        if group is not None or as_json:
            raise SettingsError("--watch: is for all groups in a terminal; leave out GROUP and --json")
        _watch(where, interval, measure=measure)
        return
    everything, origin = figures(where, window=window, measure=measure, group=group)
    report = everything if group is None else only(everything, group)
    if as_json:
        typer.echo(to_json(report))
        return
    console = Console()
    if group is None:
        console.print(groups_table(report, width=console.width, total=True))
        console.print(sums_in_words(report.totals))
        if lacking := not_in_sums(report.totals, report.window_seconds):
            console.print(lacking)
        if report.bill is not None:
            console.print(_bill_table(report, width=console.width))
            for line in missing(report.bill):
                console.print(words.plain(line))
    else:
        _show_group(console, report.groups[0], report.window_seconds)
    console.print(_closing(report, origin))
    if young := [words.plain(one.group) for one in report.groups if BlindSpot.YOUNG.value in one.blind_spots]:
        of_agent = origin.startswith(BY_AGENT)
        console.print(
            f"measured for less than one commit interval, so figures may be far off: {words.listed(young, _SHOWN)}; "
            + ("ask again in a minute" if of_agent else "measure longer with --window, or ask an agent that runs")
        )
    for gap in report.gaps:
        console.print(words.plain(f"not known: {gap.what} {gap.where}: {gap.reason}; {gap.consequence}"))


def only(report: Report, group: str) -> Report:
    """Return the report of one group alone.

    Raises:
        AgentError: The group was not seen.
    """
    found = next((one for one in report.groups if one.group == group), None)
    if found is None:
        raise AgentError(f"group {group}: not found; {words.nearest(group, [one.group for one in report.groups])}")
    return replace(report, groups=(found,), pairs=found.pairs, bill=None)


_OPTIONAL: Final = frozenset({"optimal", "random", "saved", "lag"})
"""The columns that are left out where no group has a figure; what is read across racks may be unknown, but is there."""


def _across(crossing: int | None, unknown: int | None) -> str:
    return words.at_least(words.size(crossing), is_lower_bound=bool(unknown))


_MONTHLY: Final = "a month"
_SUMS: Final = {"across": 8, _MONTHLY: 11}
"""Columns with words before the amount, which a narrow terminal shows above it: so wide are they there."""
_COLUMNS: Final[dict[str, tuple[Callable[[GroupCost], str], int]]] = {
    "reads": (lambda group: words.rate(group.bytes_per_second), _NARROW),
    "across": (lambda group: _across(group.cross_rack_bytes, group.unknown_bytes), 0),
    "share": (
        lambda group: words.percent(group.share) + ("" if group.share_by == "bytes" or group.share is None else " (p)"),
        0,
    ),
    "optimal": (lambda group: words.percent(group.optimal_share), USUAL),
    "random": (lambda group: words.percent(group.random_share), _ROOMY),
    _MONTHLY: (monthly_cost, 0),
    "saved": (lambda group: words.money(group.saved_dollars_per_month), USUAL),
    "lag": (lambda group: words.count(group.lag_records, group.lag_unknown_partitions), WIDE),
}
"""The columns beside the group: how each is formatted, and from how many columns of the terminal on it is shown."""


def groups_table(report: Report, most: int | None = None, *, width: int, total: bool = False) -> Table:
    """All groups, the most expensive first; what a terminal of this width holds without cutting a group's name."""
    groups = report.groups[:most]
    cells = {
        name: [cell(group) for group in groups] for name, (cell, from_width) in _COLUMNS.items() if width >= from_width
    }
    names = [name for name, of in cells.items() if name not in _OPTIONAL or set(of) - {words.UNKNOWN} or not of]
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("group", overflow="fold", min_width=14)
    for name in names:
        folds = _SUMS.get(name) if width < WIDE else None
        table.add_column(name, justify="right", no_wrap=name not in _SUMS, max_width=folds)
    if total and len(report.groups) > 1:
        sums = _total(report)
        table.add_row(f"all {len(report.groups)}", *(sums.get(name, "") for name in names))
        table.add_section()
    for at, group in enumerate(groups):
        table.add_row(words.plain(group.group), *(cells[name][at] for name in names))
    return table


def _bill_table(report: Report, *, width: int) -> Table:
    """Return what crosses racks besides what groups read, and what decides how much it is."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("across racks", overflow="fold")
    for column in ("now", "a month"):
        table.add_column(column, justify="right", no_wrap=True)
    if width >= USUAL:
        table.add_column("decided by")
    for part in report.bill_parts:
        figures = (words.rate(part.bytes_per_second), words.money(part.dollars_per_month))
        bounds = (words.at_least(figure, is_lower_bound=part.is_lower_bound) for figure in figures)
        table.add_row(*(part.name, *bounds, part.decided_by)[: len(table.columns)])
    return table


def _total(report: Report) -> dict[str, str]:
    sums, window = report.totals, report.window_seconds
    return {
        "reads": words.rate(sums.wire_bytes / window if sums.wire_bytes is not None and window > 0 else None),
        "across": _across(sums.cross_rack_bytes, sums.unknown_bytes),
        "share": words.percent(sums.share),
        _MONTHLY: monthly_sum(sums),
        "saved": words.money(report.saved_dollars_per_month),
    }


def _show_group(console: Console, group: GroupCost, window: float) -> None:
    console.print(
        f"group {words.plain(group.group)} ({group.kind}, {words.plain(group.assignor) or '-'}): "
        f"reads {words.rate(group.bytes_per_second)}, "
        f"{words.percent(group.share)} of {group.share_by} across racks (optimal {words.percent(group.optimal_share)}, "
        f"random {words.percent(group.random_share)}), {monthly_cost(group)} a month"
    )
    if group.own_share is not None:
        console.print(
            f"with {words.plain(group.assignor)} {words.percent(group.own_share)} would cross; the agent saves "
            f"{words.money(group.saved_dollars_per_month)} a month"
        )
    elif group.role == LEADING:
        console.print(
            f"unknown what {words.plain(group.assignor)} would read across racks: no other member has led the group "
            "yet, so it is unclear whether it uses racks"
        )
    for line in server_lines(group.server):
        console.print(words.plain(line))
    console.print(_pairs(group.pairs, window))
    topics = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    topics.add_column("topic", overflow="fold")
    for column in ("read", "across racks", "a month", "lag", "age"):
        topics.add_column(column, justify="right")
    for topic in group.topics:
        topics.add_row(
            words.plain(topic.topic),
            words.size(topic.wire_bytes),
            _across(topic.cross_rack_bytes, topic.unknown_bytes),
            words.at_least(words.money(per_month(topic.dollars, window)), is_lower_bound=bool(topic.unknown_bytes)),
            words.count(topic.lag_records, topic.lag_unknown_partitions),
            words.age(topic.lag_seconds, topic.lag_seconds_unknown_partitions),
        )
    console.print(topics)
    for spot in group.blind_spots:
        console.print(words.plain(f"not in these figures: {spot}"))


def server_lines(server: ServerAssignment | None, *, money: bool = True) -> list[str]:
    """Who assigns a group of the new protocol, and what samerack's assignor would save; nothing for other groups."""
    if server is None:
        return []
    lines = [f"the brokers assign it (KIP-848) with {server.assignor or 'an unknown assignor'}"]
    if server.unknown:
        lines.append(f"the brokers' assignors are unknown: {server.unknown}")
    if server.assignor != ASSIGNOR:
        share = "an unknown share" if server.share is None else words.percent(server.share)
        dollars = server.saves_dollars_per_month
        saves = "what that saves is not known" if dollars is None else f"that saves {words.money(dollars)} a month"
        lines.append(
            f"with samerack's assignor in the brokers {share} would cross racks" + (f"; {saves}" if money else "")
        )
    return [*lines, f"what to do: {server.advice}"]


def _pairs(pairs: tuple[PairCost, ...], window: float) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in ("client rack", "replica rack"):
        table.add_column(column)
    for column in ("read", "a month"):
        table.add_column(column, justify="right")
    for pair in pairs:
        table.add_row(
            words.plain(pair.client_rack or _UNKNOWN_RACK),
            words.plain(pair.replica_rack or _UNKNOWN_RACK),
            words.size(pair.wire_bytes),
            words.money(per_month(pair.dollars, window)),
        )
    return table


def _closing(report: Report, origin: str) -> str:
    partitions = any(group.share_by != "bytes" and group.share is not None for group in report.groups)
    return f"{origin}; bytes on the wire in {words.span(report.window_seconds)}; {report.prices.title}" + (
        "; (p): share of partitions, bytes are not known yet" if partitions else ""
    )


# live

_LINES_AROUND: Final = 7
"""Lines that the view needs beside the rows of groups."""

_ORDERS: Final[dict[str, tuple[str, Callable[[GroupCost], float]]]] = {
    "c": ("cost", lambda group: group.dollars_to_sort_by),
    "b": ("bytes", lambda group: group.bytes_per_second or 0.0),
    "s": ("share", lambda group: group.share or 0.0),
}
"""Keys, what they order by, and how."""


def _watch(where: AgentPlace, interval: float, *, measure: bool) -> None:
    """Show groups by what they cost until q or Ctrl-C, polled every `interval` seconds.

    Raises:
        SettingsError: There is no terminal.
    """
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise SettingsError("--watch: needs a terminal; leave it out to print the table once")
    console = Console()
    order = "c"
    with (
        live(where, measure=measure) as (latest, origin),
        _keys() as key,
        Live(console=console, screen=True, auto_refresh=False) as screen,
        suppress(KeyboardInterrupt),
    ):
        while True:
            screen.update(view(latest(), origin, order, console.size), refresh=True)
            pressed = key(interval)
            if pressed in ("q", "\x03", "\x04"):
                return
            order = pressed if pressed in _ORDERS else order


def view(report: Report, origin: str, order: str, size: ConsoleDimensions) -> RenderableType:
    """Return the whole screen."""
    name, by = _ORDERS[order]
    ordered = replace(report, groups=tuple(sorted(report.groups, key=by, reverse=True)))
    most = max(1, size.height - _LINES_AROUND)
    sums = report.totals
    count = f"{len(report.groups)} group{'' if len(report.groups) == 1 else 's'}"
    parts = [f"{count}, {monthly_sum(sums)} a month across racks", not_in_sums(sums, report.window_seconds), origin]
    head = Text("; ".join(filter(None, parts)), no_wrap=True, overflow="ellipsis")
    more = f"; {len(report.groups) - most} more" if len(report.groups) > most else ""
    foot = Text(
        f"by {name}{more} · q quits, c cost, b bytes, s share · {words.span(report.window_seconds)}, "
        f"{report.prices.title}",
        no_wrap=True,
        overflow="ellipsis",
    )
    table = groups_table(ordered, most, width=size.width) if report.cycle else Text("measuring ...")
    return Group(head, table, foot)


@contextmanager
def _keys() -> Iterator[Callable[[float], str]]:
    """Single key presses without echo; the function waits up to this number of seconds for one; "" without one."""
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)

    def key(seconds: float) -> str:
        ready, _, _ = select.select([descriptor], [], [], seconds)
        # not from sys.stdin, whose buffer would keep further keys where `select` does not see them
        return os.read(descriptor, 1).decode(errors="replace").lower() if ready else ""

    try:
        tty.setcbreak(descriptor)
        yield key
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
