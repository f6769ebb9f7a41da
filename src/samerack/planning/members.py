"""Builds the members that a plan is made for: subscription, rack and owned partitions of each.

Of a stable group they come from its description; of a group that joins, from the JoinGroup response.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from samerack.cluster import racks as member_racks
from samerack.cluster.group import GroupView, MemberView
from samerack.cluster.racks import NO_HOSTS, Hosts, MemberRack, client_id_of, member_rack
from samerack.cluster.view import BrokerRacks
from samerack.protocol.consumer import NO_GENERATION
from samerack.protocol.sticky import COOPERATIVE_STICKY, STICKY, claims
from samerack.protocol.values import MAX_VERSION, Subscription, TopicPartitions, no_partitions
from samerack.settings.leading import RackSettings

_REPEATED_UNTIL: Final = 1
"""The latest version of subscriptions that sarama sends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanMember:
    """A member as planning needs it.

    Attributes:
        id: Member id.
        instance_id: `group.instance.id`, or None.
        client_id: Its `client.id`.
        client_host: Its host, as its coordinator has it; empty if that is not known yet.
        topics: What it subscribes to.
        rack: Rack, its source, and whether fetches carry it.
        owned: Partitions that it owns now, claimed in `generation`.
        version: Version of its subscription; it can read an assignment of that version.
        repeats_user_data: Whether it puts the user data of its assignment into its next subscription.
    """

    id: str
    instance_id: str | None
    client_id: str = ""
    client_host: str = ""
    topics: tuple[str, ...] | frozenset[str]
    rack: MemberRack
    owned: TopicPartitions
    generation: int = NO_GENERATION
    version: int = MAX_VERSION
    repeats_user_data: bool = False


Member = TypeVar("Member", bound=PlanMember)


def placed(members: Iterable[Member], racks: BrokerRacks) -> tuple[Member, ...]:
    """Return the members with their racks among those of the brokers, see `cluster.racks.placed`."""
    return tuple(
        member if (rack := member_racks.placed(member.rack, racks)) is member.rack else replace(member, rack=rack)
        for member in members
    )


def members_of_view(group: GroupView, racks: RackSettings, hosts: Hosts = NO_HOSTS) -> tuple[PlanMember, ...]:
    """Return the members of a stable group with what the group's leader last assigned to them."""
    return tuple(
        PlanMember(
            id=member.id,
            client_id=member.client_id,
            client_host=member.client_host,
            instance_id=member.instance_id,
            topics=member.subscription.topics,
            version=member.subscription.version,
            rack=member_rack(
                racks,
                rack_id=member.subscription.rack,
                client_id=member.client_id,
                client_host=member.client_host,
                hosts=hosts,
            ),
            owned=member.assigned,
        )
        for member in group.members
        if member.subscription is not None
    )


def returned(
    joined: Collection[tuple[str, str | None, Subscription]], *, known: Container[str], evicted: Iterable[MemberView]
) -> dict[str, str]:
    """Return the former ids of members that were evicted, by the ids under which they are back.

    Args:
        joined: Member id, instance id and subscription of each member that joined.
        known: Ids of members of before; no other member is new.
        evicted: Dynamic members, which are known again by their client ids; who joins under its id of before was not.
    """
    here = {member for member, _, _ in joined}
    former: dict[str, list[str]] = {}
    for member in sorted((one for one in evicted if one.id not in here), key=lambda one: one.id, reverse=True):
        former.setdefault(member.client_id, []).append(member.id)
    new = sorted(member for member, instance, _ in joined if instance is None and member not in known)
    return {member: ids.pop() for member in new if (ids := former.get(client_id_of(member)))}


def members_of_join(  # noqa: PLR0913 - all that is known of a group while it joins
    joined: Iterable[tuple[str, str | None, Subscription]],
    *,
    group: GroupView | None,
    remembered: Mapping[str, TopicPartitions],
    cooperative: bool,
    racks: RackSettings,
    hosts: Hosts = NO_HOSTS,
    protocol: str = "",
    given: Container[bytes] = (),
) -> tuple[PlanMember, ...]:
    """Return the members that a JoinGroup response names.

    Args:
        joined: Member id, instance id and subscription of each member in the response.
        group: The latest description of the group, for client ids and hosts.
        remembered: Partitions by member id or instance id from the assignment in force; eager members own those.
        cooperative: Whether the protocol is cooperative; then members own what they claim in their subscription.
        protocol: Name of the protocol; `sticky` members send in their user data what they own, which counts as long as
            nothing is remembered (KIP-54: "the new leader has access to the most recent partition assignment").
        given: User data that members of the group were given with their assignments.
        racks: How racks are found.
        hosts: What other sources know about client hosts.
    """
    described = group.members if group is not None else ()
    seen = {member.id: member for member in described}
    static = {member.instance_id: member for member in described if member.instance_id is not None}
    members = []
    for member_id, instance_id, subscription in joined:
        known = seen.get(member_id) or static.get(instance_id or "")  # one that restarted has a new member id
        if cooperative:
            owned, generation = claims(subscription, COOPERATIVE_STICKY)
        elif protocol == STICKY and not remembered:
            owned, generation = claims(subscription, STICKY)
        else:
            owned = remembered.get(member_id) or remembered.get(instance_id or "") or no_partitions()
            generation = NO_GENERATION
        client_id = known.client_id if known is not None else client_id_of(member_id)
        members.append(
            PlanMember(
                id=member_id,
                client_id=client_id,
                client_host=known.client_host if known is not None else "",
                instance_id=instance_id,
                topics=subscription.topics,
                version=subscription.version,
                rack=member_rack(
                    racks,
                    rack_id=subscription.rack,
                    client_id=client_id,
                    client_host=known.client_host if known is not None else None,
                    hosts=hosts,
                ),
                owned=owned,
                generation=generation,
                repeats_user_data=protocol == STICKY and _repeats(subscription, given),
            )
        )
    return tuple(members)


def _repeats(subscription: Subscription, given: Container[bytes]) -> bool:
    """Return whether a `sticky` member repeats the user data that it is given, and has none of its own: sarama's.

    It sends version 0 or 1, and no user data until a leader has given it some; kafka-python and aiokafka send an empty
    text then, and they, franz-go and Java make theirs of what they own. Java 2.4 to 3.3 sends none at first as well, in
    version 1, and is given some once. One that repeats unknown data is found one generation later: without data in its
    assignment it sends none.
    """
    data = subscription.user_data
    return subscription.version <= _REPEATED_UNTIL and (data is None or data in given)
