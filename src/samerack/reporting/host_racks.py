"""Racks of a group's client hosts that only a running agent knows, as values that `samerack plan` reads as JSON.

They come from other agents or the Kubernetes API.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from samerack.cluster.racks import Hosts, MemberRack
from samerack.common.records import JsonAnswer


@dataclass(frozen=True, slots=True, kw_only=True)
class HostRacks:
    """Racks by address, from agents that run next to members and from the Kubernetes API."""

    bootstrap: str
    agents: Mapping[str, str] = field(default_factory=dict)
    kubernetes: Mapping[str, str] = field(default_factory=dict)

    def hosts(self) -> Hosts:
        """Return these racks as a source of members' racks."""
        return Hosts(agents=self.agents.get, kubernetes=self.kubernetes.get)


def host_racks(bootstrap: str, members: Iterable[tuple[str, MemberRack]]) -> HostRacks:
    """Return the racks of these members (address and rack) that came from other agents or the Kubernetes API."""
    by_source: dict[str, dict[str, str]] = {"agent": {}, "kubernetes": {}}
    for host, rack in members:
        if rack.named is not None and rack.source in by_source:
            by_source[rack.source][host] = rack.named
    return HostRacks(bootstrap=bootstrap, agents=by_source["agent"], kubernetes=by_source["kubernetes"])


_JSON: Final = JsonAnswer(HostRacks, "has no racks")
to_json, from_json = _JSON.to_json, _JSON.from_json
"""The JSON of `GET /v1/racks`."""
