"""`samerack pipeline report`: what the fleet read across racks in a period, as a page, as files, or as JSON."""

from __future__ import annotations

from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from samerack.common import words
from samerack.common.console import Console
from samerack.common.errors import AgentError, SettingsError
from samerack.pipeline.cli.spark import explained, need_spark, progress_shown
from samerack.settings.flags import settings_from
from samerack.settings.measuring import price_table
from samerack.settings.options import ConfigOption, SetOption

if TYPE_CHECKING:
    from samerack.pipeline.report.fleet_report import FleetReport

_DAYS = 30


def report(
    config: ConfigOption = None,
    days: Annotated[
        int | None,
        typer.Option(
            "--days", min=1, help="Number of days to report, counted back from the newest.", show_default=str(_DAYS)
        ),
    ] = None,
    since: Annotated[
        datetime | None, typer.Option("--from", formats=["%Y-%m-%d"], help="First day, UTC.", show_default=False)
    ] = None,
    until: Annotated[
        datetime | None, typer.Option("--to", formats=["%Y-%m-%d"], help="Last day, UTC.", show_default=False)
    ] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="The page.")] = Path("report.html"),
    tables: Annotated[
        Path | None, typer.Option("--tables", help="A folder for all groups, topics and days.", show_default=False)
    ] = None,
    kind: Annotated[Literal["csv", "parquet"], typer.Option("--format", help="Of --tables.")] = "csv",
    top: Annotated[int, typer.Option("--top", min=1, max=1000, help="Groups, topics and losses to show.")] = 20,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print all that the page shows as one JSON object.")] = False,
    assignments: SetOption = None,
) -> None:
    """Write an HTML page: what the fleet read across racks, what it cost, what agents saved, where the next dollar is.

    Reads the tables of `samerack pipeline stream` and changes nothing. Prices are those of money.prices, e.g.
    -s money.prices=google-cloud.

    Begin with: samerack pipeline report --days 7 -s pipeline.tables=FOLDER
    """
    need_spark()
    first, last = since.date() if since else None, until.date() if until else None
    _check_period(days, first, last)
    settings = settings_from(config, None, assignments, needs_kafka=False)
    prices = price_table(settings.money)

    from samerack.pipeline import session  # noqa: PLC0415 - PySpark is imported only when a command runs
    from samerack.pipeline.report import gather, page  # noqa: PLC0415 - see above
    from samerack.pipeline.report.fleet_report import to_json  # noqa: PLC0415 - see above

    with session.opened(settings.pipeline, name="report", is_short=True) as spark, explained(settings.pipeline.tables):
        found = gather.opened(spark, settings.pipeline)
        with (
            progress_shown(spark),
            gather.gathered(
                found,
                prices,
                gather.Asked(first=first, last=last, max_days=days or _DAYS, top=top, owners=settings.pipeline.owners),
                progress=lambda step: typer.echo(step, err=True),
            ) as made,
        ):
            _write(output, page.page(made.report))
            files = page.write_tables(made.frames, made.days, tables, kind) if tables is not None else ()
    if as_json:
        typer.echo(to_json(made.report))
    else:
        _show(made.report)
    for path in (*files, output):
        typer.echo(f"written: {path}", err=True)


def _check_period(days: int | None, first: date | None, last: date | None) -> None:
    if days is not None and first is not None:
        raise SettingsError("--days and --from: give one of them; --days counts back from --to or the newest day")
    if first is not None and last is not None and first > last:
        raise SettingsError(f"--from {first} --to {last}: the first day is after the last")


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise AgentError(f"{path}: cannot be written ({error.strerror or error}); name another with --output") from None


def _show(made: FleetReport) -> None:
    """Print the headline for a terminal."""
    all_, period = made.headline, made.period
    lines = (
        f"{period.first} to {period.last}: {all_.groups:,} groups of {all_.clusters} cluster"
        f"{'' if all_.clusters == 1 else 's'} read {words.size(all_.bytes)}",
        f"across racks       {words.size(all_.crossing_bytes)} ({words.percent(all_.share)} of what has known racks)",
        f"costs a month      {words.money(all_.month.spent)}",
        f"saved a month      {words.money(all_.month.saved)}",
        f"possible a month   {words.money(all_.month.possible)}",
        f"lost awareness     {made.losses_in_all:,} times",
        made.prices.title,
    )
    console = Console()
    for line in lines:
        console.print(line)
