"""Finds racks of Kafka Streams clients that set no `client.rack`, from the sources that members' racks come from."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain

from samerack.agent.streams.context import Rackless
from samerack.cluster.racks import Hosts, client_id_of, member_rack, placed
from samerack.cluster.view import BrokerRacks
from samerack.settings.leading import RackSettings
from samerack.traffic.snapshot import GroupTraffic, ObservedMember


def client_racks(
    settings: RackSettings,
    *,
    group: Callable[[str], GroupTraffic | None],
    hosts: Hosts,
    brokers: Callable[[], BrokerRacks],
) -> Callable[[str, Sequence[Rackless]], Mapping[str, str]]:
    """Return a function from an application and clients of it to the racks, by process, that are known.

    `group` returns an observed group, whose members have the addresses of their hosts; `brokers` the brokers' racks.
    """

    def find(application: str, clients: Sequence[Rackless]) -> Mapping[str, str]:
        found = group(application)
        members = _by_id(found.members if found else ())
        racks = {client.process: rack(client, members) for client in clients}
        return {process: one for process, one in racks.items() if one is not None}

    def rack(client: Rackless, every: Mapping[str, Sequence[ObservedMember]]) -> str | None:
        members = list(chain.from_iterable(every.get(consumer, ()) for consumer in client.consumers))
        racks = {one.rack.rack for one in members if one.rack.rack}
        if not racks:
            consumer = client.consumers[0] if client.consumers else ""
            found = member_rack(
                settings,
                rack_id=None,
                client_id=client_id_of(consumer),
                client_host=members[0].client_host if members else client.host,
                tags=client.tags,
                hosts=hosts,
            )
            return placed(found, brokers()).rack
        return racks.pop() if len(racks) == 1 else None  # consumers of one process in several racks: not known

    return find


def _by_id(members: Iterable[ObservedMember]) -> Mapping[str, Sequence[ObservedMember]]:
    """Return the members by their ids and client ids, either of which a client may call its consumers."""
    found: defaultdict[str, list[ObservedMember]] = defaultdict(list)
    for member in members:
        for name in {member.id, member.client_id}:
            found[name].append(member)
    return found
