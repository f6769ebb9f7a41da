"""`samerack plan GROUP`: what a live group reads across racks, and what it would under the agent. Changes nothing."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import asdict
from enum import Enum
from glob import escape
from typing import Annotated, Any, Final

import numpy as np
import typer
from kafka import errors as kafka_errors
from rich.table import Table
from rich.text import Text

from samerack.agent import log
from samerack.agent.leading.admission import is_settled
from samerack.agent.leading.membership import Membership
from samerack.agent.leading.prospect import prospect
from samerack.agent.policy.measured import Rates, shares_of
from samerack.assignors.consumer.registry import Options
from samerack.assignors.evaluate import cross_rack_mask
from samerack.assignors.model import NOBODY, Int32Array, Problem
from samerack.cli.asking import hosts_known
from samerack.cli.curve import points_of, show_points
from samerack.cluster.coordination import close, connect
from samerack.cluster.group import CONSUMER, GroupView, topics_of
from samerack.cluster.racks import rack_warnings
from samerack.cluster.view import ClusterView, NoRack, Settling, SettlingTimes, settle
from samerack.cluster.watch import Admin, find_group_type, look, open_admin, read_broker_configs
from samerack.common.console import Console
from samerack.common.errors import AgentError
from samerack.common.kafka_config import for_kafka_python
from samerack.common.options import BootstrapOption, ConfigOption, SetOption, settings_from
from samerack.common.settings import Settings
from samerack.common.words import plain
from samerack.planning import planner
from samerack.planning.members import members_of_view
from samerack.planning.mode import mode_of
from samerack.planning.problem import problem_of
from samerack.traffic.evenness import BusiestMember, TopicShare, busiest, busiest_in_words, share_in_words, topic_share
from samerack.traffic.watch import observe
from samerack.traffic.weights import weights_of_rates

_REBALANCE_SECONDS = 15.0
_PAUSE_SECONDS = 0.25
_WITHOUT_COPARTITIONING = (
    "the curve does not keep co-partitioned topics together, as plans for this group do: leading.max_skew works where "
    "leading.keep_copartitioned is never"
)


_EVENNESS: Final[dict[str, tuple[str, Callable[[dict[str, Any]], str]]]] = {
    "topic_share": ("largest part of a topic on one member", lambda one: share_in_words(TopicShare(**one))),
    "busiest": ("busiest member", lambda one: busiest_in_words(BusiestMember(**one))),
}
"""How a table tells how evenly members read: what it is called, and its figures in words."""


class AssignorChoice(Enum):
    """Whose plan to show."""

    OPTIMAL = "optimal"
    RANGE = "range"


def register(app: typer.Typer) -> None:
    """Add the subcommand."""
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
    web.host:web.port): what agents beside members tell, and the Kubernetes API.
    """
    settings = settings_from(config, bootstrap, assignments)
    log.configure(settings)
    answer = examine(
        group,
        settings,
        "optimal" if assignor is AssignorChoice.OPTIMAL else "range",
        rates=_rates(group, settings, seconds) if seconds else None,
        with_curve=with_curve,
    )
    if as_json:
        typer.echo(json.dumps(answer))
    else:
        _show(answer)


def describe(group: str, settings: Settings) -> GroupView:
    """One look at the group by name; a rebalance is given some seconds to end.

    Raises:
        AgentError: No broker answers, or not allowed.
    """
    client = connect(for_kafka_python(settings.kafka))
    try:
        membership = Membership(client, group=group, settings=settings.leading, assign=lambda _: {}, wake=lambda: None)
        until = time.monotonic() + _REBALANCE_SECONDS
        while not is_settled(view := membership.describe_patiently()) and time.monotonic() < until:
            time.sleep(_PAUSE_SECONDS)
        return view  # noqa: TRY300 - an else would hide that the loop belongs to the try
    except kafka_errors.KafkaError as error:
        raise AgentError(f"group {group}: {type(error).__name__}: {error}") from error
    finally:
        close(client)


def _rates(group: str, settings: Settings, seconds: float) -> Rates | None:
    """The wire bytes per second of the group's partitions, measured now; None where bytes do not count."""
    if settings.leading.weigh_by != "bytes":
        return None
    traffic = settings.traffic.model_copy(update={"groups": (escape(group),)})
    snapshot = observe(settings.model_copy(update={"traffic": traffic}), seconds=seconds)
    return {
        (one.topic, one.number): one.bytes_per_second
        for measured in snapshot.groups
        for one in measured.partitions
        if one.bytes_per_second is not None
    }


