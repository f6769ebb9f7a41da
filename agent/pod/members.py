"""Racks of consumers' pods from the Kubernetes API, cached: unknown addresses are looked up in the background.

Planning must not wait for a network, so answers come from memory; a thread looks up the requested addresses, a bounded
number at a time. While the API is unreachable or refuses, the known racks stay in use.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Final, Literal

from samerack.agent.pod.kubernetes import Api, KubernetesError, NoSuchNodeError
from samerack.agent.pod.sources import rack_of
from samerack.cluster.racks import Hosts
from samerack.common.attempts import RetryPauses
from samerack.common.service import Service
from samerack.settings.leading import PodSettings

MAX_QUESTIONS: Final = 50
"""Addresses that are looked up in one turn; the next ones follow after a pause."""
_PAUSE_SECONDS: Final = 1.0
_UNKNOWN_SECONDS: Final = 30.0
"""An address that the API does not know is looked up again after this time: its pod may appear soon."""
_REFRESH_SECONDS: Final = 300.0
"""How long an answer counts: an address goes to another pod, or a node to another zone, rarely."""
_RETRY_SECONDS: Final = 5.0

Outcome = Literal["found", "unknown", "failed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    """The rack of an address by the API, and when to look it up again."""

    rack: str | None
    until: float


class PodRacks(Service):
    """The racks of pods by their addresses."""

    failure_event = "pod-racks-unknown"
    expected_errors = (KubernetesError,)
    may_hurry = False  # a new address makes another failure no less likely

    def __init__(
        self, settings: PodSettings, *, asked: Callable[[Outcome], None], environment: Mapping[str, str] | None = None
    ) -> None:
        """Prepare; `asked` is called with the outcome of every lookup.

        Raises:
            KubernetesError: This is no pod, and no API server is set.
        """
        super().__init__("pods", retries=RetryPauses(first=_RETRY_SECONDS, most=_REFRESH_SECONDS))
        self._settings = settings
        self._asked = asked
        self._environment = os.environ if environment is None else environment
        self._api = Api(settings, self._environment)
        self._lock = threading.Lock()
        self._wanted: dict[str, float] = {}
        self._known: dict[str, _Known] = {}
        self._nodes: dict[str, tuple[str, float]] = {}
        self._version = 0

    def rack_of(self, host: str) -> str | None:
        """Return the rack of a pod's address from memory; an unknown one is looked up soon."""
        try:
            address = str(ip_address(host))
        except ValueError:
            return None
        with self._lock:
            if address not in self._wanted:
                self.wake()
            self._wanted[address] = time.monotonic()
            known = self._known.get(address)
        return known.rack if known is not None else None

    def hosts(self) -> Hosts:
        """Return the known racks as one of the sources of members' racks."""
        return Hosts(kubernetes=self.rack_of, version=lambda: self._version)

    def turn(self) -> float:
        """Look up wanted addresses once; return how long to wait unless a new address is requested."""
        return 0.0 if self.look_up(time.monotonic()) else _RETRY_SECONDS

    def rest(self, seconds: float) -> None:
        """Wait for a new address, and a moment longer: those requested at one time are looked up together."""
        super().rest(seconds)
        self._stopping.wait(_PAUSE_SECONDS)

    def failed(self, error: Exception) -> None:  # noqa: ARG002 - all failures count the same
        """Count a failed lookup."""
        self._asked("failed")

    def look_up(self, now: float) -> int:
        """Look up the addresses that are due, and return how many are left; forget those not requested for a while.

        Raises:
            KubernetesError: No answer, or a refusal; what was known stays.
        """
        with self._lock:
            self._wanted = {host: at for host, at in self._wanted.items() if now - at < 2 * _REFRESH_SECONDS}
            self._known = {host: known for host, known in self._known.items() if host in self._wanted}
            due = [host for host in self._wanted if host not in self._known or now >= self._known[host].until]
        for host in due[:MAX_QUESTIONS]:
            rack = rack_of(self._zones(host, now), self._settings.zones)
            self._asked("unknown" if rack is None else "found")
            with self._lock:
                before = self._known.get(host)
                until = now + (_REFRESH_SECONDS if rack is not None else _UNKNOWN_SECONDS)
                self._known[host] = _Known(rack=rack, until=until)
                if (before.rack if before is not None else None) != rack:
                    self._version += 1
        return max(0, len(due) - MAX_QUESTIONS)

    def _zones(self, host: str, now: float) -> tuple[str, ...]:
        namespaces = self._settings.kubernetes_namespaces or (self._api.namespace(self._environment),)
        for namespace in namespaces:
            pod = self._api.pod_at(namespace, host)
            if pod is not None:
                zone = pod.zone or self._zone_of_node(pod.node, now)
                return (zone,) if zone else ()
        return ()

    def _zone_of_node(self, node: str, now: float) -> str:
        zone, until = self._nodes.get(node, ("", 0.0))
        if now >= until:
            try:
                zone = self._api.zone_of_node(node)
            except NoSuchNodeError:
                return ""  # just removed, and its pods will follow; the others' racks must not wait for them
            self._nodes = {name: entry for name, entry in self._nodes.items() if now < entry[1]}
            self._nodes[node] = (zone, now + _REFRESH_SECONDS)
        return zone
