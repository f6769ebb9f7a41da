"""The broker features that the agent needs, and what it lacks on older brokers: one table, and what follows from it.

Features are derived from the ApiVersions response, not from the name of a release. `cluster.watch` asks every broker
now and then; the result is logged when it changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import structlog
from kafka.protocol.broker_version_data import infer_broker_version_from_api_versions
from kafka.protocol.metadata import ApiVersionsRequest

from samerack.cluster.metadata import REQUEST_SECONDS
from samerack.cluster.wire import BrokerClient, BrokerRequest
from samerack.common.errors import one_line

log = structlog.get_logger("versions")

FLOOR: Final = "2.4"
"""The first release of Kafka that has everything required."""
TESTED: Final = ("3.9", "4.3")
"""Releases that the tests of leading groups run on."""

Ranges = Mapping[int, tuple[int, int]]
"""Lowest and highest version by API key, as a broker returns them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Feature:
    """A feature that brokers have since some release, from a lowest version of the request with this key on.

    Without a required one no group can be led; `without` is the consequence on older brokers.
    """

    name: str
    api: str
    key: int
    version: int
    since: str
    required: bool = False
    without: str = "the agent leads no group"

    def is_in(self, ranges: Ranges) -> bool:
        """Return whether a broker with these versions has the feature."""
        return self.key in ranges and ranges[self.key][1] >= self.version


FEATURES: Final = (
    Feature(name="static members", api="JoinGroup", key=11, version=5, since="2.3", required=True),
    Feature(name="leaving by member id", api="LeaveGroup", key=13, version=3, since="2.4", required=True),
    Feature(name="instance ids of members", api="DescribeGroups", key=15, version=4, since="2.4", required=True),
    Feature(name="configuration of brokers", api="DescribeConfigs", key=32, version=0, since="0.11", required=True),
    Feature(
        name="the chosen protocol in SyncGroup",
        api="SyncGroup",
        key=14,
        version=5,
        since="2.5",
        without="brokers do not check that a plan is for the group's chosen protocol",
    ),
    Feature(
        name="measuring what is read",
        api="OffsetFetch",
        key=9,
        version=8,
        since="3.0",
        without="what groups read and their lag are not known",
    ),
    Feature(
        name="reasons for joining",
        api="JoinGroup",
        key=11,
        version=8,
        since="3.2",
        without="the brokers' logs do not say why the agent has joined",
    ),
    Feature(
        name="a restarted leader still leads",
        api="JoinGroup",
        key=11,
        version=9,
        since="3.2",
        without="an agent that restarts within its session does not learn that it leads: it triggers one rebalance to "
        "lead again",
    ),
    Feature(
        name="groups that brokers assign",
        api="ConsumerGroupDescribe",
        key=69,
        version=0,
        since="3.8",
        without="none exist, or they cannot be told from classic ones",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Versions:
    """The releases of a cluster's brokers, oldest first, and the features that at least one of them lacks."""

    releases: tuple[str, ...]
    missing: tuple[Feature, ...]

    @property
    def unsupported_reason(self) -> str:
        """Why no group can be led on them; empty if groups can be led."""
        lacking = [f"{one.name} ({one.api} v{one.version})" for one in self.missing if one.required]
        if not lacking:
            return ""
        oldest = self.releases[0] if self.releases else "unknown"
        return f"the oldest broker is Kafka {oldest}, without {', '.join(lacking)}; leading needs Kafka {FLOOR}"


def versions_of(answers: Sequence[tuple[str, Ranges]]) -> Versions:
    """Return the releases of all brokers and the features that not all of them have, from each one's answer."""
    releases = sorted({release for release, _ in answers}, key=_number)
    missing = tuple(one for one in FEATURES if not all(one.is_in(ranges) for _, ranges in answers))
    return Versions(releases=tuple(releases), missing=missing)


def _number(release: str) -> tuple[int, ...]:
    return tuple(int(part) for part in release.split("."))


class BrokerVersions:
    """The brokers' versions as they last answered; any thread may read them."""

    def __init__(self) -> None:
        self.found: Versions | None = None

    def unsupported_reason(self) -> str:
        """Return why no group can be led; empty if groups can be led, or nothing is known."""
        return self.found.unsupported_reason if self.found is not None else ""

    def summary(self) -> dict[str, Any]:
        """Return the versions for `/v1/status`; release are empty while nothing is known."""
        found = self.found or Versions(releases=(), missing=())
        return {
            "releases": list(found.releases),
            "least": FLOOR,
            "tested": list(TESTED),
            "missing": [
                {"feature": one.name, "since": one.since, "required": one.required, "without": one.without}
                for one in found.missing
            ],
            "unsupported": found.unsupported_reason,
        }

    def ask(self, wire: BrokerClient, brokers: Iterable[int]) -> bool:
        """Ask these brokers; return whether all have answered. What was known stays if one does not.

        Raises:
            RefusedError: TLS or SASL failed.
            AgentError: No broker can be reached at all.
        """
        ranges: list[Ranges] = []
        for answer in wire.ask([versions_question(broker) for broker in sorted(brokers)], REQUEST_SECONDS):
            if answer.error is not None:
                log.debug("versions-unknown", broker=answer.question.broker, error=one_line(answer.error))
                return False
            ranges.append(
                {api_key.api_key: (api_key.min_version, api_key.max_version) for api_key in answer.response.api_keys}
            )
        found = versions_of([(release_of(one), one) for one in ranges])
        if found != self.found:
            self.found = found
            _tell(found)
        return True


def versions_question(broker: int) -> BrokerRequest:
    """Return the question for the versions of each API that a broker has."""
    request = ApiVersionsRequest(client_software_name="samerack", client_software_version="0")
    return BrokerRequest(broker=broker, request=request)


def release_of(ranges: Ranges) -> str:
    """Return the release of a broker with these versions, as `4.1`: the newest that is known here, if it is newer."""
    return ".".join(map(str, infer_broker_version_from_api_versions(dict(ranges))))


def _tell(found: Versions) -> None:
    log.info(
        "broker-versions",
        releases=list(found.releases),
        supported=f"from Kafka {FLOOR}; tested: {', '.join(TESTED)}",
        has=[one.name for one in FEATURES if one not in found.missing],
        without={one.name: one.without for one in found.missing},
    )
    if found.unsupported_reason:
        log.error("brokers-too-old", reason=found.unsupported_reason)
