"""The broker features that the agent needs, and what it lacks on older brokers: one table, and what follows from it.

Features are derived from the ApiVersions response, not from the name of a release.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

FLOOR: Final = "2.4"
"""The first release of Kafka that has everything required."""
TESTED: Final = ("3.9", "4.3")
"""Releases that the tests of leading groups run on."""

Ranges = Mapping[int, tuple[int, int]]
"""Lowest and highest version by API key, as a broker returns them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Feature:
    """A feature that brokers have since some release.

    Attributes:
        name: its name for users.
        api: the request's name.
        key: the API key.
        version: the lowest version of the request.
        since: the first release that has it.
        required: without it no group can be led.
        without: the consequence on older brokers.
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
        without="brokers do not check that a plan is for the protocol that the group has chosen",
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
        without="an agent that is started again within its session does not learn that it leads: it starts one "
        "rebalance to lead again",
    ),
    Feature(
        name="groups that brokers assign",
        api="ConsumerGroupDescribe",
        key=69,
        version=0,
        since="3.8",
        without="there are none, or they cannot be told from classic ones",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Versions:
    """The releases and missing features of a cluster's brokers.

    Attributes:
        releases: their releases, as inferred from ApiVersions, oldest first.
        missing: features that at least one broker lacks.
    """

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
