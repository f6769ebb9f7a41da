"""Finds racks of Kafka Streams clients that set no `client.rack`, from the sources that members' racks come from."""

from __future__ import annotations

from collections.abc import Callable

from samerack.agent.streams.choice import Rackless
from samerack.cluster.racks import Hosts, client_id_of, member_rack
from samerack.common.settings import RackSettings
from samerack.traffic.model import GroupTraffic


def client_racks(
    settings: RackSettings, *, group: Callable[[str], GroupTraffic | None], hosts: Hosts
) -> Callable[[str, Rackless], str | None]:
    """Returns a function from an application and one of its clients to the client's rack, or None.

    Args:
        settings: the configured maps.
        group: the members of an observed group, with the addresses of their hosts.
        hosts: what agents and Kubernetes know of hosts.
    """

    def find(application: str, client: Rackless) -> str | None:
        found = group(application)
        consumers = set(client.consumers)
        members = [one for one in found.members if one.id in consumers or one.client_id in consumers] if found else []
        racks = {one.rack.rack for one in members if one.rack.rack}
        if not racks:
            consumer = client.consumers[0] if client.consumers else ""
            return member_rack(
                settings,
                subscription=None,
                client_id=client_id_of(consumer),
                client_host=members[0].client_host if members else client.host,
                tags=client.tags,
                hosts=hosts,
            ).rack
        return racks.pop() if len(racks) == 1 else None  # consumers of one process in several racks: not known

    return find
