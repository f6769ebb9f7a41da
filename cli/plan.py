"""`samerack plan GROUP`: shows what a live group reads across racks, and what it would under the agent."""

from __future__ import annotations

import json
from collections.abc import Callable
from enum import Enum
from typing import Annotated, Any, Final

import typer
from rich.table import Table
from rich.text import Text

from samerack.agent import log
from samerack.agent.reporting.report import ServerAssignment
from samerack.cli.cost import server_lines
from samerack.cli.curve import show_points
from samerack.cli.live_plan import examine, measured_rates
from samerack.common.console import Console
from samerack.common.flags import settings_from
from samerack.common.options import BootstrapOption, ConfigOption, SetOption
from samerack.common.words import plain
from samerack.traffic.evenness import BusiestMember, TopicShare, busiest_in_words, share_in_words

_EVENNESS: Final[dict[str, tuple[str, Callable[[dict[str, Any]], str]]]] = {
    "topic_share": ("largest part of a topic on one member", lambda one: share_in_words(TopicShare(**one))),
    "busiest": ("busiest member", lambda one: busiest_in_words(BusiestMember(**one))),
}
"""How evenly members read: the title of each figure, and a function that formats it."""


class AssignorChoice(Enum):
    """Whose plan to show."""

    OPTIMAL = "optimal"
    RANGE = "range"


def register(app: typer.Typer) -> None:
    """Adds the subcommand."""
    app.command("plan")(plan)


def plan(
    group: Annotated[str, typer.Argument(help="Consumer group, as the brokers know it.")],
    config: ConfigOption = None,
    bootstrap: BootstrapOption = None,
    assignor: Annotated[AssignorChoice, typer.Option("--assignor", "-a", help="Whose plan to show.")] = (
        AssignorChoice.OPTIMAL
    ),
    *,
    seconds: Annotated[
        float,
        typer.Option(
            "--seconds",
            min=0,
            help="Measure for so long first, and weigh partitions by their bytes; 30 or more is good.",
        ),
    ] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object instead of tables.")] = False,
    with_curve: Annotated[
        bool, typer.Option("--curve", help="Also what would cross racks if members could have more than a fair share.")
    ] = False,
    assignments: SetOption = None,
) -> None:
    """Show the present and the best assignment of a live group: cross-rack partitions, moves, per member.

    Reads only: the group is described, not joined. Racks that members do not send come from `racks.client_ids` and
    `racks.networks`, e.g. --set 'racks.client_ids={"*-rack-a": rack-a}', and from an agent that measures the group (at
    web.host:web.port): what agents beside members report, and the Kubernetes API.
    """
    settings = settings_from(config, bootstrap, assignments)
    log.configure(settings)
    answer = examine(
        group,
        settings,
        "optimal" if assignor is AssignorChoice.OPTIMAL else "range",
        rates=measured_rates(group, settings, seconds) if seconds else None,
        with_curve=with_curve,
    )
    if as_json:
        typer.echo(json.dumps(answer))
    else:
        _show(answer)


def _show(answer: dict[str, Any]) -> None:
    console = Console()
    table = Table(title=f"group {answer['group']} ({answer['protocol']}), served by {answer['replicas_that_serve']}")
    for column in ("member", "rack", "from", "reads"):
        table.add_column(column, overflow="fold")
    for column in ("partitions now", "across racks", "proposed", "across racks", "gained"):
        table.add_column(column, justify="right")
    for member in answer["members"]:
        table.add_row(
            member["id"],
            member["rack"] or "-",
            member["rack_from"],
            member["reads"],
            str(len(member["present"]["partitions"])),
            str(member["present"]["cross_rack"]),
            str(len(member["proposed"]["partitions"])),
            str(member["proposed"]["cross_rack"]),
            str(member["proposed"]["gained"]),
        )
    console.print(table)
    now, then = answer["present"], answer["proposed"]
    console.print(
        f"across racks: now {now['cross_rack']} partitions ({now['cross_rack_share']:.1%}), "
        f"with {answer['assignor']} {then['cross_rack']} ({then['cross_rack_share']:.1%}), moving {then['moved']}; "
        f"shares by {answer['weighed_by']}"
    )
    for name, (title, words_of) in _EVENNESS.items():
        if now[name] and then[name]:
            line = f"{title}: now {words_of(now[name])}, with {answer['assignor']} {words_of(then[name])}"
            console.print(plain(line), highlight=False)
    console.print(plain(f"an agent leads it: {answer['agent_leads']}"), highlight=False)
    if answer["server"] is not None:
        for line in server_lines(ServerAssignment(**answer["server"]), money=False):
            console.print(plain(line), highlight=False)
    if "curve" in answer:
        show_points(answer["curve"], console)
    for warning in answer["warnings"]:
        console.print(Text.assemble(("warning: ", "yellow"), plain(warning)))
