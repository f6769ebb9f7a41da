"""Describes the live group that `samerack plan` is about: a classic one, or one that brokers assign (KIP-848)."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from kafka import errors as kafka_errors

from samerack.agent.leading.admission import is_settled, prospect
from samerack.agent.leading.membership import Membership
from samerack.auth.kafka_config import for_kafka_python
from samerack.cluster.broker_configs import read_broker_configs
from samerack.cluster.client import connect
from samerack.cluster.group import CONSUMER, GroupView
from samerack.cluster.group_type import GroupTypes
from samerack.cluster.metadata import read_metadata
from samerack.cluster.racks import Hosts
from samerack.cluster.refusals import explained
from samerack.cluster.server_assignors import ServerAssignors, from_values
from samerack.cluster.wire import Wire
from samerack.common.errors import AgentError
from samerack.common.patterns import exactly
from samerack.common.records import FOLLOWING, LEADING
from samerack.common.words import nearest
from samerack.planning.members import PlanMember, members_of_view
from samerack.settings.all_settings import Settings
from samerack.traffic.describe import described, listed
from samerack.traffic.groups import ObservedGroup, managed

_CONSUMER_TYPE: Final = "consumer"
_REBALANCE_SECONDS: Final = 15.0
_PAUSE_SECONDS: Final = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A group to plan.

    Attributes:
        protocol: the protocol name of its members, or the assignor of the brokers.
        members: its members with what they have now.
        view: its description, if its members assign it; else None.
        unreadable: what of its members cannot be read.
        offered: the assignors of the brokers, if these assign it; else None.
    """

    protocol: str
    members: tuple[PlanMember, ...]
    view: GroupView | None = None
    unreadable: tuple[str, ...] = ()
    offered: ServerAssignors | None = None


def describe(group: str, settings: Settings) -> GroupView:
    """Return a description of the group by name; wait some seconds for a rebalance to end.

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
        raise AgentError(f"group {group}: {explained(error)}") from error
    finally:
        client.close()


def unknown_group(group: str, wire: Wire) -> AgentError:
    """Return the error for a group that does not exist, with the names that are nearest."""
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


def subject_of(group: str, settings: Settings, wire: Wire, hosts: Hosts) -> Subject:
    """Return the group as it is described, which is stable.

    Raises:
        AgentError: It cannot be planned.
    """
    kind = GroupTypes(wire).find(group)
    if kind == _CONSUMER_TYPE:
        return _assigned_by_brokers(group, settings, wire, hosts)
    if kind != "classic":
        raise AgentError(f"group {group}: has type {kind}; only classic and consumer groups can be planned")
    view = describe(group, settings)
    if view.state == "Dead":
        raise unknown_group(group, wire)
    if view.protocol_type not in ("", CONSUMER):
        raise AgentError(
            f"group {group}: has protocol type {view.protocol_type!r}; only consumer groups can be planned"
        )
    if not view.stable:
        raise AgentError(f"group {group}: is {view.state}; it needs members and no rebalance in progress; try again")
    return Subject(
        protocol=view.protocol,
        members=members_of_view(view, settings.racks, hosts),
        view=view,
        unreadable=tuple(f"member {member.id}: {member.unreadable}" for member in view.members if member.unreadable),
    )


def _assigned_by_brokers(group: str, settings: Settings, wire: Wire, hosts: Hosts) -> Subject:
    """Return a group of the new protocol (KIP-848); wait some seconds for its members to have what they should."""
    brokers = read_metadata(wire, ()).brokers
    until = time.monotonic() + _REBALANCE_SECONDS
    while True:
        found = listed(wire, brokers, [exactly(group)])
        consumer = partial(managed, racks=settings.racks, hosts=hosts)
        descriptions = described(wire, found.groups.values(), read={"classic": _unexpected, "consumer": consumer})
        seen = next(iter(descriptions.groups), None)
        if seen is not None and seen.state == "Stable":
            break
        if time.monotonic() > until:
            reasons = "; ".join(gap.reason for gap in (*found.gaps, *descriptions.gaps))
            state = f"is {seen.state}; it needs members and no rebalance in progress; try again" if seen else reasons
            raise AgentError(f"group {group}: {state or 'no broker describes it'}")
        time.sleep(_PAUSE_SECONDS)
    try:
        offered = from_values(read_broker_configs(wire, brokers).assignors)
    except AgentError as error:
        offered = ServerAssignors(unknown=str(error))
    return Subject(protocol=seen.assignor, members=seen.members, offered=offered)


def _unexpected(raw: Any) -> ObservedGroup:
    raise AgentError(f"group {raw.group_id}: has just become a classic group; try again")
