"""Measures what replication carries between racks and what producers send, in the whole cluster.

An agent does it that observes every group, and is elected to: it alone has the consumers' part of the bill in full. The
bytes are those of the logs, as producers compressed them, without the requests and responses that carry them.

The logs of all topics count, internal ones included. What the cycle has just polled for groups is taken over; only the
rest is requested, some thousand partitions at a time, so that neither a request nor what is in memory grows with the
cluster.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from samerack.cluster.metadata import Placements, all_placements
from samerack.cluster.wire import BrokerClient
from samerack.common.errors import AgentError
from samerack.common.patterns import EVERY, included
from samerack.election.leadership_state import LeadershipState, Tenure
from samerack.settings.measuring import TrafficSettings
from samerack.traffic import collect
from samerack.traffic.broker_poller import CycleState
from samerack.traffic.collect import Offsets, Partition
from samerack.traffic.curve import Curve
from samerack.traffic.gaps import failed
from samerack.traffic.log_growth import (
    NOTHING,
    UNKNOWN,
    Copied,
    Logs,
    Reals,
    Replication,
    carried,
    copied,
    first_growth,
    growth,
    rows_before,
)
from samerack.traffic.snapshot import Family, Gap

if TYPE_CHECKING:
    import numpy.typing as npt

_AT_ONCE: Final = 20_000
"""Partitions in turn: what their responses take in memory."""


def poll_all_logs(
    wire: BrokerClient, brokers: Collection[int], curves: Mapping[Partition, Curve], logs: Mapping[Partition, Offsets]
) -> tuple[Logs | None, list[Gap]]:
    """Poll size and offsets of every partition's leader.

    `curves` and `logs` are partitions that were polled for groups, and their offsets at the last poll: a curve that
    does not end there is from an earlier one. Return the logs, None if the topics could not be listed, and gaps.

    Raises:
        AgentError: No broker can be reached any more.
    """
    try:
        placed = all_placements(wire)
    except AgentError as error:
        return None, [failed(Family.METADATA, "all topics", error)]
    size, start, end = np.full((3, len(placed.placement)), UNKNOWN, dtype=np.int64)
    for (topic, number), curve in curves.items():
        offsets, rows = logs.get((topic, number)), placed.rows.get(topic, range(0))
        extent = curve.extent
        if offsets is not None and offsets.end == extent.end and number < len(rows):
            row = rows[number]
            size[row], start[row], end[row] = extent.size_bytes, extent.start, extent.end
    gaps: list[Gap] = []
    for led in _chunks(placed, brokers, size < 0):
        sizes, missing = collect.log_sizes(wire, led, collect.plain_key)
        gaps += missing
        polled, missing = collect.offsets(wire, led, collect.plain_key)
        gaps += missing
        for partition, offsets in polled.items():
            row = placed.rows[partition[0]][partition[1]]
            size[row], start[row], end[row] = sizes.get(partition, UNKNOWN), offsets.start, offsets.end
    return Logs(placed=placed, size=size, start=start, end=end), gaps


def _chunks(
    placed: Placements, brokers: Collection[int], unpolled: npt.NDArray[np.bool_]
) -> Iterator[dict[int, list[Partition]]]:
    """Yield the missing partitions that have a leader by leader, some at a time."""
    led: dict[int, list[Partition]] = {}
    count = 0
    leaders = [replicas[0] for replicas in placed.brokers]
    for topic, rows in placed.rows.items():
        for number, row in enumerate(rows):
            leader = leaders[placed.placement[row]]
            if unpolled[row] and leader in brokers:
                led.setdefault(leader, []).append((topic, number))
                count += 1
        if count >= _AT_ONCE:
            yield led
            led, count = {}, 0
    if led:
        yield led


_STEPS: Final = 2
"""A window has this number of polls of all logs: they cost the brokers more than a poll of the groups' logs."""
_WAITING: Final = "it takes two polls of all logs"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Polled:
    """The last poll of all logs.

    Attributes:
        at: Its monotonic time.
        since: When the next step begins: the time of the last poll that knew something.
        tenure: In which it counts.
        logs: What is known, some of it from earlier polls.
        density: The usual bytes per offset, by row.
        unknown_at: When a step was last without the growth, by row.
    """

    at: float
    since: float
    tenure: Tenure
    logs: Logs
    density: Reals
    unknown_at: Reals


