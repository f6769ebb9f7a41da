"""`samerack plan GROUP`: shows what a live group reads across racks, and what it would under the agent."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Sequence
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from samerack.agent import log
from samerack.cli.cost import server_lines
from samerack.cli.live_group import short_names
from samerack.cli.live_plan import (
    Copartitioning,
    LivePlan,
    OverRacks,
    PlanFigures,
    PlannedMember,
    examine,
    to_json,
)
from samerack.common.console import USUAL, WIDE, Column, Console, table_of
from samerack.common.words import UNKNOWN, count, monthly, partitions_across, percent, plain, rate
from samerack.offline.assign import show_points
from samerack.planning.planner import AssignorName
from samerack.planning.rack_spread import RackLoad
from samerack.settings.flags import settings_from
from samerack.settings.leading import Balance
from samerack.settings.options import BootstrapOption, ConfigOption, SetOption
from samerack.settings.sources import ENV_PREFIX


def plan(
    group: Annotated[str, typer.Argument(help="Name of the consumer group.")],
    config: ConfigOption = None,
    bootstrap: BootstrapOption = None,
    assignor: Annotated[
        AssignorName, typer.Option("--assignor", "-a", help="Assignor whose plan to show.")
    ] = "optimal",
    *,
    seconds: Annotated[
        float,
        typer.Option(
            "--seconds",
            min=0,
            help="Measure this many seconds first and weight partitions by throughput; use 30 or more.",
        ),
    ] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object instead of tables.")] = False,
    balance: Annotated[
        Balance | None,
        typer.Option("--balance", help="What is spread evenly over members instead of by `leading.balance`."),
    ] = None,
    with_curve: Annotated[
        bool,
        typer.Option("--curve", help="Also show what would cross racks if members could have more than a fair share."),
    ] = False,
    assignments: SetOption = None,
) -> None:
    """Show the current and the best assignment of a live group: cross-rack partitions and moves, per member.

    Reads only: the group is described, not joined. Racks that members do not send come from `racks.client_ids`,
    `racks.client_conventions` and `racks.networks`, e.g. --set 'racks.client_ids={"*-rack-a": rack-a}', and from an
    agent that measures the group (at web.host:web.port): what agents beside members report, and the Kubernetes API.
    """
    settings = settings_from(config, bootstrap, assignments)
    log.configure(settings)
    if balance is not None:
        leading = settings.leading.of(group).model_copy(update={"balance": balance, "groups": {}})
        settings = settings.model_copy(update={"leading": leading})
    has_settings = config is not None or any(name.startswith(ENV_PREFIX) for name in os.environ)
    made = examine(group, settings, assignor, seconds=seconds, with_curve=with_curve, has_settings=has_settings)
    if as_json:
        typer.echo(json.dumps(to_json(made)))
    else:
        show(made)


def across(figures: PlanFigures, *, partitions: int) -> str:
    """Return what a plan reads across racks; where that is not known of all partitions, of how many it is."""
    crossing = figures.cost.known_partitions_across
    text = partitions_across(crossing, known=figures.cost.known, of=partitions)
    return text if crossing is None else f"{text} ({percent(figures.cross_rack_share)})"


def heading(made: LivePlan) -> str:
    """Return what the table of members is about."""
    return plain(f"group {made.group} ({made.protocol}): {_replicas(made)}")


def racks_from(members: Sequence[PlannedMember]) -> str:
    """Which sources the members' racks come from, the most frequent first."""
    sources = Counter(member.rack_from for member in members)
    return f"racks from: {', '.join(f'{source} ({times})' for source, times in sources.most_common())}"


def members_table(members: Sequence[PlannedMember], width: int) -> Table:
    """Return a row for each member; a wide terminal also shows where its rack is from and which replicas it reads."""
    names = short_names({member.id: member.client_id for member in members})
    now, then = (
        [f"{len(owned.partitions)}/{count(owned.cross_rack)}" for owned in plan]
        for plan in ([member.present for member in members], [member.proposed for member in members])
    )
    gained = [member.proposed.gained for member in members]
    return table_of(
        (
            Column(title="member", cells=[names[member.id] for member in members]),
            Column(title="rack", cells=[member.rack or UNKNOWN for member in members]),
            Column(title="from", cells=[member.rack_from for member in members], from_width=WIDE),
            Column(title="reads", cells=[member.reads for member in members], from_width=WIDE),
            Column(title="now/across", cells=now, number=True),
            Column(title="then/across", cells=then, number=True),
            *(
                [Column(title="gained", cells=[*map(str, gained)], number=True, from_width=USUAL)]
                if any(gained)
                else []
            ),
        ),
        width=width,
    )


