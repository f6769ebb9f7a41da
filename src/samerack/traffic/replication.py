"""Measures what replication carries between racks and what producers send, in the whole cluster.

An agent does it that observes every group, and is elected to: it alone has the consumers' part of the bill in full. The
bytes are those of the logs, as producers compressed them, without the requests and responses that carry them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from samerack.cluster.wire import Wire
from samerack.common.patterns import EVERY, included
from samerack.election.leadership_state import LeadershipState, Tenure
from samerack.settings.measuring import TrafficSettings
from samerack.traffic import cluster_logs
from samerack.traffic.broker_poller import CycleState
from samerack.traffic.log_growth import NOTHING, Copied, Logs, Reals, Replication, copied, first_growth, growth
from samerack.traffic.snapshot import Gap

_STEPS: Final = 2
"""A window has so many polls of all logs: they cost the brokers more than a poll of the groups' logs."""
_WAITING: Final = "it takes two polls of all logs"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Polled:
    """The last poll of all logs: its monotonic time, the tenure in which it counts, and what is known."""

    at: float
    tenure: Tenure
    logs: Logs
    density: Reals


@dataclass(frozen=True, slots=True, kw_only=True)
class _Step:
    """What was copied between two polls."""

    begin: float
    end: float
    copied: Copied


class ReplicationMeter:
    """Polls all logs and adds up what was copied, which is `found`; one thread drives it."""

    def __init__(
        self, settings: TrafficSettings, *, wire: Wire, rack_of: Callable[[int], str], leadership: LeadershipState
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
        polled, self.gaps = cluster_logs.poll(self._wire, state.cluster.brokers.keys(), state.curves, state.logs)
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
        last = self._last
        if last is None:
            grown = first_growth(polled)
        else:
            grown = growth(last.logs, last.density, polled)
            if not len(grown.appended) or not np.isnan(grown.appended).all():
                step = _Step(begin=last.at, end=now, copied=copied(polled, grown.appended, self._rack_of))
                self._steps.append(step)
                self._totals += step.copied
        self._last = _Polled(at=now, tenure=tenure, logs=polled, density=grown.density)

    def _found(self) -> Replication:
        if not self._steps or self._last is None:
            why = next((f"{gap.what} {gap.where}: {gap.reason}" for gap in self.gaps), _WAITING)
            return Replication(unknown=why, totals=self._totals)
        logs = self._last.logs
        return Replication(
            seconds=sum(step.end - step.begin for step in self._steps),
            copied=sum((step.copied for step in self._steps), NOTHING),
            totals=self._totals,
            partitions=len(logs.size),
            unknown_partitions=logs.unknown_partitions,
        )
