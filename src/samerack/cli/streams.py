"""`samerack streams`: the commands without brokers, and `plan --group`, which reads a live application."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Annotated, Final

import typer

from samerack.agent import log
from samerack.assignors.streams.configs import AssignmentConfigs
from samerack.cli.streams_live import find
from samerack.cli.streams_options import options_of
from samerack.cli.streams_report import report_of
from samerack.cli.streams_show import show
from samerack.common.console import Console
from samerack.common.errors import SettingsError
from samerack.offline.streams import PLAN_HELP, plan_of_file, streams
from samerack.settings.flags import settings_from
from samerack.settings.options import BootstrapOption, ConfigOption, SetOption
from samerack.settings.prices import price_table

_DEFAULTS: Final = AssignmentConfigs()

LIVE_HELP: Final = """
With --group instead of FILE a live application is read from the brokers, on the classic protocol or on KIP-1071: what
its tasks read across racks now, and what they would with each assignor and strategy. Its group is not joined, and
nothing is changed. What is in no metadata is given by options, as the application has it configured.
"""


def register(app: typer.Typer) -> None:
    """Add the command `streams` with its own commands."""
    app.add_typer(streams)


@streams.command("plan", help=PLAN_HELP + LIVE_HELP, no_args_is_help=True)
def plan(
    context: typer.Context,
    source: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="The application as JSON; - for standard input.")
    ] = None,
    config: ConfigOption = None,
    bootstrap: BootstrapOption = None,
    *,
    group: Annotated[
        str | None, typer.Option("--group", "-g", help="A live application, by its application.id.", show_default=False)
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object instead of tables.")] = False,
    seconds: Annotated[
        float, typer.Option("--seconds", min=0, help="Measure bytes for so long first; 30 or more is good.")
    ] = 0,
    by_bytes: Annotated[
        bool,
        typer.Option(
            "--by-bytes", help="Partitions count by their bytes, as with streams.weights=bytes; needs --seconds."
        ),
    ] = False,
    standbys: Annotated[
        list[int] | None,
        typer.Option(
            "--standbys",
            min=0,
            help="num.standby.replicas to try; may be repeated. As now by default.",
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
            help="The subtopology of a changelog, where it is not known; may be repeated.",
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
    compatible: Annotated[
        bool, typer.Option("--compatible", help="As Kafka's own assignors do, where samerack's differ.")
    ] = False,
    assignments: SetOption = None,
) -> None:
    """Show the tasks before and after, of a file or of a live application."""
    if (source is None) == (group is None):
        raise SettingsError("streams plan: give either FILE or --group APPLICATION")
    if source is not None:
        _refuse_options_of_groups(context)
        plan_of_file(source, as_json=as_json)
        return
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
    application = str(group)
    found = find(application, settings, configs, given=_given(changelogs or ()), seconds=seconds)
    options = options_of(
        found,
        standbys=standbys or [found.standbys],
        by_bytes=by_bytes,
        compatible=compatible,
        now_ms=time.time_ns() // 1_000_000,
    )
    report = report_of(application, found, options, prices, by_bytes=by_bytes)
    if as_json:
        typer.echo(json.dumps(report))
    else:
        show(report, Console())


def _refuse_options_of_groups(context: typer.Context) -> None:
    """Refuse what a file has itself, or does not need, in place of leaving it without effect."""
    given = [
        one.opts[0]
        for one in context.command.params
        if one.name not in {"source", "as_json"}
        and (by := context.get_parameter_source(one.name or "")) is not None
        and by.name == "COMMANDLINE"
    ]
    if given:
        raise SettingsError(f"streams plan: {', '.join(given)} only with --group; FILE has its own settings")


def _given(changelogs: tuple[str, ...] | list[str]) -> dict[str, int]:
    """Return the subtopologies by changelog that the user gave."""
    found = {}
    for one in changelogs:
        topic, equals, number = one.rpartition("=")
        if not equals or not topic or not number.isdecimal():
            raise SettingsError(f"--changelog {one[:200]!r}: expected TOPIC=SUBTOPOLOGY, e.g. app-counts-changelog=1")
        found[topic] = int(number)
    return found