def racks_table(racks: Sequence[RackLoad], width: int) -> Table:
    """Return a row for each rack: its members, how many it would have if they were even, and what is near them."""
    near = [rate(rack.near_bytes_per_second) for rack in racks]
    return table_of(
        (
            Column(title="rack", cells=[rack.rack for rack in racks]),
            Column(title="members", cells=[str(rack.members) for rack in racks], number=True),
            Column(title="if even", cells=[str(rack.even_members) for rack in racks], number=True),
            Column(title="near", cells=[str(rack.near_partitions) for rack in racks], number=True),
            Column(title="near/s", cells=near, number=True, optional=True),
        ),
        width=width,
    )


def _replicas(made: LivePlan) -> str:
    """Which replicas serve the members, as their rows say it; the brokers' side alone is not enough."""
    any_replica = sum(member.reads == "any replica" for member in made.members)
    if any_replica == len(made.members):
        return "members read any replica in their rack"
    if not any_replica:
        only_leaders = made.replicas_that_serve == "leader replicas"
        return "members read leaders only" + ("" if only_leaders else ", as none is known to fetch with its rack")
    return f"{any_replica} of {len(made.members)} members read any replica in their rack, the others leaders"


def show_racks(console: Console, over: OverRacks | None) -> None:
    """Show how members and partitions are spread over racks, where that makes balanced plans read across them."""
    if over is None:
        console.print("members and partitions by rack: unknown")
    elif over.cause is not None:
        console.print(racks_table(over.spread.racks, console.width))
        console.print(Text.assemble(("warning: ", "yellow"), plain(f"{over.cause}; {over.cure}")))


def show_copartitioning(console: Console, apart: Copartitioning | None) -> None:
    """Show what it costs that co-partitioned topics stay together, where a plan without that saves enough."""
    if apart is None:
        return
    saved, dollars = apart.saved_bytes_per_second, apart.saved_dollars_per_month
    price = "" if saved is None or dollars is None else f", {rate(saved)} less, {monthly(dollars)}"
    console.print(
        plain(
            "co-partitioned topics stay together, as with Kafka's range: "
            f"{percent(apart.cross_rack_share)} would cross racks if they need not{price}; {apart.cure}"
        )
    )


def show(made: LivePlan) -> None:
    """Show a plan: what it brings first, then its members and what is known besides."""
    console = Console()
    now, then, assignor = made.present, made.proposed, made.assignor
    owned = sum(len(member.present.partitions) for member in made.members)
    given = sum(len(member.proposed.partitions) for member in made.members)
    console.print(
        f"across racks: now {across(now, partitions=owned)}, with {assignor} {across(then, partitions=given)}, "
        f"moving {then.cost.moved}; shares by {made.weighed_by}"
    )
    console.print(heading(made))
    console.print(members_table(made.members, console.width))
    console.print(racks_from(made.members))
    show_racks(console, made.over_racks)
    if made.members_wanted is not None:
        console.print(plain(f"members wanted: {made.members_wanted.text}"))
    show_copartitioning(console, made.copartitioning)
    if now.load_above_least is not None and then.load_above_least is not None:
        above = f"now {percent(now.load_above_least)}, with {assignor} {percent(then.load_above_least)}"
        console.print(plain(f"most loaded member, above the least possible: {above}"))
    console.print(plain(f"an agent leads it: {made.agent_leads}"))
    if made.agent_only_observes:
        console.print(plain(f"the running agent only observes it: {made.agent_only_observes}"))
    if made.agent_is_paused:
        console.print(plain(f"the running agent is paused: {made.agent_is_paused}"))
    for line in server_lines(made.server, money=False):
        console.print(plain(line))
    if made.curve is not None:
        show_points(made.curve, console)
    for warning in made.warnings:
        console.print(Text.assemble(("warning: ", "yellow"), plain(warning)))