def examine(
    group: str,
    settings: Settings,
    assignor: planner.AssignorName,
    *,
    rates: Rates | None = None,
    with_curve: bool = False,
) -> dict[str, Any]:
    """Everything that `plan` shows, as JSON values; with rates the shares are by bytes, else by partitions.

    Raises:
        AgentError: The group is not there, not a classic consumer group, or rebalancing; or brokers do not answer.
    """
    admin = open_admin(settings.kafka)
    kind = find_group_type(settings.kafka, group)
    if kind not in ("classic", "unknown"):
        raise AgentError(f"group {group}: is assigned by the brokers (type {kind}); only classic groups can be planned")
    view = describe(group, settings)
    if view.state == "Dead":
        raise AgentError(f"group {group}: does not exist; check the name and bootstrap.servers")
    if view.protocol_type not in ("", CONSUMER):
        raise AgentError(
            f"group {group}: has protocol type {view.protocol_type!r}; only consumer groups can be planned"
        )
    if not view.stable:
        raise AgentError(f"group {group}: is {view.state}; it needs members and no rebalance under way: try again")
    subscriptions = [member.subscription for member in view.members if member.subscription is not None]
    seen = look(admin, topics_of(subscriptions))
    hosts, unasked = hosts_known(settings, group)
    cluster = settle(Settling(), seen, 0.0, SettlingTimes(change=0.0, leader=0.0)).state.settled
    aware, unknown = _rack_aware(settings, admin, seen)
    mode = mode_of(view.protocol, settings.leading, rack_aware_fetch=aware)
    members = [
        member
        for member in members_of_view(view, settings.racks, hosts)
        if member.instance_id != settings.leading.instance_id
    ]
    if not members:
        raise AgentError(f"group {group}: has no members with a readable subscription")
    weights = weights_of_rates(rates) if rates is not None else None
    problem = problem_of(members, cluster, mode, weights=weights)
    made = planner.make_plan(problem, mode, prefer=assignor)
    racks = {member.id: member.rack for member in members}
    shares = shares_of(made, rates)
    brokers = {rack for rack in cluster.brokers.values() if not isinstance(rack, NoRack)}
    present, proposed = (_per_member(made, owner) for owner in (problem.owner, made.final))
    return {
        "group": group,
        "protocol": view.protocol,
        "assignor": made.assignor,
        "weighed_by": "bytes" if weights else "partitions",
        "agent_leads": prospect(view, settings.leading),
        "replicas_that_serve": "any replica in the member's rack" if aware else "leader replicas",
        "present": {**asdict(made.before), "cross_rack_share": shares[0], **_evenness(problem, problem.owner, rates)},
        "proposed": {**asdict(made.after), "cross_rack_share": shares[1], **_evenness(problem, made.final, rates)},
        "warnings": [
            *unknown,
            *filter(None, [unasked]),
            *rack_warnings({rack.rack for rack in racks.values() if rack.rack is not None}, brokers),
            *(f"member {member.id}: {member.unreadable}" for member in view.members if member.unreadable),
            *([_WITHOUT_COPARTITIONING] if with_curve and mode.keep_copartitioned else []),
        ],
        "members": [
            {
                "id": member,
                "rack": racks[member].rack,
                "rack_from": racks[member].source,
                "reads": "any replica" if mode.rack_aware_fetch and racks[member].fetches_with_rack else "leaders",
                "present": present[index],
                "proposed": proposed[index],
            }
            for index, member in enumerate(problem.members)
        ],
        **({"curve": points_of(problem, Options(), seconds=mode.deadline_seconds, rates=rates)} if with_curve else {}),
    }


def _evenness(problem: Problem, owner: Int32Array, rates: Rates | None) -> dict[str, Any]:
    """How evenly members read under a plan; None where it is not known."""
    subscriptions = {
        member: [topic for topic, wanted in zip(problem.topics, problem.subscriptions[reader], strict=True) if wanted]
        for member, reader in zip(problem.members, problem.subscription_of.tolist(), strict=True)
    }
    owned = [
        (problem.members[at], problem.topics[topic], number)
        for at, topic, number in zip(owner.tolist(), problem.topic_of.tolist(), problem.number_of.tolist(), strict=True)
        if at != NOBODY
    ]
    share = topic_share(((member, topic) for member, topic, _ in owned), subscriptions)
    most = busiest(((member, (rates or {}).get((topic, number))) for member, topic, number in owned), problem.members)
    return {
        "topic_share": None if share is None else asdict(share),
        "busiest": None if most is None else asdict(most),
    }


def _rack_aware(settings: Settings, admin: Admin, seen: ClusterView) -> tuple[bool, list[str]]:
    """Whether members are served by any replica in their rack, and why that is not known: then leaders count."""
    selector = settings.racks.replica_selector
    if selector != "auto":
        return selector == "rack-aware", []
    try:
        return read_broker_configs(admin, seen.brokers).rack_aware, []
    except AgentError as error:
        return False, [f"only leader replicas count as near, as for an agent that runs: {error}"]


def _per_member(made: planner.Plan, owner: Int32Array) -> list[dict[str, Any]]:
    problem = made.problem
    cross = cross_rack_mask(problem, owner)
    result = []
    for index in range(len(problem.members)):
        mine = np.flatnonzero(owner == index)
        result.append(
            {
                "partitions": [[problem.topics[problem.topic_of[p]], int(problem.number_of[p])] for p in mine],
                "cross_rack": int(np.count_nonzero(cross[mine])),
                "gained": int(np.count_nonzero((problem.owner[mine] != index) & (problem.owner[mine] != NOBODY))),
            }
        )
    return result


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
    if "curve" in answer:
        show_points(answer["curve"], console)
    for warning in answer["warnings"]:
        console.print(Text.assemble(("warning: ", "yellow"), plain(warning)))
