"""`samerack pipeline maintain`: for a nightly job beside the stream."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from samerack.pipeline.cli.spark import need_spark
from samerack.settings.flags import settings_from
from samerack.settings.options import ConfigOption, SetOption

if TYPE_CHECKING:
    from samerack.pipeline.maintain import Kept


def maintain(
    config: ConfigOption = None,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was done as JSON.")] = False,
    assignments: SetOption = None,
) -> None:
    """Delete days past their time, make large files of small ones, and delete files that no table needs any more.

    Run it once a day or so; the stream may go on meanwhile. How many days tables keep: pipeline.traffic_days and
    pipeline.states_days; quarantine keeps 30. Files that no table needs stay for a week.

    Begin with: samerack pipeline maintain -s pipeline.tables=FOLDER
    """
    need_spark()
    from samerack.pipeline import session  # noqa: PLC0415 - PySpark is imported only when a command runs
    from samerack.pipeline.maintain import maintain as keep  # noqa: PLC0415 - see above

    settings = settings_from(config, None, assignments, needs_kafka=False).pipeline
    with session.opened(settings, name="maintain") as spark:
        done = keep(spark, settings, today=datetime.now(UTC).date(), progress=partial(typer.echo, err=True))
    if as_json:
        typer.echo(json.dumps([{**asdict(kept), "kept_since": str(kept.kept_since)} for kept in done]))
    else:
        for kept in done:
            typer.echo(_sentence(kept))


def _sentence(kept: Kept) -> str:
    return (
        f"{kept.table}: {kept.files_before:,} files became {kept.files_after:,} ({kept.bytes / 1e6:,.1f} MB), "
        f"{kept.days_deleted:,} days before {kept.kept_since} deleted; {kept.seconds:.1f} s"
    )