@dataclass(frozen=True, slots=True, kw_only=True)
class _Step:
    """What was copied between two polls."""

    begin: float
    end: float
    copied: Copied


class ReplicationMeter:
    """Polls all logs and adds up what was copied, which is `found`; one thread drives it."""

    def __init__(
        self,
        settings: TrafficSettings,
        *,
        wire: BrokerClient,
        rack_of: Callable[[int], str],
        leadership: LeadershipState,
    ) -> None:
        """Prepare; `rack_of` returns the rack of a broker, "" where unknown."""
        self._settings = settings
        self._wire = wire
        self._rack_of = rack_of
        self._leadership = leadership
        self.found = Replication(unknown=_WAITING)
        self.gaps: list[Gap] = []
        # the poll that is nearest to the time, as polls do not come at exact times
        self._pause = settings.window_seconds / _STEPS - min(settings.poll_seconds, settings.window_seconds) / 2
        self._last: _Polled | None = None
        self._steps: deque[_Step] = deque(maxlen=_STEPS)
        self._totals = NOTHING

    def poll(self, state: CycleState, *, now: float) -> None:
        """Poll if it is time to (monotonic), and if this agent is to; while an election is in doubt the poll waits.

        `state` has the brokers that are there, and the logs that were just polled for groups.

        Raises:
            AgentError: No broker can be reached at all.
        """
        before = self._leadership.sure_tenures()
        if before is None:
            return
        tenure = before.of_pattern(EVERY)
        why = self._why_not(tenure)
        if tenure is None or why:
            self._forget()
            self.found = Replication(unknown=why, totals=self._totals)
            return
        if self._last is not None and self._last.tenure != tenure:  # another agent may have measured in between
            self._forget()
        if self._last is not None and now - self._last.at < self._pause:
            return
        polled, self.gaps = poll_all_logs(self._wire, state.cluster.brokers.keys(), state.curves, state.logs)
        after = self._leadership.sure_tenures()
        if polled is not None and after is not None and after.of_pattern(EVERY) == tenure:
            self._add(polled, tenure, now)
        while self._steps and self._steps[0].end < now - self._settings.window_seconds:
            self._steps.popleft()
        self.found = self._found()

    def _why_not(self, tenure: Tenure | None) -> str:
        if not self._settings.replication:
            return "traffic.replication is false"
        if EVERY not in included(self._settings.groups):
            return "it is measured where traffic.groups contain '*'"
        return "another agent of the election measures it" if tenure is None else ""

    def _forget(self) -> None:
        self._last, self.gaps = None, []
        self._steps.clear()

    def _add(self, polled: Logs, tenure: Tenure, now: float) -> None:
        last, since = self._last, now
        unknown_at = np.full(len(polled.size), -np.inf)
        if last is None:
            grown = first_growth(polled)
        else:
            grown = growth(last.logs, last.density, polled)
            unknown, old = np.isnan(grown.appended), rows_before(last.logs, polled)
            unknown_at[old >= 0] = last.unknown_at[old[old >= 0]]
            if len(unknown) and unknown.all():
                since = last.since
            else:
                unknown_at[unknown] = now
                step = _Step(begin=last.since, end=now, copied=copied(polled, grown.appended, self._rack_of))
                self._steps.append(step)
                self._totals += step.copied
            polled = carried(last.logs, polled)
        self._last = _Polled(
            at=now, since=since, tenure=tenure, logs=polled, density=grown.density, unknown_at=unknown_at
        )

    def _found(self) -> Replication:
        if not self._steps or self._last is None:
            why = next((f"{gap.what} {gap.where}: {gap.reason}" for gap in self.gaps), _WAITING)
            return Replication(unknown=why, totals=self._totals)
        last, logs = self._last, self._last.logs
        unknown = (last.unknown_at > self._steps[0].begin) | (last.since < last.at)
        return Replication(
            seconds=sum(step.end - step.begin for step in self._steps),
            copied=sum((step.copied for step in self._steps), NOTHING),
            totals=self._totals,
            partitions=len(logs.size),
            unknown_partitions=int((unknown & (logs.leaders(slice(None)) != UNKNOWN)).sum()),
        )
