"""Finds members' racks: RackId (KIP-881), an agent next to the member, its tags, the configured maps, then Kubernetes.

Also warns of racks that can never match: names that differ only in case, or members and brokers without a common one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import Final, Literal

from samerack.common.settings import RackSettings
from samerack.protocol.model import Subscription

Source = Literal["subscription", "agent", "client-tag", "client-id", "network", "kubernetes", "none"]
_GENERATED_SUFFIX: Final = re.compile(r"-[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$")


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberRack:
    """A member's rack, its source, and whether the member's fetches contain it."""

    rack: str | None
    source: Source
    fetches_with_rack: bool


RackOfHost = Callable[[str], str | None]
"""Returns the rack of a client host's address, from memory."""


def _unknown(_: str) -> str | None:
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Hosts:
    """What other sources know about client hosts.

    Attributes:
        agents: racks that agents next to members report for their own hosts.
        kubernetes: racks of pods from the Kubernetes API.
        version: returns an equal value as long as the results of both are equal.
    """

    agents: RackOfHost = _unknown
    kubernetes: RackOfHost = _unknown
    version: Callable[[], object] = lambda: None


NO_HOSTS: Final = Hosts()
"""No racks of hosts are known."""


def client_id_of(member_id: str) -> str:
    """Returns the client id in a member id made by a broker (`CLIENT_ID-UUID`); for a static member the instance id."""
    return _GENERATED_SUFFIX.sub("", member_id)


def member_rack(  # noqa: PLR0913 - all that is known of a member
    settings: RackSettings,
    *,
    subscription: Subscription | None,
    client_id: str,
    client_host: str | None,
    tags: Iterable[tuple[str, str]] = (),
    hosts: Hosts = NO_HOSTS,
) -> MemberRack:
    """Returns the rack of one member from the first source that knows it; `tags` are a Kafka Streams client's."""
    if subscription is not None and subscription.rack:
        return MemberRack(rack=subscription.rack, source="subscription", fetches_with_rack=True)
    fetches = any(fnmatchcase(client_id, pattern) for pattern in settings.fetch_with_rack)
    if client_host and (reported := hosts.agents(client_host)):
        return MemberRack(rack=reported, source="agent", fetches_with_rack=fetches)
    tagged = dict(tags)
    for name in settings.client_tags:
        if tagged.get(name):
            return MemberRack(rack=tagged[name], source="client-tag", fetches_with_rack=fetches)
    for pattern, rack in settings.client_ids.items():
        if fnmatchcase(client_id, pattern):
            return MemberRack(rack=rack, source="client-id", fetches_with_rack=fetches)
    if client_host:
        rack_of_host = _by_network(client_host, tuple(settings.networks.items()))
        if rack_of_host is not None:
            return MemberRack(rack=rack_of_host, source="network", fetches_with_rack=fetches)
        if found := hosts.kubernetes(client_host):
            return MemberRack(rack=found, source="kubernetes", fetches_with_rack=fetches)
    return MemberRack(rack=None, source="none", fetches_with_rack=False)


@lru_cache(maxsize=4096)
def _by_network(host: str, networks: tuple[tuple[str, str], ...]) -> str | None:
    try:
        address = ip_address(host)
    except ValueError:
        return None
    holding: list[tuple[IPv4Network | IPv6Network, str]] = [
        (network, rack) for text, rack in networks if address in (network := ip_network(text))
    ]
    return max(holding, key=lambda entry: entry[0].prefixlen)[1] if holding else None


def rack_warnings(member_racks: Iterable[str], broker_racks: Iterable[str]) -> tuple[str, ...]:
    """Returns warnings about two sets of rack names; empty if they match or one of them is empty."""
    members, brokers = set(member_racks), set(broker_racks)
    warnings = []
    folded: dict[str, str] = {rack.casefold(): rack for rack in sorted(brokers)}
    for rack in sorted(members - brokers):
        twin = folded.get(rack.casefold())
        if twin is not None:
            warnings.append(f"member rack {rack!r} and broker rack {twin!r} differ only in case: they never match")
    if members and brokers and not members & brokers and not warnings:
        warnings.append(f"no member rack ({_some(members)}) is a broker rack ({_some(brokers)}): nothing can be near")
    return tuple(warnings)


def _some(racks: set[str], most: int = 5) -> str:
    shown = sorted(racks)[:most]
    return ", ".join(shown) + (", ..." if len(racks) > most else "")
