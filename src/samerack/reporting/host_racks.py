"""Racks of a group's client hosts that only a running agent knows, as values that `samerack plan` reads as JSON.

They come from other agents or the Kubernetes API.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from pydantic import TypeAdapter

from samerack.cluster.racks import Hosts, MemberRack
from samerack.common.answers import read


@dataclass(frozen=True, slots=True, kw_only=True)
class HostRacks:
    """Racks by address.

    Attributes:
        bootstrap: `bootstrap.servers` of the agent.
        agents: racks from agents that run next to members.
        kubernetes: racks from the Kubernetes API.
    """

    bootstrap: str
    agents: Mapping[str, str] = field(default_factory=dict)
    kubernetes: Mapping[str, str] = field(default_factory=dict)

    def hosts(self) -> Hosts:
        """Returns these racks as a source of members' racks."""
        return Hosts(agents=self.agents.get, kubernetes=self.kubernetes.get)


def host_racks(bootstrap: str, members: Iterable[tuple[str, MemberRack]]) -> HostRacks:
    """Returns the racks of these members (address and rack) that came from other agents or the Kubernetes API."""
    by_source: dict[str, dict[str, str]] = {"agent": {}, "kubernetes": {}}
    for host, rack in members:
        if rack.rack is not None and rack.source in by_source:
            by_source[rack.source][host] = rack.rack
    return HostRacks(bootstrap=bootstrap, agents=by_source["agent"], kubernetes=by_source["kubernetes"])


_JSON: Final = TypeAdapter(HostRacks)


def to_json(racks: HostRacks) -> bytes:
    """Returns the JSON of `GET /v1/racks`."""
    return _JSON.dump_json(racks)


def from_json(text: bytes | str) -> HostRacks:
    """Returns the racks in such a JSON text.

    Raises:
        AgentError: The text contains none.
    """
    return read(_JSON, text, "has no racks")
