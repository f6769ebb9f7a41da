"""Finds members' racks: RackId (KIP-881), an agent next to the member, its tags, client id and address, Kubernetes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import Final, Literal, NamedTuple
from urllib.parse import unquote

from samerack.cluster.view import BrokerRacks
from samerack.common.patterns import first_match, fits
from samerack.settings.leading import RackSettings

Source = Literal[
    "subscription", "agent", "client-tag", "client-id", "client-convention", "network", "kubernetes", "none"
]
_GENERATED_SUFFIX: Final = re.compile(r"-[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$")
_STREAM_THREAD: Final = re.compile(r"-StreamThread-\d+.*$")
_BETWEEN_PAIRS: Final = re.compile(r"[,;&|\s]")


_RACK_ONLY_IN_FETCH: Final = ("kafka-python-[3-9].*", "aiokafka-[0-9].*", "sarama", "kafkajs")
"""The default client ids of clients that send their rack to brokers with fetches, and none to their group."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberRack:
    """A member's rack, its source, and whether the member's fetches contain it.

    `foreign` is what the source says where that is no broker's rack; then the member's rack is not known.
    """

    rack: str | None
    source: Source
    fetches_with_rack: bool
    foreign: str | None = None

    @property
    def named(self) -> str | None:
        """What the source says, whether a broker has it or not."""
        return self.foreign if self.rack is None else self.rack


RackOfHost = Callable[[str], str | None]
"""Returns the rack of a client host's address, from memory."""


def _unknown(_: str) -> str | None:
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Hosts:
    """What other agents, which report the racks of their own hosts, and the Kubernetes API know of client hosts.

    `version` returns an equal value as long as the results of both are equal.
    """

    agents: RackOfHost = _unknown
    kubernetes: RackOfHost = _unknown
    version: Callable[[], object] = lambda: None


NO_HOSTS: Final = Hosts()
"""No racks of hosts are known."""


def client_id_of(member_id: str) -> str:
    """Return the client id in a member id made by a broker (`CLIENT_ID-UUID`); for a static member the instance id."""
    return _GENERATED_SUFFIX.sub("", member_id)


def sends_rack_only_in_fetch(client_id: str) -> bool:
    """Return whether a client id is the default one of a client that sends its rack with fetches only."""
    return any(fits(pattern, client_id) for pattern in _RACK_ONLY_IN_FETCH)


class _Lookup(NamedTuple):
    """What is known of a member whose rack is looked up; see `member_rack`."""

    settings: RackSettings
    rack_id: str | None
    client_id: str
    client_host: str | None
    tags: Iterable[tuple[str, str]]
    hosts: Hosts


def _by_client_tag(member: _Lookup) -> str | None:
    tags = dict(member.tags)
    return next((tags[name] for name in member.settings.client_tags if tags.get(name)), None)


@lru_cache(maxsize=4096)
def _zone_in(client_id: str, keys: tuple[str, ...]) -> str | None:
    """Return the zone of the first `KEY=ZONE` in a client id with such a key; Streams appends its thread's name."""
    pairs = (part.partition("=") for part in _BETWEEN_PAIRS.split(_STREAM_THREAD.sub("", client_id)))
    return next((unquote(zone) for key, _, zone in pairs if zone and key in keys), None)


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


SOURCES: Final[Mapping[Source, Callable[[_Lookup], str | None]]] = {
    "subscription": lambda member: member.rack_id or None,
    "agent": lambda member: (member.hosts.agents(member.client_host) or None) if member.client_host else None,
    "client-tag": _by_client_tag,
    "client-id": lambda member: first_match(member.settings.client_ids, member.client_id),
    "client-convention": lambda member: _zone_in(member.client_id, member.settings.client_conventions),
    "network": lambda member: (
        _by_network(member.client_host, tuple(member.settings.networks.items())) if member.client_host else None
    ),
    "kubernetes": lambda member: (member.hosts.kubernetes(member.client_host) or None) if member.client_host else None,
}
"""The sources in the order in which they are asked, each with the function that returns a member's rack if it knows it;
`none` is not one."""


def member_rack(  # noqa: PLR0913 - all that is known of a member
    settings: RackSettings,
    *,
    rack_id: str | None,
    client_id: str,
    client_host: str | None,
    tags: Iterable[tuple[str, str]] = (),
    hosts: Hosts = NO_HOSTS,
) -> MemberRack:
    """Return the rack of one member from the first source that knows it; `placed` says whether it counts.

    `rack_id` is the `RackId` that the member sends, `tags` are a Kafka Streams client's.
    """
    member = _Lookup(settings, rack_id, client_id, client_host, tags, hosts)
    for source, find in SOURCES.items():
        rack = find(member)
        if rack is not None:
            fetches = source == "subscription" or any(fits(one, client_id) for one in settings.fetch_with_rack)
            return _known(rack, source, fetches=fetches)
    return _known(None, "none", fetches=False)


def placed(member: MemberRack, racks: BrokerRacks) -> MemberRack:
    """Return the rack among those of the brokers: where none has it, it is not known, whatever source says it.

    A reader there may be anywhere: its name may be misspelt. As long as brokers' racks are not all known, any may be
    one's. What a client appends to a client id with a zone (Spring: `-0`) is cut off if the rest is a broker's rack.
    """
    named = rack = member.named
    if named is not None and named not in racks.names:
        rack = _beginning(named, racks.names) if member.source == "client-convention" else None
        if rack is None and not racks.complete:
            rack = named
    if rack == member.rack:
        return member
    return _known(rack, member.source, fetches=member.fetches_with_rack, foreign=named if rack is None else None)


def _beginning(zone: str, racks: AbstractSet[str]) -> str | None:
    """Return the longest beginning of a zone, up to a hyphen, that is a broker's rack."""
    parts = zone.split("-")
    return next((rack for end in range(len(parts) - 1, 0, -1) if (rack := "-".join(parts[:end])) in racks), None)


@lru_cache(maxsize=1024)
def _known(rack: str | None, source: Source, *, fetches: bool, foreign: str | None = None) -> MemberRack:
    """Return the value for these fields: a group has many members and few racks."""
    return MemberRack(rack=rack, source=source, fetches_with_rack=fetches, foreign=foreign)
