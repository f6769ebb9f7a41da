"""The live group that a command is about: a classic one, or one that brokers assign (KIP-848); and what plans need."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from samerack.agent.leading.admission import prospect
from samerack.assignors.evaluate import Rates
from samerack.cli.asking import announce
from samerack.cluster.broker_configs import ServerAssignors, assignors_of, read_broker_configs
from samerack.cluster.group import CONSUMER, EMPTY_STATES, STABLE, GroupView, view_group
from samerack.cluster.group_questions import GroupType, GroupTypes
from samerack.cluster.joining import seems_agent
from samerack.cluster.metadata import read_metadata
from samerack.cluster.racks import Hosts
from samerack.cluster.view import ClusterView
from samerack.cluster.wire import BrokerClient
from samerack.common.errors import AgentError
from samerack.common.patterns import exactly
from samerack.common.records import FOLLOWING, LEADING
from samerack.common.words import nearest
from samerack.planning.members import PlanMember, members_of_view
from samerack.settings.all_settings import Settings
from samerack.settings.cures import command
from samerack.traffic import groups
from samerack.traffic.describe import Read, described, listed
from samerack.traffic.groups import ListedGroup
from samerack.traffic.snapshot import Gap, ObservedGroup
from samerack.traffic.watch import observe

_SETTLED: Final = EMPTY_STATES | {STABLE}
_REBALANCE_SECONDS: Final = 15.0
_PAUSE_SECONDS: Final = 0.25
_MIN_LENGTH: Final = 4
"""The least number of characters shown of a member id: fewer are hard to find in a log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A group to plan.

    Attributes:
        protocol: the protocol name of its members, or the assignor of the brokers.
        members: its members with what they have now, without agents.
        view: its description, if its members assign it; else None.
        unreadable: what of its members cannot be read.
        offered: the assignors of the brokers, if these assign it; else None.
    """

    protocol: str
    members: tuple[PlanMember, ...]
    view: GroupView | None = None
    unreadable: tuple[str, ...] = ()
    offered: ServerAssignors | None = None


def unknown_group(group: str, wire: BrokerClient) -> AgentError:
    """Return the error for a group that does not exist, with the names that are nearest.

    Raises:
        NotAllowedError: It may not be described, so that brokers leave it out of their lists.
        AgentError: No response.
    """
    GroupTypes(wire).find(group)
    names = listed(wire, read_metadata(wire, ()).brokers, ["*"]).groups
    return AgentError(f"group {group}: does not exist on these brokers; {nearest(group, names)}")


def how_led(
    view: GroupView | None,
    settings: Settings,
    *,
    role: str,
    trouble: str = "",
    saving: float | None,
    max_size: int | None = None,
) -> str:
    """Return how an agent comes to lead a group.

    Args:
        view: the group; None if the brokers assign it.
        settings: of the agent.
        role: that of the running agent in it; empty if none runs.
        trouble: why the running agent does not lead it.
        saving: the part of what it reads that the plan keeps in its rack; None if that is not known.
        max_size: `group.max.size` of the brokers; None if that is not known.
    """
    if view is None:
        return "never: the brokers assign its partitions (KIP-848)"
    if role == LEADING:
        return "the running agent leads it now"
    if role == FOLLOWING and trouble:
        return f"once its leader leaves: {trouble}"
    worth_it = saving is not None and saving > settings.policy.of(view.name).min_saving
    bootstrap = settings.kafka["bootstrap.servers"] if not role else ""
    return prospect(view, settings.leading, worth_it=worth_it, bootstrap=bootstrap, max_size=max_size)


def subject_of(group: str, settings: Settings, wire: BrokerClient, hosts: Hosts) -> Subject:
    """Return the group as it is described, which is stable; wait some seconds for a rebalance to end.

    Raises:
        AgentError: It cannot be planned, or not be described.
    """
    GroupTypes(wire).find(group)  # the error names what is missing where it may not be described
    brokers = read_metadata(wire, ()).brokers
    views: list[GroupView] = []

    def classic(raw: Any) -> ObservedGroup:
        views.append(view_group(raw))
        return groups.classic(raw, racks=settings.racks, agent="", hosts=hosts)

    read: Mapping[GroupType, Read] = {
        "classic": classic,
        "consumer": partial(groups.managed, racks=settings.racks, hosts=hosts),
    }
    until = time.monotonic() + _REBALANCE_SECONDS
    while True:
        found = listed(wire, brokers, [exactly(group)])
        descriptions = described(wire, found.groups.values(), read=read)
        gaps = (*found.gaps, *descriptions.gaps)
        seen = next(iter(descriptions.groups), None)
        if (seen is None and not gaps) or (seen is not None and seen.state in _SETTLED) or time.monotonic() > until:
            break
        time.sleep(_PAUSE_SECONDS)
    if seen is None:
        raise _undescribed(group, wire, found.groups, gaps)
    if seen.state != STABLE:
        raise AgentError(f"group {group}: is {seen.state}; it needs members and no rebalance in progress; try again")
    if seen.kind == "consumer":
        offered = assignors_of(partial(read_broker_configs, wire, brokers))
        return Subject(protocol=seen.assignor, members=seen.members, offered=offered)
    if seen.kind == "streams-classic":
        plan = command("streams plan", "--group", group, bootstrap=settings.kafka["bootstrap.servers"])
        raise AgentError(f"group {group}: is a Kafka Streams application, which assigns tasks: {plan} shows its plan")
    view = views[-1]
    if view.protocol_type != CONSUMER:
        raise AgentError(
            f"group {group}: has protocol type {view.protocol_type!r}; only consumer groups can be planned"
        )
    consumers = tuple(one for one in view.members if not seems_agent(one, view.protocol))
    return Subject(
        protocol=view.protocol,
        members=members_of_view(replace(view, members=consumers), settings.racks, hosts),
        view=view,
        unreadable=tuple(f"member {member.id}: {member.unreadable}" for member in view.members if member.unreadable),
    )


def _undescribed(group: str, wire: BrokerClient, found: Mapping[str, ListedGroup], gaps: Sequence[Gap]) -> AgentError:
    """Return the error for a group that no broker describes as one that can be planned."""
    if gaps:
        return AgentError(f"group {group}: {'; '.join(gap.reason for gap in gaps)}")
    if group in found:
        return AgentError(
            f"group {group}: has type {found[group].type}; only classic and consumer groups can be planned"
        )
    return unknown_group(group, wire)


def measured_rates(group: str, settings: Settings, seconds: float) -> tuple[Rates, Rates]:
    """Measure the bytes per second of the group's partitions; and their records, if members are balanced by these."""
    traffic = settings.traffic.model_copy(update={"groups": (exactly(group),)})
    announce(seconds)
    snapshot = observe(settings.model_copy(update={"traffic": traffic}), seconds=seconds)
    return (
        {partition: rate for measured in snapshot.groups for partition, rate in measured.long_run_rates.items()},
        {partition: rate for measured in snapshot.groups for partition, rate in measured.record_rates.items()},
    )


