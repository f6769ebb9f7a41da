"""`samerack streams plan`: a live Kafka Streams application and what other plans of its tasks would cost, as tables."""

from __future__ import annotations

import json
import time
from typing import Annotated, Any, Final

import typer
from rich.table import Table

from samerack.agent import log
from samerack.assignors.streams.application import AssignmentConfigs
from samerack.cli.commands import COMMANDS
from samerack.cli.streams_live import find
from samerack.cli.streams_options import options_of
from samerack.cli.streams_report import report_of
from samerack.common import words
from samerack.common.command_line import OneLineErrors
from samerack.common.console import USUAL, WIDE, Column, Console, table_of
from samerack.common.errors import SettingsError
from samerack.settings.flags import settings_from
from samerack.settings.measuring import price_table
from samerack.settings.options import BootstrapOption, ConfigOption, SetOption

_UNKNOWN = words.UNKNOWN


def show(report: dict[str, Any], console: Console) -> None:
    """Print the report of `cli.streams_report`: clients, options, placements of standbys, what is not known."""
    console.print(f"{report['application']} ({report['protocol']}), served by {report['replicas_that_serve']}")
    console.print(_clients(report, console.width))
    for subtopology in report["subtopologies"]:
        console.print(_subtopology(subtopology, report))
    console.print(_options(report, console.width))
    if report["standby_placements"]:
        console.print("standbys, after min_traffic for actives")
        console.print(_placements(report, console.width))
    for why, names in _obstacles(report["options"]).items():
        console.print(f"{'; '.join(names)}: {why}")
    console.print(f"bytes a second across racks; {report['prices']}")
    for line in report["advice"]:
        console.print(f"what to do: {line}")
    for one in report["unknown"]:
        console.print(f"not known: {one['what']}: {one['cause']}")


def _obstacles(options: list[dict[str, Any]]) -> dict[str, list[str]]:
    """Return why there is no plan, or why racks do not count in one, with the options that this concerns."""
    found: dict[str, list[str]] = {}
    for option in options:
        why = option["error"] or option["obstacle"]
        if why and _name(option) not in found.setdefault(why, []):
            found[why].append(_name(option))
    return found


def _clients(report: dict[str, Any], width: int) -> Table:
    clients = report["clients"]
    return table_of(
        (
            Column(title="client", cells=[f"{client['process']} {client['host']}" for client in clients]),
            Column(title="rack", cells=[client["rack"] or _UNKNOWN for client in clients]),
            Column(title="from", cells=[client["rack_from"] for client in clients], from_width=WIDE),
            Column(title="active", cells=[" ".join(client["active"]) for client in clients]),
            Column(title="standby", cells=[" ".join(client["standby"]) for client in clients]),
            Column(title="threads", cells=[str(client["threads"]) for client in clients], number=True, from_width=WIDE),
            Column(title="sources\nacross", cells=[_across(client["sources"]) for client in clients], number=True),
            Column(
                title="changelogs\nacross", cells=[_across(client["changelogs"]) for client in clients], number=True
            ),
        ),
        width=width,
    )


def _across(reads: dict[str, Any] | None) -> str:
    if reads is None:
        return _UNKNOWN
    unknown = f"\n+ {reads['unknown']} unknown" if reads["unknown"] else ""
    return f"{reads['across']}{unknown}"


def _subtopology(one: dict[str, Any], report: dict[str, Any]) -> str:
    logs = [
        f"{log['topic']} (by {log['known_by']})"
        for log in report["changelogs"]
        if log["subtopology"] == one["subtopology"]
    ]
    state = {True: "with state", False: "without state", None: "state not known"}[one["stateful"]]
    reads = f"subtopology {one['subtopology']}: {one['tasks']} tasks {state}; reads {', '.join(one['sources'])}"
    return reads + (f"; changelogs {', '.join(logs)}" if logs else "")


def _name(one: dict[str, Any]) -> str:
    return f"{one['assignor']}, {one['strategy']}"


def _options(report: dict[str, Any], width: int) -> Table:
    rows = [["now", *_figures(report["present"]), _UNKNOWN, words.count(report["present"]["beside_active_rack"])]]
    for option in report["options"]:
        bill = option["bill"]
        if bill is None:
            rows.append([_name(option), str(option["num_standby_replicas"]), *(_UNKNOWN,) * 9])
        else:
            followups = words.count(option["followup_rebalances"])
            rows.append([_name(option), *_figures(bill), followups, words.count(bill["beside_active_rack"])])
    names, *figures = (list(column) for column in zip(*rows, strict=True))
    return table_of(
        (
            Column(title="assignor, strategy", cells=names),
            *(
                Column(title=title, cells=cells, number=True, from_width=from_width)
                for (title, from_width), cells in zip(_FIGURES, figures, strict=True)
            ),
        ),
        width=width,
    )


_FIGURES: Final = (
    ("standbys", 0),
    ("sources\nacross", 0),
    ("bytes", WIDE),
    ("changelogs\nacross", 0),
    ("bytes", WIDE),
    ("a month", 0),
    ("moved", USUAL),
    ("restored", USUAL),
    ("follow-ups", WIDE),
    ("in active's\nrack", WIDE),
)
"""The figures of an option, and from how many columns of the terminal on each is shown."""


def _figures(bill: dict[str, Any]) -> list[str]:
    changelogs = bill["changelogs"]
    return [
        str(bill["standbys"]),
        _across(bill["sources"]),
        words.rate(bill["sources"]["across_bytes_per_second"]),
        _across(changelogs),
        _UNKNOWN if changelogs is None else words.rate(changelogs["across_bytes_per_second"]),
        words.money(bill["dollars_per_month"]),
        str(bill["moved_active"] + bill["moved_standby"]),
        words.size(bill["restored_bytes"]),
    ]


