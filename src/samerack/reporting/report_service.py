"""Computes report and verdict once per snapshot, for the page, the HTTP API and the metrics; and a group's history.

Any thread may read; one thread computes a value and the others wait for it. The racks of client hosts that only an
agent knows are here too, as `samerack plan` reads them.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from pydantic import TypeAdapter

from samerack.cluster.broker_configs import ServerAssignors
from samerack.cluster.racks import Hosts, MemberRack
from samerack.common.money import PriceTable
from samerack.common.records import JsonAnswer
from samerack.events import Event, EventLog, Kind
from samerack.events.history import HistoryPoint, TrafficHistory
from samerack.planning.curve import CurvePoint
from samerack.reporting import costs, verify
from samerack.reporting.baseline import curve_of, own_share, seen_share, server_share, with_servers
from samerack.reporting.evidence import Evidence, Findings, MeasuredBy, StreamsPlanning
from samerack.reporting.report import Report
from samerack.settings.leading import LeadingSettings
from samerack.traffic.board import TrafficBoard
from samerack.traffic.snapshot import STREAMS_KINDS, Gap, GroupTraffic, TrafficSnapshot

MARKED: Final[tuple[Kind, ...]] = ("rebalance", "plan")
MIN_POINTS: Final = 12
"""The time axis has room for at least this number of points, an hour of five minutes, also for a new agent."""
_OWN_SECONDS: Final = 60.0
"""An assignor is run again after this time: traffic changes slowly, and a run computes a plan."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A rebalance, or a plan that was sent; `GET /v1/events` has what is known of it."""

    at: float
    kind: Kind


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupHistory:
    """The points of one group without a gap between them, and the marks of the same time, both the oldest first."""

    group: str
    step_seconds: float
    points: tuple[HistoryPoint, ...]
    marks: tuple[Mark, ...]

    @property
    def begin(self) -> float:
        """When the first point begins."""
        return self.points[0].at

    @property
    def end(self) -> float:
        """When the last point ends."""
        return self.points[-1].at + self.step_seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class _Own:
    """A computed share, with its members, the group's kind and assignor, and its time."""

    share: float | None
    members: tuple[str, ...]
    assignor: str
    at: float