def asked_configs(settings: Settings, wire: BrokerClient, seen: ClusterView) -> tuple[bool, int | None, list[str]]:
    """Return what `plan` needs of the brokers' configuration.

    That is whether any replica in a member's rack serves it, `group.max.size` (None if it is not known), and why the
    first is not known: then only leaders count.
    """
    selector = settings.racks.replica_selector
    try:
        configs = read_broker_configs(wire, seen.brokers)
    except AgentError as error:
        unknown = [f"only leader replicas count as near, as for a running agent: {error}"]
        return selector == "rack-aware", None, unknown if selector == "auto" else []
    aware = configs.rack_aware if selector == "auto" else selector == "rack-aware"
    return aware, configs.max_group_size, []


def short_names(client_ids: Mapping[str, str]) -> dict[str, str]:
    """Return a name for each member id, no two alike, from the client id of each.

    Members whose client ids repeat have the shortest beginning of their ids in which they differ, without the client
    id, with which most clients' member ids begin.
    """
    times = Counter(client_ids.values())
    longest = max(map(len, client_ids), default=0)
    for length in range(_MIN_LENGTH, max(_MIN_LENGTH, longest) + 1):
        names = {
            member: client if times[client] == 1 else f"{client}-{member.removeprefix(f'{client}-')[:length]}"
            for member, client in client_ids.items()
        }
        if len(set(names.values())) == len(names):
            return names
    return {member: member for member in client_ids}
