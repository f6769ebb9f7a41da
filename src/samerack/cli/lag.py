"""`samerack lag GROUP`: the records that a group has not read yet and their age, by rack, member and partition."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import Annotated

import typer
from rich.table import Table

from samerack.auth.kafka_config import for_kafka_python
from samerack.cli import asking
from samerack.cli.asking import MeasureOption, place
from samerack.cli.live_group import short_names, unknown_group
from samerack.cluster.wire import BrokerClient
from samerack.common import words
from samerack.common.console import USUAL, WIDE, Column, Console, table_of
from samerack.reporting.group_lag import GroupLag, ReaderLag, largest_first, to_json
from samerack.settings.options import BootstrapOption, ConfigOption, SetOption


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
    is the time since the oldest record that is not read was written. `-` where either is not known. Figures of several
    partitions are of those that are known, so that they are lower bounds where some are not: how many is in
    parentheses. A member falls behind if its lag right after commits grows. A running agent is asked (at
    web.host:web.port), which has seen when records came; where none runs, or it has not seen the group, this command
    asks the brokers itself for a second, and knows ages only of what came meanwhile, and not what members read. Joins
    no group, and changes nothing.
    """
    where = place(config, bootstrap, assignments)
    found, origin = asking.lag(where, group, measure=measure)
    if found is None:
        with closing(BrokerClient(for_kafka_python(where.settings.kafka))) as wire:
            raise unknown_group(group, wire)
    if as_json:
        typer.echo(to_json(found))
        return
    console = Console()
    console.print(words.plain(f"group {found.group} ({found.state}): {total(found)}; {origin}"))
    console.print(racks_table(found, width=console.width))
    console.print(members_table(found, width=console.width))
    console.print(partitions_table(found, width=console.width))


def total(group: GroupLag) -> str:
    """Return the sum and the largest age of a group; each is a lower bound where it lacks some partitions."""
    parts = (
        ("lag in total", words.count(group.lag_records), group.lag_unknown_partitions),
        ("age of the oldest", words.age(group.lag_seconds), group.lag_seconds_unknown_partitions),
    )
    return ", ".join(
        f"{what}: unknown"
        if figure == words.UNKNOWN
        else f"{what}: {words.at_least(figure, is_lower_bound=bool(lacking))}"
        + (f" (unknown of {lacking} of its partitions)" if lacking else "")
        for what, figure, lacking in parts
    )


def partitions_table(group: GroupLag, *, width: int) -> Table:
    """Return the partitions, those with the most lag first, and before them those whose lag is not known."""
    rows = sorted(group.partitions, key=lambda partition: largest_first(partition.lag_records))
    names = _names(group)
    return table_of(
        (
            Column(title="partition", cells=[f"{row.topic}-{row.partition}" for row in rows]),
            Column(title="committed", cells=[words.count(row.committed) for row in rows], number=True),
            Column(title="lag", cells=[words.count(row.lag_records) for row in rows], number=True),
            Column(title="age", cells=[words.age(row.lag_seconds) for row in rows], number=True),
            Column(title="member", cells=[names.get(row.member_id or "", words.UNKNOWN) for row in rows]),
            Column(title="rack", cells=[row.rack or words.UNKNOWN for row in rows]),
            Column(title="served from", cells=[row.serving_rack or words.UNKNOWN for row in rows], from_width=WIDE),
        ),
        width=width,
    )


def racks_table(group: GroupLag, *, width: int) -> Table:
    """Return the racks of the members, and how many of these fall behind."""
    rows = group.racks
    return table_of(
        (
            Column(title="rack", cells=[row.rack or words.UNKNOWN for row in rows]),
            Column(title="members", cells=[str(row.members) for row in rows], number=True),
            Column(
                title="fall behind",
                cells=[words.count(row.members_behind, row.members_unknown) for row in rows],
                number=True,
            ),
            *_sums(rows),
        ),
        width=width,
    )


def members_table(group: GroupLag, *, width: int) -> Table:
    """Return the members, and the sums of their partitions."""
    rows = group.members
    names = _names(group)
    return table_of(
        (
            Column(title="member", cells=[names[row.member_id] for row in rows]),
            Column(title="rack", cells=[row.rack or words.UNKNOWN for row in rows]),
            Column(title="pace", cells=[row.pace or words.UNKNOWN for row in rows]),
            *_sums(rows),
        ),
        width=width,
    )


def _sums(rows: Sequence[ReaderLag]) -> tuple[Column, ...]:
    return (
        Column(title="partitions", cells=[words.count(row.partitions) for row in rows], number=True),
        Column(title="reads", cells=[words.rate(row.bytes_per_second) for row in rows], number=True, from_width=USUAL),
        Column(
            title="lag", cells=[words.count(row.lag_records, row.lag_unknown_partitions) for row in rows], number=True
        ),
        Column(
            title="age",
            cells=[words.age(row.lag_seconds, row.lag_seconds_unknown_partitions) for row in rows],
            number=True,
        ),
    )


def _names(group: GroupLag) -> dict[str, str]:
    return short_names({member.member_id: member.client_id for member in group.members})
