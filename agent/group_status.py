"""What the agent is to a group, the latest status of every group, and the gauges that Prometheus reads from it.

A status is immutable and replaced as a whole, so that a scrape never shows half of an update.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Final

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from samerack.common import records
from samerack.traffic.metrics import gauge

OUTSIDE: Final = "outside"
STANDBY: Final = "standby"
WAITING: Final = "waiting"
"""The group has no consumers; the agent joins when the first of them joins."""
OBSERVING: Final = "observing"
FOLLOWING: Final = records.FOLLOWING
LEADING: Final = records.LEADING
FENCED: Final = "fenced"
INSIDE: Final = frozenset({FOLLOWING, LEADING})


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupStatus:
    """What is known of a group at one moment; None if a value is not known yet.

    `why` is why the agent does not lead it, in words; empty if it just waits for its turn.
    `paused` is an operator's request to start no rebalance for racks or traffic in it, in words; `returned` that the
    agent follows it since it was asked to leave, and what to do.
    `first_in_order` is whether the agent leads next if the present leader leaves; `waits` is why a rebalance that would
    save something is not made, and `waits_until` when that ends (seconds since 1970), if known. `fullest_member` is the
    load of the fullest one as a share of what it can read, while the lag guard has the group planned by that.
    """

    group: str
    state: str = "Unknown"
    protocol: str = ""
    role: str = OUTSIDE
    first_in_order: bool = False
    members: int | None = None
    members_without_rack: int | None = None
    partitions: int | None = None
    cross_rack: int | None = None
    possible_cross_rack: int | None = None
    load_above_least: float | None = None
    fullest_member: float | None = None
    budget: float | None = None
    mode: str = ""
    waits: str = ""
    waits_until: float | None = None
    breaker_open: bool | None = None
    breaker_cause: str = ""
    saved_bytes_per_second: float | None = None
    saved_dollars_per_day: float | None = None
    why: str = ""
    paused: str = ""
    returned: str = ""
    rack_sources: Mapping[str, int] = field(default_factory=dict)


class StatusBoard(Collector):
    """The latest status of every group, as gauges."""

    def __init__(self) -> None:
        self._statuses: dict[str, GroupStatus] = {}
        self._lock = Lock()

    def publish(self, status: GroupStatus) -> None:
        """Replace the status of one group."""
        with self._lock:
            self._statuses[status.group] = status

    def become(self, group: str, role: str, why: str = "") -> None:
        """Change the agent's role in a group at once, not with the next poll of the group: there may be none."""
        with self._lock:
            status = self._statuses.get(group, GroupStatus(group=group))
            if role in (STANDBY, OUTSIDE):  # another agent reports the group's state, or the next poll does
                status = GroupStatus(group=group)
            first = status.first_in_order and role in INSIDE
            if role != LEADING:
                status = replace(status, waits="", waits_until=None)
            if role != FOLLOWING:
                status = replace(status, returned="")
            self._statuses[group] = replace(status, role=role, first_in_order=first, why=why)

    def forget(self, group: str) -> None:
        """Show a group no longer."""
        with self._lock:
            self._statuses.pop(group, None)

    def all(self) -> tuple[GroupStatus, ...]:
        """Return every group's status, sorted by name."""
        with self._lock:
            return tuple(status for _, status in sorted(self._statuses.items()))

    def collect(self) -> Iterator[Metric]:
        """Yield the gauges of all groups from one snapshot."""
        statuses = self.all()
        yield _labelled("samerack_group_state", _STATE, "state", statuses)
        yield _labelled("samerack_group_role", "1 for the agent's role in the group.", "role", statuses)
        yield _labelled("samerack_group_mode", _MODE, "mode", [status for status in statuses if status.mode])
        yield from gauges(_GAUGES, "group", {status.group: status for status in statuses})
        yield _labelled("samerack_group_reason", _WHY, "why", [status for status in statuses if status.why])
        yield gauge(
            "samerack_member_racks",
            "Members by the source of their rack.",
            ["group", "source"],
            (([one.group, source], count) for one in statuses for source, count in sorted(one.rack_sources.items())),
        )


_STATE = "1 for the group's state, by Kafka's name; Unknown before the first poll."
_WHY = "1 for the reason why the agent does not lead the group, unless it only waits for its turn."
_MODE = "1 for the group's mode, act or propose."
_GAUGES = (
    ("samerack_first_in_order", "1 when the agent leads next if the current leader leaves.", "first_in_order"),
    ("samerack_members", "Members of the group other than the agent.", "members"),
    ("samerack_members_without_rack", "Members without a rack, or whose rack has no broker.", "members_without_rack"),
    ("samerack_partitions", "Partitions that the group has assigned.", "partitions"),
    ("samerack_cross_rack_partitions", "Partitions that members read from another rack.", "cross_rack"),
    (
        "samerack_possible_cross_rack_partitions",
        "Cross-rack partitions after a rebalance led by the agent.",
        "possible_cross_rack",
    ),
    (
        "samerack_load_above_least",
        "How far the most loaded member is above the least possible, as a share of that; where loads are balanced.",
        "load_above_least",
    ),
    ("samerack_budget_rebalances", "Rebalances that the agent may trigger now.", "budget"),
    ("samerack_breaker_open", "1 while the breaker stops the agent from triggering rebalances.", "breaker_open"),
    (
        "samerack_possible_saving_bytes_per_second",
        "Bytes per second that a rebalance led by the agent would save.",
        "saved_bytes_per_second",
    ),
    (
        "samerack_possible_saving_dollars_per_day",
        "Dollars per day that such a rebalance would save.",
        "saved_dollars_per_day",
    ),
)


def gauges(rows: Iterable[tuple[str, str, str]], label: str, statuses: Mapping[str, object]) -> Iterator[Metric]:
    """Yield a gauge for each row (name, help text, attribute), with the attribute of each status that knows it."""
    for name, text, attribute in rows:
        yield gauge(name, text, [label], (([key], getattr(status, attribute)) for key, status in statuses.items()))


def _labelled(name: str, text: str, label: str, statuses: Iterable[GroupStatus]) -> Metric:
    return gauge(
        name, text, ["group", label], (([status.group, str(getattr(status, label))], 1) for status in statuses)
    )
