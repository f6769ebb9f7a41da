"""`samerack pipeline stream` and `maintain`: what writes the tables, until it is stopped, and what maintains them."""

from __future__ import annotations

import json
import signal
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from threading import Event
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

from samerack.pipeline.cli.spark import explained, need_spark
from samerack.settings.flags import settings_from
from samerack.settings.options import BootstrapOption, ConfigOption, SetOption

if TYPE_CHECKING:
    from samerack.pipeline.stream import Batch


def stream(
    config: ConfigOption = None,
    bootstrap: BootstrapOption = None,
    *,
    once: Annotated[bool, typer.Option("--once", help="Process what is in Kafka now, then stop.")] = False,
    again: Annotated[
        bool,
        typer.Option(
            "--again",
            help="First count the records in quarantine that are good by now: after an update, or other settings.",
        ),
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print a line of JSON for each batch on standard output.")
    ] = False,
    assignments: SetOption = None,
) -> None:
    """Keep the agents' records as tables: traffic by minute, states of groups, and a quarantine for bad records.

    Every record counts exactly once, whatever is killed and started again, and however late it comes. Ctrl-C or SIGTERM
    ends after the batch that runs; what is not written yet is read again next time.

    Begin with: samerack pipeline stream --once -b HOST:PORT -s pipeline.tables=FOLDER
    """
    need_spark()
    from samerack.pipeline import batches, session, stream  # noqa: PLC0415 - PySpark is imported only when a command runs

    settings = settings_from(config, bootstrap, assignments)
    stream.source_options(settings.kafka)  # an error in the settings is reported before Java starts
    cluster, warnings = stream.check_topics(settings.kafka, settings.pipeline)
    for warning in warnings:
        typer.echo(warning, err=True)
    stop = Event()
    with session.opened(settings.pipeline, name="stream") as spark, stream.without_secrets(settings.kafka):

        def on_signal(number: int, _: FrameType | None) -> None:
            if stop.is_set():
                raise KeyboardInterrupt  # asked twice: at once
            stop.set()
            typer.echo(
                f"{signal.Signals(number).name}: stopping after this batch; a second signal stops at once", err=True
            )

        for number in (signal.SIGTERM, signal.SIGINT):  # after the session, which sets a handler of its own
            signal.signal(number, on_signal)
        if again:
            counted, left = batches.again(spark, settings.pipeline)
            typer.echo(f"quarantine: {counted:,} records are good now and count, {left:,} rows stay", err=True)
        writer = stream.Writer(settings.pipeline, report=partial(typer.echo, err=True))
        query = stream.start(spark, settings, writer, to_the_end=once, cluster=cluster)
        where = f"{settings.kafka['bootstrap.servers']} -> {settings.pipeline.tables}"
        typer.echo(f"reading {where}; Ctrl-C ends after the batch that runs", err=True)
        stream.follow(query, writer, stop, _show_json if as_json else _show)


def _show(batch: Batch) -> None:
    left_out = {"repeated": batch.repeats, "bad": batch.bad}
    extra = "".join(f", {number:,} {name}" for name, number in left_out.items() if number)
    behind = f", {batch.behind:,} behind" if batch.behind is not None else ""
    typer.echo(
        f"batch {batch.number}: {batch.samples:,} samples, {batch.states:,} states{extra}; {batch.seconds:.1f} s, "
        f"{batch.records_per_second:,.0f} records/s{behind}",
        err=True,
    )


def _show_json(batch: Batch) -> None:
    typer.echo(json.dumps({**asdict(batch), "records_per_second": round(batch.records_per_second)}))


def maintain(
    config: ConfigOption = None,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was done as JSON.")] = False,
    assignments: SetOption = None,
) -> None:
    """Delete days past their time, merge small files, add days up for reports, and delete files that no table needs.

    A stream that goes on does so itself once a day; run this where streams only run with --once. How many days tables
    keep: pipeline.traffic_days and pipeline.states_days; quarantine keeps 30. Files that no table needs stay a week.

    Begin with: samerack pipeline maintain -s pipeline.tables=FOLDER
    """
    need_spark()
    from samerack.pipeline import maintenance, session  # noqa: PLC0415 - PySpark is imported only when a command runs

    settings = settings_from(config, None, assignments, needs_kafka=False).pipeline
    today = datetime.now(UTC).date()
    with session.opened(settings, name="maintain") as spark, explained(settings.tables):
        done = maintenance.maintain(spark, settings, today=today, progress=partial(typer.echo, err=True))
    if as_json:
        typer.echo(json.dumps([{**asdict(kept), "kept_since": str(kept.kept_since)} for kept in done]))
        return
    for kept in done:
        typer.echo(
            f"{kept.table}: {kept.files_before:,} files became {kept.files_after:,} ({kept.bytes / 1e6:,.1f} MB), "
            f"{kept.days_deleted:,} days before {kept.kept_since} deleted; {kept.seconds:.1f} s"
        )
