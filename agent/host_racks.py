"""Racks of a group's client hosts that only a running agent knows, as values that travel as JSON to `samerack plan`.

Other agents tell them, or the Kubernetes API does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from pydantic import TypeAdapter

from agent.answers import read
from agent.racks import Hosts, MemberRack


@dataclass(frozen=True, slots=True, kw_only=True)
class HostRacks:
    """Racks by address.

    Attributes:
        bootstrap: `bootstrap.servers` of the agent.
        agents: as agents beside the members tell.
        kubernetes: as the Kubernetes API says.
    """

    bootstrap: str
    agents: Mapping[str, str] = field(default_factory=dict)
    kubernetes: Mapping[str, str] = field(default_factory=dict)

    def hosts(self) -> Hosts:
        """As a source of members' racks."""
        return Hosts(agents=self.agents.get, kubernetes=self.kubernetes.get)


def host_racks(bootstrap: str, members: Iterable[tuple[str, MemberRack]]) -> HostRacks:
    """Of members with these addresses and racks, what others said."""
    by_source: dict[str, dict[str, str]] = {"agent": {}, "kubernetes": {}}
    for host, rack in members:
        if rack.rack is not None and rack.source in by_source:
            by_source[rack.source][host] = rack.rack
    return HostRacks(bootstrap=bootstrap, agents=by_source["agent"], kubernetes=by_source["kubernetes"])


_JSON: Final = TypeAdapter(HostRacks)


def to_json(racks: HostRacks) -> bytes:
    """As `GET /v1/racks` answers."""
    return _JSON.dump_json(racks)


def from_json(text: bytes | str) -> HostRacks:
    """The racks of such a text.

    Raises:
        AgentError: It has none.
    """
    return read(_JSON, text, "tells no racks")
