"""`samerack events`: what happened to groups and why, from a running agent or from the file that it left."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Final, get_args
from urllib.parse import quote

import typer
from rich import box
from rich.table import Table

from samerack.agent import log
from samerack.cli.agent_requests import LOST_SECONDS, UrlOption, agent_address
from samerack.cli.asking import ask
from samerack.common import words
from samerack.common.console import USUAL, WIDE, Console
from samerack.common.errors import AgentError, SettingsError
from samerack.common.words import seconds_of
from samerack.events import EventLog, store
from samerack.events.event import EVENT_LIST, MAX_ASKED, Event, EventList, Kind, figures, happened, reason, to_json
from samerack.settings.flags import settings_from
from samerack.settings.options import BootstrapOption, ConfigOption, SetOption

KINDS: Final = get_args(Kind)
_FOLLOW_SECONDS: Final = 1.0
_LATE_SECONDS: Final = 60.0
"""An event may be recorded later than events that happened after it, by up to this time."""


def events(
    group: Annotated[
        str | None, typer.Argument(help="Events of one group; default: of all groups and the agent.")
    ] = None,
    config: ConfigOption = None,
    bootstrap: BootstrapOption = None,
    url: UrlOption = None,
    file: Annotated[
        Path | None,
        typer.Option("--store", help="Read this file (events.path) instead of asking an agent.", show_default=False),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(
            "--since",
            metavar="TIME",
            help="Not older than: 90s, 15m, 3h, 2d, 1w ago, or a moment such as 2026-11-21T03:00 (your time zone "
            "unless it names one).",
            show_default=False,
        ),
    ] = None,
    kind: Annotated[
        list[str] | None,
        typer.Option(
            "--kind", "-k", help=f"Only these kinds; may be repeated: {', '.join(KINDS)}.", show_default=False
        ),
    ] = None,
    limit: Annotated[
        int, typer.Option("--limit", "-n", min=1, max=MAX_ASKED, help="Show at most this many events, the newest ones.")
    ] = 30,
    *,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Keep printing new events; Ctrl-C stops.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object instead of a table; with --follow, one event per line.")
    ] = False,
    assignments: SetOption = None,
) -> None:
    """Show what happened to groups, when and why: every rebalance with its cause, duration, pause and cost.

    Why did my group rebalance at 3 am? `samerack events GROUP --kind rebalance --since 2026-11-21T02:55` says what each
    rebalance began with: the agent, a member, the group's leader. A running agent is asked; where none runs, --store
    reads its file. Changes nothing. docs/events.md explains each column.
    """
    kinds = tuple(dict.fromkeys(kind or ()))
    if unknown := [one for one in kinds if one not in KINDS]:
        raise SettingsError(f"--kind {unknown[0]}: no such kind; kinds are {', '.join(KINDS)}")
    if file is not None and (url is not None or bootstrap or follow):
        raise SettingsError(
            "--store reads a file and asks no agent; leave out either --store or --url, --bootstrap-servers and "
            "--follow"
        )
    begin = moment(since, time.time()) if since is not None else None
    if file is not None:
        log.configure(settings_from(config, bootstrap, assignments, needs_kafka=False))
        found = _stored(file, group=group, kinds=kinds, since=begin, limit=limit)
    else:
        asked = _asking(agent_address(config, bootstrap, url, assignments), group=group, kinds=kinds)
        old = asked(time.time() - _LATE_SECONDS, MAX_ASKED) if follow else ()
        found = asked(begin, limit)
    console = Console()
    if as_json and not follow:
        typer.echo(EVENT_LIST.to_json(EventList(events=tuple(found))))
        return
    shown = tuple(reversed(found))  # as in a log: the newest stands above the prompt
    if shown:
        _show(console, shown, with_group=group is None, as_json=as_json)
    elif not follow:
        console.print(_nothing(group, since))
    if follow:
        with suppress(KeyboardInterrupt):
            _follow(console, asked, (*old, *shown), with_group=group is None, as_json=as_json)


Asked = Callable[[float | None, int], tuple[Event, ...]]
"""Asks an agent for the newest events since a time, up to a limit."""


def _asking(base: str, *, group: str | None, kinds: tuple[str, ...]) -> Asked:
    def asked(since: float | None, most: int) -> tuple[Event, ...]:
        query = [f"most={most}"]
        query += [f"group={quote(group, safe='')}"] if group is not None else []
        query += [f"kind={kind}" for kind in kinds]
        query += [f"since={since!r}"] if since is not None else []
        answer = ask(base, f"/v1/events?{'&'.join(query)}")
        if answer is None:
            raise AgentError(
                f"{base}: no agent answers there; give --url or web.port, or read a former agent's file with --store"
            )
        return EVENT_LIST.from_json(answer).events

    return asked


def _stored(
    path: Path, *, group: str | None, kinds: tuple[str, ...], since: float | None, limit: int
) -> tuple[Event, ...]:
    kept = store.read(path, MAX_ASKED)
    event_log = EventLog(max_events=len(kept) or 1)
    event_log.remember(kept)
    return event_log.latest(limit, group=group, kinds=kinds, since=float("-inf") if since is None else since)


def _follow(console: Console, asked: Asked, old: tuple[Event, ...], *, with_group: bool, as_json: bool) -> None:
    """Show what is not among the old events, until Ctrl-C.

    Raises:
        AgentError: The agent does not answer any more; while its worker is replaced, nobody does for a moment.
    """
    known = {event.id: event.at for event in old}
    last = max(known.values(), default=time.time())
    answered = time.monotonic()
    while True:
        time.sleep(_FOLLOW_SECONDS)
        try:
            found = asked(last - _LATE_SECONDS, MAX_ASKED)
        except AgentError:
            if time.monotonic() - answered > LOST_SECONDS:
                raise
            continue
        answered = time.monotonic()
        news = [event for event in reversed(found) if event.id not in known]
        if not news:
            continue
        last = max(last, news[-1].at)
        known |= {event.id: event.at for event in news}
        known = {one: at for one, at in known.items() if at >= last - _LATE_SECONDS}
        _show(console, news, with_group=with_group, as_json=as_json, head=False)


def _show(console: Console, shown: Sequence[Event], *, with_group: bool, as_json: bool, head: bool = True) -> None:
    if not as_json:
        console.print(table(shown, width=console.width, with_group=with_group, head=head))
        return
    for event in shown:
        typer.echo(to_json(event))


def moment(text: str, now: float) -> float:
    """Seconds since 1970 of a length of time before now, or of a moment.

    Raises:
        SettingsError: It is neither.
    """
    if (seconds := seconds_of(text)) is not None:
        return now - seconds
    try:
        return datetime.fromisoformat(text.strip()).astimezone().timestamp()
    except (ValueError, OverflowError):
        raise SettingsError(f"--since {text}: expected 90s, 15m, 3h, 2d, 1w or 2026-11-21T03:00") from None


def table(shown: Sequence[Event], *, width: int, with_group: bool, head: bool = True) -> Table:
    """Events, one a row, in the order given; what a terminal of this width holds without cutting anything."""
    time_width, group_width, what_width = next(widths for from_width, widths in _WIDTHS.items() if width >= from_width)
    made = Table(box=box.SIMPLE_HEAD if head else None, pad_edge=False, collapse_padding=True, show_header=head)
    made.add_column("time", max_width=time_width)
    if with_group:
        made.add_column("group", overflow="fold", max_width=group_width)
    made.add_column("what", overflow="fold", max_width=what_width)
    made.add_column("why, and with what effect", overflow="fold")
    for event in shown:
        lines = (reason(event), figures(event))
        made.add_row(
            local(event.at),
            *([words.plain(event.group)] if with_group else []),
            words.plain(happened(event)),
            "\n".join(words.plain(line) for line in lines if line),
        )
    return made


_WIDTHS: Final = {WIDE: (30, 24, 30), USUAL: (18, 16, 12), 0: (8, 12, 12)}
"""By columns of the terminal, how wide time, group and what happened may be; the rest is for the reason."""


def local(at: float) -> str:
    """Return a moment in the reader's time zone, which is named."""
    when = datetime.fromtimestamp(at, UTC).astimezone()
    return when.strftime("%m-%d %H:%M:%S %Z")


def _nothing(group: str | None, since: str | None) -> str:
    about = "" if group is None else f" to {words.plain(group)}"
    return f"nothing happened{about}{'' if since is None else ' since then'} in the events that are kept"
