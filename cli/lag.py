"""`samerack lag GROUP`: the records that a group has not read yet, and how old they are, by partition and member."""

from __future__ import annotations

from typing import Annotated

import typer
from rich import box
from rich.table import Table

from samerack.agent import log
from samerack.cli import asking
from samerack.cli.asking import MeasureOption, place
from samerack.cli.plan_subject import unknown_group
from samerack.cluster.wire import Wire
from samerack.common import words
from samerack.common.console import WIDE, Console
from samerack.common.kafka_config import for_kafka_python
from samerack.common.options import BootstrapOption, ConfigOption, SetOption
from samerack.reporting.group_lag import GroupLag, largest_first, to_json


def register(app: typer.Typer) -> None:
    """Add the subcommand."""
    app.command("lag")(lag)


def lag(
    group: Annotated[str, typer.Argument(help="The consumer group.")],
    config: ConfigOption = None,
    bootstrap: BootstrapOption = None,
    *,
    measure: MeasureOption = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object instead of tables.")] = False,
    assignments: SetOption = None,
) -> None:
    """Show how many records of each partition a group has not read yet, how old the oldest is, and who reads them.

    The lag of a partition is its high watermark less the committed offset, as kafka-consumer-groups.sh has it; its age
    is the time since the oldest record that is not read was written. `-` where either is not known. A running agent is
    asked (at web.host:web.port), which has seen when records came; where none runs, or it has not seen the group, this
    command asks the brokers itself, and knows ages only of what came meanwhile. Joins no group, and changes nothing.
    """
    where = place(config, bootstrap, assignments)
    log.configure(where.settings)
    found, origin = asking.lag(where, group, measure=measure)
    if found is None:
        wire = Wire(for_kafka_python(where.settings.kafka))
        try:
            raise unknown_group(group, wire)
        finally:
            wire.close()
    if as_json:
        typer.echo(to_json(found))
        return
    console = Console()
    console.print(partitions_table(found, width=console.width))
    console.print(_members(found))
    console.print(
        words.plain(
            f"group {found.group} ({found.state}): {words.count(found.lag_records)} records in all, the oldest "
            f"{words.age(found.lag_seconds)} old; {origin}"
        ),
        highlight=False,
    )


def partitions_table(group: GroupLag, *, width: int) -> Table:
    """The partitions, those with the most lag first, and before them those whose lag is not known."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("partition", overflow="fold", min_width=10)
    for column in ("committed", "lag", "age"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("member", overflow="fold", min_width=8)
    table.add_column("rack", no_wrap=True)
    if width >= WIDE:
        table.add_column("served from", no_wrap=True)
    for one in sorted(group.partitions, key=lambda one: largest_first(one.lag_records)):
        cells = [
            words.plain(f"{one.topic}-{one.partition}"),
            words.count(one.committed),
            words.count(one.lag_records),
            words.age(one.lag_seconds),
            words.plain(one.client_id if one.client_id is not None else words.UNKNOWN),
            words.plain(one.rack or words.UNKNOWN),
        ]
        if width >= WIDE:
            cells.append(words.plain(one.serving_rack or words.UNKNOWN))
        table.add_row(*cells)
    return table


def _members(group: GroupLag) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("member", overflow="fold", min_width=8)
    table.add_column("rack", no_wrap=True)
    for column in ("partitions", "lag", "age"):
        table.add_column(column, justify="right", no_wrap=True)
    for member in group.members:
        table.add_row(
            words.plain(member.client_id),
            words.plain(member.rack or words.UNKNOWN),
            str(member.partitions),
            words.count(member.lag_records),
            words.age(member.lag_seconds),
        )
    return table