def _placements(report: dict[str, Any], width: int) -> Table:
    placements = report["standby_placements"]
    figures = {
        "changelogs\nacross": "cross_rack",
        "moved": "moved",
        "in active's\nrack": "beside_active_rack",
        "tasks in\none rack": "single_rack",
    }
    return table_of(
        (
            Column(title="rule", cells=[placement["strategy"] for placement in placements]),
            *(
                Column(title=title, cells=[str(placement[key]) for placement in placements], number=True)
                for title, key in figures.items()
            ),
        ),
        width=width,
    )


_DEFAULTS: Final = AssignmentConfigs()

_PLAN_HELP: Final = """Show what a live application's tasks read across racks, and what they would under other plans.

The application is read from the brokers, on the classic protocol or on KIP-1071: what its tasks read across racks now,
and what they would with each assignor and strategy. Its group is not joined, and nothing is changed. Options give what
no metadata has, as the application is configured. `samerack assign FILE` plans an application without brokers.
"""


streams: Final = typer.Typer(
    name="streams",
    cls=OneLineErrors,
    no_args_is_help=True,
    help=COMMANDS["streams"].summary,
)


@streams.callback()
def _nothing_first() -> None:
    """Keep `plan` a command of its own although it is the only one."""


def register(app: typer.Typer) -> None:
    """Add the command `streams` with its own."""
    app.add_typer(streams)


@streams.command("plan", help=_PLAN_HELP, no_args_is_help=True)
def plan(
    config: ConfigOption = None,
    bootstrap: BootstrapOption = None,
    *,
    group: Annotated[
        str | None, typer.Option("--group", "-g", help="A live application, by its application.id.", show_default=False)
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object instead of tables.")] = False,
    seconds: Annotated[
        float, typer.Option("--seconds", min=0, help="Measure bytes this many seconds first; use 30 or more.")
    ] = 0,
    by_bytes: Annotated[
        bool,
        typer.Option("--by-bytes", help="Weight partitions by bytes, as with streams.weights=bytes; needs --seconds."),
    ] = False,
    standbys: Annotated[
        list[int] | None,
        typer.Option(
            "--standbys",
            min=0,
            help="num.standby.replicas to try; may be repeated. Default: the current number.",
            show_default=False,
        ),
    ] = None,
    tags: Annotated[
        list[str] | None,
        typer.Option("--tags", help="A key of rack.aware.assignment.tags; may be repeated.", show_default=False),
    ] = None,
    changelogs: Annotated[
        list[str] | None,
        typer.Option(
            "--changelog",
            metavar="TOPIC=SUBTOPOLOGY",
            help="The subtopology of a changelog, if it is unknown; may be repeated.",
            show_default=False,
        ),
    ] = None,
    traffic_cost: Annotated[
        int | None,
        typer.Option("--traffic-cost", min=0, help="rack.aware.assignment.traffic_cost.", show_default=False),
    ] = None,
    non_overlap_cost: Annotated[
        int | None,
        typer.Option("--non-overlap-cost", min=0, help="rack.aware.assignment.non_overlap_cost.", show_default=False),
    ] = None,
    max_warmups: Annotated[int, typer.Option("--max-warmups", min=1, help="max.warmup.replicas.")] = (
        _DEFAULTS.max_warmup_replicas
    ),
    recovery_lag: Annotated[int, typer.Option("--recovery-lag", min=0, help="acceptable.recovery.lag.")] = (
        _DEFAULTS.acceptable_recovery_lag
    ),
    compatible: Annotated[bool, typer.Option("--compatible", help="Plan exactly as Kafka's own assignors do.")] = False,
    assignments: SetOption = None,
) -> None:
    """Show the tasks of a live application before and after."""
    if group is None:
        raise SettingsError("streams plan: give --group APPLICATION")
    if by_bytes and not seconds:
        raise SettingsError("--by-bytes: bytes are measured only with --seconds; 30 or more is good")
    settings = settings_from(config, bootstrap, assignments)
    log.configure(settings)
    prices = price_table(settings.money)
    configs = AssignmentConfigs(
        acceptable_recovery_lag=recovery_lag,
        max_warmup_replicas=max_warmups,
        rack_aware_assignment_tags=tuple(tags or ()),
        rack_aware_traffic_cost=traffic_cost,
        rack_aware_non_overlap_cost=non_overlap_cost,
    )
    found = find(group, settings, configs, given=_given(changelogs or ()), seconds=seconds)
    options = options_of(
        found,
        standbys=standbys or [found.standbys],
        by_bytes=by_bytes,
        compatible=compatible,
        now_ms=time.time_ns() // 1_000_000,
    )
    report = report_of(group, found, options, prices, by_bytes=by_bytes)
    if as_json:
        typer.echo(json.dumps(report))
    else:
        show(report, Console())


def _given(changelogs: tuple[str, ...] | list[str]) -> dict[str, int]:
    """Return the subtopologies by changelog that the user gave."""
    found = {}
    for changelog in changelogs:
        topic, equals, number = changelog.rpartition("=")
        if not equals or not topic or not number.isdecimal():
            raise SettingsError(
                f"--changelog {changelog[:200]!r}: expected TOPIC=SUBTOPOLOGY, e.g. app-counts-changelog=1"
            )
        found[topic] = int(number)
    return found
