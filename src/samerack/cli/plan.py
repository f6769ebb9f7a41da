"""`samerack plan GROUP`: shows what a live group reads across racks, and what it would under the agent."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from typing import Annotated, Any, Final

import typer
from rich.table import Table
from rich.text import Text

from samerack.agent import log
from samerack.cli.cost import server_lines
from samerack.cli.live_plan import examine, measured_rates
from samerack.cli.member_names import short_names
from samerack.common.console import USUAL, WIDE, Column, Console, table_of
from samerack.common.words import UNKNOWN, count, monthly, partitions_across, percent, plain, rate
from samerack.offline.curve import show_points
from samerack.planning.planner import AssignorName
from samerack.reporting.report import ServerAssignment
from samerack.settings.flags import settings_from
from samerack.settings.options import BootstrapOption, ConfigOption, SetOption
from samerack.traffic.evenness import BusiestMember, TopicShare, busiest_in_words, share_in_words

_EVENNESS: Final[dict[str, tuple[str, Callable[[dict[str, Any]], str]]]] = {
    "topic_share": ("largest part of a topic on one member", lambda one: share_in_words(TopicShare(**one))),
    "busiest": ("busiest member", lambda one: busiest_in_words(BusiestMember(**one))),
}
"""How evenly members read: the title of each figure, and a function that formats it."""


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
    answer = examine(
        group,
        settings,
        assignor,
        rates=measured_rates(group, settings, seconds) if seconds and settings.leading.weigh_by == "bytes" else None,
        with_curve=with_curve,
    )
    if as_json:
        typer.echo(json.dumps(answer))
    else:
        show(answer)


def across(cost: dict[str, Any], *, partitions: int) -> str:
    """Return what a plan reads across racks; where that is not known of all partitions, of how many it is."""
    text = partitions_across(cost["cross_rack"], known=cost["known"], of=partitions)
    return text if cost["cross_rack"] is None else f"{text} ({percent(cost['cross_rack_share'])})"


def heading(answer: dict[str, Any]) -> str:
    """Return what the table of members is about."""
    return plain(f"group {answer['group']} ({answer['protocol']}): {_replicas(answer)}")


def racks_from(members: list[dict[str, Any]]) -> str:
    """Which sources the members' racks come from, the most frequent first."""
    sources = Counter(member["rack_from"] for member in members)
    return f"racks from: {', '.join(f'{source} ({times})' for source, times in sources.most_common())}"


def members_table(answer: dict[str, Any], width: int) -> Table:
    """Return a row for each member; a wide terminal also shows where its rack is from and which replicas it reads."""
    members = answer["members"]
    names = short_names({one["id"]: one["client_id"] for one in members})
    now, then = (
        [f"{len(one[plan]['partitions'])}/{count(one[plan]['cross_rack'])}" for one in members]
        for plan in ("present", "proposed")
    )
    gained = [one["proposed"]["gained"] for one in members]
    return table_of(
        (
            Column(title="member", cells=[names[one["id"]] for one in members]),
            Column(title="rack", cells=[one["rack"] or UNKNOWN for one in members]),
            Column(title="from", cells=[one["rack_from"] for one in members], from_width=WIDE),
            Column(title="reads", cells=[one["reads"] for one in members], from_width=WIDE),
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


def racks_table(spread: dict[str, Any], width: int) -> Table:
    """Return a row for each rack: its members, how many it would have if they were even, and what is near them."""
    racks = spread["racks"]
    figures = {"members": "members", "if even": "even_members", "near": "near_partitions"}
    return table_of(
        (
            Column(title="rack", cells=[one["rack"] for one in racks]),
            *(
                Column(title=title, cells=[str(one[key]) for one in racks], number=True)
                for title, key in figures.items()
            ),
            Column(
                title="near/s",
                cells=[rate(one["near_bytes_per_second"]) for one in racks],
                number=True,
                optional=True,
            ),
        ),
        width=width,
    )


def _replicas(answer: dict[str, Any]) -> str:
    """Which replicas serve the members, as their rows say it; the brokers' side alone is not enough."""
    members = answer["members"]
    any_replica = sum(member["reads"] == "any replica" for member in members)
    if any_replica == len(members):
        return "members read any replica in their rack"
    if not any_replica:
        only_leaders = answer["replicas_that_serve"] == "leader replicas"
        return "members read leaders only" + ("" if only_leaders else ", as none is known to fetch with its rack")
    return f"{any_replica} of {len(members)} members read any replica in their rack, the others leaders"


def show_racks(console: Console, spread: dict[str, Any] | None) -> None:
    """Show how members and partitions are spread over racks, where that makes balanced plans read across them."""
    if spread is None:
        console.print("members and partitions by rack: unknown")
    elif spread["cause"] is not None:
        console.print(racks_table(spread, console.width))
        console.print(Text.assemble(("warning: ", "yellow"), plain(f"{spread['cause']}; {spread['cure']}")))


def show_copartitioning(console: Console, apart: dict[str, Any] | None) -> None:
    """Show what it costs that co-partitioned topics stay together, where a plan without that saves enough."""
    if apart is None:
        return
    saved, dollars = apart["saved_bytes_per_second"], apart["saved_dollars_per_month"]
    price = "" if saved is None else f", {rate(saved)} less, {monthly(dollars)}"
    console.print(
        plain(
            "co-partitioned topics stay together, as with Kafka's range: "
            f"{percent(apart['cross_rack_share'])} would cross racks if they need not{price}; {apart['cure']}"
        )
    )


def show(answer: dict[str, Any]) -> None:
    """Show a plan: what it brings first, then its members and what is known besides."""
    console = Console()
    now, then = answer["present"], answer["proposed"]
    owned, given = (
        sum(len(member[plan]["partitions"]) for member in answer["members"]) for plan in ("present", "proposed")
    )
    console.print(
        f"across racks: now {across(now, partitions=owned)}, with {answer['assignor']} "
        f"{across(then, partitions=given)}, moving "
        f"{then['moved']}; shares by {answer['weighed_by']}"
    )
    console.print(heading(answer))
    console.print(members_table(answer, console.width))
    console.print(racks_from(answer["members"]))
    show_racks(console, answer["over_racks"])
    show_copartitioning(console, answer["copartitioning"])
    for name, (title, words_of) in _EVENNESS.items():
        if now[name] and then[name]:
            line = f"{title}: now {words_of(now[name])}, with {answer['assignor']} {words_of(then[name])}"
            console.print(plain(line))
    console.print(plain(f"an agent leads it: {answer['agent_leads']}"))
    if answer["agent_only_observes"]:
        console.print(plain(f"the running agent only observes it: {answer['agent_only_observes']}"))
    if answer["agent_is_paused"]:
        console.print(plain(f"the running agent is paused: {answer['agent_is_paused']}"))
    if answer["server"] is not None:
        for line in server_lines(ServerAssignment(**answer["server"]), money=False):
            console.print(plain(line))
    if "curve" in answer:
        show_points(answer["curve"], console)
    for warning in answer["warnings"]:
        console.print(Text.assemble(("warning: ", "yellow"), plain(warning)))
