"""`samerack pipeline whatif`: what each change would save over the fleet, the most first."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from samerack.common.console import Console
from samerack.common.errors import AgentError, SettingsError
from samerack.pipeline.cli.spark import explained, need_spark, progress_shown
from samerack.pipeline.whatif_group import MOVE, RACK, Questions
from samerack.pipeline.whatif_show import Failure, KindOfChange, WhatIf, WhatIfChange, WhatIfTotals, show, to_json
from samerack.settings.all_settings import Settings
from samerack.settings.flags import settings_from
from samerack.settings.measuring import price_table
from samerack.settings.options import ConfigOption, SetOption

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_MAX_FAILURES = 10
_DAYS = ["%Y-%m-%d", "%Y-%m-%dT%H:%M"]


def whatif(
    source: Annotated[
        Path | None,
        typer.Argument(
            metavar="[FOLDER]",
            help="A folder that samerack pipeline simulate made, or a file of such states; without it the table "
            "group_states in pipeline.tables.",
            show_default=False,
        ),
    ] = None,
    max_skew: Annotated[
        int, typer.Option("--max-skew", min=0, help="Partitions beyond its fair share that a member may have.")
    ] = 2,
    copies: Annotated[
        int,
        typer.Option(
            "--copies", min=1, help="Number of racks that should have a replica of every partition; 1 skips this."
        ),
    ] = 2,
    members: Annotated[
        str,
        typer.Option(
            "--members",
            metavar="RACK=PART,...",
            help="Racks in which members should run, e.g. rack-a=2,rack-b=1; default: evenly in all racks.",
        ),
    ] = "",
    add_rack: Annotated[
        str,
        typer.Option("--add-rack", metavar="RACK", help="A new rack in which brokers and members run too."),
    ] = "",
    since: Annotated[
        datetime | None,
        typer.Option(
            "--since",
            formats=_DAYS,
            help="Only groups with a state from then on, UTC; default: a day before the newest.",
        ),
    ] = None,
    until: Annotated[
        datetime | None, typer.Option("--until", formats=_DAYS, help="Only states before then, UTC.")
    ] = None,
    top: Annotated[int, typer.Option("--top", "-n", min=1, help="Lines of the ranking.")] = 20,
    csv: Annotated[
        Path | None, typer.Option("--csv", help="A new folder for every scenario of every group as CSV.")
    ] = None,
    parquet: Annotated[Path | None, typer.Option("--parquet", help="The same as Parquet.")] = None,
    config: ConfigOption = None,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object instead of tables.")] = False,
    assignments: SetOption = None,
) -> None:
    """Work out for every group what it would read across racks if something were changed, and rank what that saves.

    The latest state of each group is put to its own assignor, to range and to the best, and to the best in other
    worlds: with unequal shares, with everybody fetching near, with topics that have more copies (whose own traffic is
    taken off), with members in other racks. Nothing is changed anywhere; no broker is asked.

    Begin with: samerack pipeline simulate fleet --groups 50 --days 2; samerack pipeline whatif fleet
    """
    need_spark()
    from samerack.pipeline import session  # noqa: PLC0415 - PySpark is imported only when a command runs

    questions = Questions(max_skew=max_skew, copies=copies, shares=_shares(members), new_rack=add_rack)
    outputs = {kind: path for kind, path in (("csv", csv), ("parquet", parquet)) if path is not None}
    for kind, path in outputs.items():
        if path.exists():
            raise SettingsError(f"--{kind} {path}: already exists; name a new folder")
    settings = settings_from(config, None, assignments, needs_kafka=False)
    begin = time.monotonic()
    with session.opened(settings.pipeline, name="whatif", is_short=True) as spark:
        with explained(source or settings.pipeline.tables):
            rows, left_out = _asked(spark, settings, source, questions, since=since, until=until)
            answer = _answer(rows, settings, questions, left_out=left_out, top=top, begin=begin)
        if as_json:
            typer.echo(json.dumps(to_json(answer)))
        else:
            show(answer, Console())
        for kind, path in outputs.items():
            with explained(path):
                rows.coalesce(1).write.format(kind).option("header", "true").save(path.absolute().as_uri())


def _shares(text: str) -> dict[str, float]:
    shares = {}
    for part in filter(None, text.split(",")):
        rack, equals, number = part.strip().rpartition("=")
        try:
            shares[rack] = float(number)
        except ValueError:
            equals = ""
        if not equals or not 0 <= shares[rack] < float("inf"):
            raise SettingsError(f"--members {part!r}: expected RACK=PART, e.g. rack-a=2,rack-b=1")
    if shares and not any(shares.values()):
        raise SettingsError(f"--members {text!r}: no part is above 0")
    return shares


def _asked(
    spark: SparkSession,
    settings: Settings,
    source: Path | None,
    questions: Questions,
    *,
    since: datetime | None,
    until: datetime | None,
) -> tuple[DataFrame, int]:
    """Return every scenario, worked out and kept, and how many groups are left out as too old."""
    from samerack.pipeline import tables, whatif  # noqa: PLC0415 - PySpark is imported only when a command runs

    if source is None:
        states = whatif.states_in_table(tables.read(spark, settings.pipeline, "group_states"), until=_moment(until))
    else:
        states = whatif.states_in_files(spark, source)
    latest = whatif.latest(states, until=_moment(until)).persist()
    chosen, left_out = whatif.chosen(latest, since=_moment(since))
    rows = whatif.ask(chosen, questions, price_table(settings.money)).persist()
    with progress_shown(spark):
        found = rows.count()
    if not found:
        where = source or tables.location(settings.pipeline, "group_states")
        raise AgentError(f"{where}: has no state of that time; give other --since and --until, or let agents publish")
    if questions.shares and rows.where(rows.scenario == MOVE).isEmpty():
        typer.echo(
            f"--members: no group would save with it, or none has the racks {', '.join(questions.shares)}", err=True
        )
    if questions.new_rack and rows.where(rows.scenario == RACK).isEmpty():
        typer.echo(f"--add-rack {questions.new_rack}: each group has it already, or no racks of brokers", err=True)
    return rows, left_out


def _moment(when: datetime | None) -> int | None:
    return None if when is None else int(when.replace(tzinfo=UTC).timestamp() * 1000)


def _answer(
    rows: DataFrame, settings: Settings, questions: Questions, *, left_out: int, top: int, begin: float
) -> WhatIf:
    from samerack.pipeline import whatif  # noqa: PLC0415 - PySpark is imported only when a command runs

    found = whatif.changes(rows).persist()
    failed = rows.where(rows.error.isNotNull()).select("cluster", "group", "error").limit(_MAX_FAILURES)
    return WhatIf(
        totals=WhatIfTotals(**whatif.totals(rows).collect()[0].asDict(), left_out=left_out),
        kinds=[KindOfChange(**row.asDict()) for row in whatif.by_change(found).collect()],
        ranking=[WhatIfChange(**row.asDict()) for row in whatif.ranked(found).limit(top).collect()],
        failures=[Failure(**row.asDict()) for row in failed.collect()],
        prices=price_table(settings.money),
        questions=questions,
        seconds=time.monotonic() - begin,
    )