@dataclass(kw_only=True, eq=False, repr=False)
class ReportService:
    """Report and verdict of the latest snapshot on the board.

    `roles` returns the agent's role in each group that it is to lead, `more_gaps` requests that failed apart from
    measuring, `server_assignors` the assignors that brokers offer to groups of the new protocol (KIP-848),
    `max_group_size` the brokers' `group.max.size` (None if not known), `streams_plans` the Kafka Streams applications
    that the agent plans. `bootstrap` is `bootstrap.servers` of the
    measured cluster, `own_rack` the agent's, "" if unknown. A command has no history.
    """

    board: TrafficBoard
    roles: Callable[[], Mapping[str, str]]
    events: EventLog
    traffic_history: TrafficHistory = field(default_factory=TrafficHistory)
    prices: PriceTable
    leading: LeadingSettings
    bootstrap: str = ""
    own_rack: str = ""
    by: MeasuredBy = "command"
    more_gaps: Callable[[], tuple[Gap, ...]] = tuple
    server_assignors: Callable[[], ServerAssignors] = ServerAssignors
    max_group_size: Callable[[], int | None] = lambda: None
    streams_plans: Callable[[], Mapping[str, StreamsPlanning]] = dict
    _lock: threading.RLock = field(default_factory=threading.RLock, init=False)
    _report: tuple[TrafficSnapshot, Mapping[str, str], tuple[Gap, ...], Report] | None = field(default=None, init=False)
    _verdict: tuple[Report, Findings] | None = field(default=None, init=False)
    _verdict_at: float = field(default=float("-inf"), init=False)
    _known_shares: dict[tuple[str, str], _Own] = field(default_factory=dict, init=False)

    def report(self) -> Report:
        """Return the report of the latest snapshot."""
        snapshot, roles, gaps = self.board.latest(), self.roles(), self.more_gaps()
        with self._lock:
            last = self._report
            if last is None or last[0] is not snapshot or last[1:3] != (roles, gaps):
                names = {group.group for group in snapshot.groups}
                self._known_shares = {key: one for key, one in self._known_shares.items() if key[1] in names}
                made = costs.report(
                    snapshot, self.prices, roles=roles, bootstrap=self.bootstrap, own_share_of=self.own_share
                )
                made = with_servers(made, snapshot, offered=self.server_assignors, share_of=self._server_share)
                last = self._report = (snapshot, roles, gaps, replace(made, gaps=(*made.gaps, *gaps)))
            return last[3]

    def verdict(self, *, max_age_seconds: float = 0.0) -> Findings:
        """Return the findings of the latest snapshot, or those computed in the last `max_age_seconds`."""
        with self._lock:
            if self._verdict is not None and time.monotonic() - self._verdict_at < max_age_seconds:
                return self._verdict[1]
            report = self.report()
            if self._verdict is None or self._verdict[0] is not report:
                evidence = Evidence(
                    snapshot=self.board.latest(),
                    report=report,
                    leading=self.leading,
                    own_rack=self.own_rack,
                    by=self.by,
                    max_group_size=self.max_group_size(),
                    streams_plans=self.streams_plans(),
                )
                self._verdict = (report, verify.verdict(evidence))
                self._verdict_at = time.monotonic()
            return self._verdict[1]

    def curve(self, name: str) -> tuple[CurvePoint, ...]:
        """Return what a group would read across racks if members could exceed a fair share; empty if unknown.

        It is empty for Kafka Streams, too: no setting of its assignors allows that.
        """
        group = self.board.group(name)
        if group is None or group.problem is None or group.kind in STREAMS_KINDS:
            return ()
        return curve_of(group.problem, group.long_run_rates)

    def history(self, name: str) -> GroupHistory:
        """Return what a group read in the last day, and when it rebalanced."""
        points = self.traffic_history.points(name)
        events = self.events.latest(group=name, kinds=MARKED, since=points[0].at)
        return _group_history(name, points, events, step_seconds=self.traffic_history.step_seconds)

    def own_share(self, group: GroupTraffic) -> float | None:
        """Return the cross-rack share of the group's own assignor, at most a minute old."""

        def compute() -> float | None:
            seen = seen_share(self.events.latest(group=group.group, kinds=("rebalance",)), group.assignor)
            return own_share(group, seen)

        return self._at_most_a_minute_old("own", group, compute)

    def _server_share(self, group: GroupTraffic) -> float | None:
        """Return the cross-rack share under samerack's assignor in the brokers, at most a minute old."""
        return self._at_most_a_minute_old("server", group, lambda: server_share(group))

    def _at_most_a_minute_old(
        self, whose: str, group: GroupTraffic, compute: Callable[[], float | None]
    ) -> float | None:
        members = group.problem.members if group.problem is not None else ()
        assignor = f"{group.kind} {group.assignor}"
        now = time.monotonic()
        with self._lock:
            known = self._known_shares.get((whose, group.group))
            if known is None or now - known.at > _OWN_SECONDS or (known.members, known.assignor) != (members, assignor):
                known = _Own(share=compute(), members=members, assignor=assignor, at=now)
                self._known_shares[whose, group.group] = known
            return known.share


def _group_history(
    group: str, points: Sequence[HistoryPoint], events: Iterable[Event], *, step_seconds: float
) -> GroupHistory:
    """Return the history from the first known point on.

    `points` are MIN_POINTS at least, the oldest first; `events` are of the kinds that are marked.
    """
    known = next((place for place, point in enumerate(points) if point.bytes_per_second is not None), len(points))
    shown = points[min(known, len(points) - MIN_POINTS) :]
    begin, end = shown[0].at, shown[-1].at + step_seconds
    marks = [Mark(at=event.at, kind=event.kind) for event in events if begin <= event.at < end]
    return GroupHistory(
        group=group,
        step_seconds=step_seconds,
        points=tuple(shown),
        marks=tuple(sorted(marks, key=lambda mark: mark.at)),
    )


history_to_json = TypeAdapter(GroupHistory).dump_json
"""The JSON of `GET /v1/history`."""


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


_HOST_RACKS: Final = JsonAnswer(HostRacks, "has no racks")
host_racks_to_json, host_racks_from_json = _HOST_RACKS.to_json, _HOST_RACKS.from_json
"""The JSON of `GET /v1/racks`."""
