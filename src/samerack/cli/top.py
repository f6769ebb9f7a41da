"""`samerack top`: groups by cost, live in a terminal; q or Ctrl-C ends it."""

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
from rich.console import ConsoleDimensions, Group, RenderableType
from rich.live import Live
from rich.text import Text

from samerack.cli.asking import MeasureOption, live, place
from samerack.cli.cost import groups_table, not_in_totals
from samerack.common import words
from samerack.common.console import Console
from samerack.common.errors import SettingsError
from samerack.reporting.report import GroupCost, Report
from samerack.settings.cures import command
from samerack.settings.options import BootstrapOption, ConfigOption, SetOption

_LINES_AROUND: Final = 7
"""Lines that the view needs beside the rows of groups."""

_ORDERS: Final[dict[str, tuple[str, Callable[[GroupCost], float]]]] = {
    "c": ("cost", lambda group: group.dollars_to_sort_by),
    "b": ("bytes", lambda group: group.bytes_per_second or 0.0),
    "s": ("share", lambda group: group.share or 0.0),
}
"""Keys, what they order by, and how."""


def top(
    config: ConfigOption = None,
    bootstrap: BootstrapOption = None,
    interval: Annotated[
        float, typer.Option("--interval", "-i", min=0.5, max=3600.0, help="Seconds between two polls.")
    ] = 5.0,
    *,
    measure: MeasureOption = False,
    assignments: SetOption = None,
) -> None:
    """Show groups by what they cost, live: q ends, c, b and s order by cost, bytes and share.

    A running agent is asked (at web.host:web.port); where none runs, this command measures itself.
    """
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        once = command("cost", bootstrap=",".join(bootstrap or ()))
        raise SettingsError(f"top: needs a terminal; {once} prints the same once")
    where = place(config, bootstrap, assignments, only_errors=True)
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
    costs = words.monthly_sum(
        sums.dollars_per_month, sums.guessed_dollars_per_month, is_lower_bound=sums.is_lower_bound
    )
    count = f"{len(report.groups)} group{'' if len(report.groups) == 1 else 's'}"
    parts = [f"{count}, {costs} a month across racks", not_in_totals(report), origin]
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
    """Single key presses without echo; the function waits so many seconds for one, "" if there is none."""
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
