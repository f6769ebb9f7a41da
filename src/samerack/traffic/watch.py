"""The thread that measures: a cycle every few seconds, statistics taken in between, and one poll for the command line.

Every failure is counted by family, logged once and retried; measuring never stops the agent.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import structlog

from samerack.auth.kafka_config import for_kafka_python
from samerack.cluster.broker_configs import ask_selector
from samerack.cluster.racks import NO_HOSTS, Hosts
from samerack.cluster.wire import BrokerClient
from samerack.common.attempts import RetryPauses
from samerack.common.errors import AgentError
from samerack.common.service import Service
from samerack.election.leadership_state import LeadershipState
from samerack.settings.all_settings import Settings
from samerack.settings.measuring import ClientEndpoint
from samerack.traffic.board import TrafficBoard
from samerack.traffic.cycle import Cycle
from samerack.traffic.exact import ExactReads
from samerack.traffic.gaps import HAND_OVER, failed
from samerack.traffic.metrics import TrafficMetrics
from samerack.traffic.snapshot import Family, Gap, ObservedMember, TrafficSnapshot
from samerack.traffic.statistics import MeasuredElsewhereError, StatisticsError, counters_at, parse
from samerack.traffic.throughput import LONGEST_STEP_SECONDS
from samerack.traffic.weights import WeightBook

log = structlog.get_logger("traffic")

_SHARE_OF_TIME: Final = 3
"""A poll may take a third of the time at most."""
_MAX_STEP_SECONDS: Final = 0.9 * LONGEST_STEP_SECONDS
"""... unless the next one would then be too late for rates; each takes longer or less long than the last one."""
_SHARE_OF_HASTE: Final = 10
"""While groups are found every second, each is a new tenure: polls that these hasten take a tenth of the time."""
_SCRAPES_AT_ONCE: Final = 32
"""Endpoints that do not answer take seconds each: one after the other, polls would be too far apart for rates."""
_STALE_SECONDS: Final = 30.0
_STALE_POLLS: Final = 2
"""Figures are shown for this time, and this number of polls, after brokers have stopped answering."""

RackAware = Callable[[], bool | None]
"""Whether the brokers serve from the reader's rack; None where not asked yet; AgentError says why it is not known."""


class TrafficWatch(Service):
    """Measures periodically and publishes on the board."""

    def __init__(  # noqa: PLR0913 - it brings measuring and the agent together
        self,
        settings: Settings,
        *,
        board: TrafficBoard,
        metrics: TrafficMetrics,
        rack_aware: RackAware,
        hosts: Hosts = NO_HOSTS,
        leadership: LeadershipState | None = None,
        stop_seconds: float = 0.0,
    ) -> None:
        """Prepare; `start` begins.

        `hosts` is what other sources know of client hosts; without `leadership` this agent measures everything. `stop`
        waits `stop_seconds` for the last measurement.

        Raises:
            SettingsError: A Kafka setting has no counterpart in the client.
        """
        pause = settings.traffic.poll_seconds
        super().__init__("traffic", retries=RetryPauses(first=pause, most=pause))
        self._stop_seconds = stop_seconds
        self.weights = WeightBook()
        self._settings = settings.traffic
        self._plans_by_bytes = settings.streams.enabled and settings.streams.weights == "bytes"
        self._wire = BrokerClient(for_kafka_python(settings.kafka))
        self._board = board
        self._metrics = metrics
        self._rack_aware = rack_aware
        self._leadership = leadership or LeadershipState()
        self._exact = ExactReads()
        self._cycle = Cycle(
            settings,
            wire=self._wire,
            board=board,
            exact=self._exact,
            weights=self.weights,
            hosts=hosts,
            leadership=self._leadership,
        )
        self._min_pause = 0.0
        self._measured_at: float | None = None
        self._held: AbstractSet[object] = frozenset()
        self._leadership.listen(self._elected)
        self._last_reported: frozenset[Gap] = frozenset()

    def stop(self) -> None:
        """End the thread after the current poll, and wait for its measurement."""
        super().stop()
        if self._stop_seconds and self.is_alive():
            self.join(self._stop_seconds)

    def _elected(self) -> None:
        """Poll at once after an election that gave this agent something to measure: it counts from that poll on."""
        held = frozenset(self._leadership.tenures.held.values())
        if held - self._held:
            self.wake()
        self._held = held

    def turn(self) -> float:
        """Poll once, unless this agent stands by and needs no weights; return the pause, which an election ends.

        Any agent may be asked to plan a Streams application, while one of them counts what it reads.
        """
        started, self._min_pause = time.monotonic(), 0.0
        if not (self._leadership.tenures.held or self._plans_by_bytes):
            self._wire.close()
            self._board.clear()
            self._cycle.rest()
            return threading.TIMEOUT_MAX
        self.poll()
        self._measured_at = time.monotonic()
        took = self._measured_at - started
        pause = took * (_SHARE_OF_TIME - 1)
        if took < _MAX_STEP_SECONDS:
            pause = max(self._settings.poll_seconds - took, min(pause, _MAX_STEP_SECONDS - took))
        self._min_pause = min(pause, took * (_SHARE_OF_HASTE - 1))
        return pause

    def rest(self, seconds: float) -> None:
        """Wait for the next turn, which elections may hasten."""
        self._stopping.wait(self._min_pause)
        super().rest(seconds - self._min_pause)

    def failed(self, error: Exception) -> None:
        """Count a failed poll, and show nothing any more when all have failed for some time."""
        self._metrics.failed(Family.METADATA if isinstance(error, AgentError) else None)
        stale = max(_STALE_SECONDS, _STALE_POLLS * self._settings.poll_seconds)
        if self._measured_at is not None and time.monotonic() - self._measured_at > stale:
            self._measured_at = None
            self._board.clear()

    def ended(self) -> None:
        """Disconnect."""
        self._wire.close()

    def poll(self) -> TrafficSnapshot:
        """Poll now; to be called from one thread at a time.

        Raises:
            AgentError: No broker can be reached at all.
        """
        tenures = self._leadership.tenures
        mine = [
            client_endpoint
            for client_endpoint in self._settings.client_endpoints
            if tenures.of_group(client_endpoint.group) is not None
        ]
        with ThreadPoolExecutor(_SCRAPES_AT_ONCE, "scrape") as pool:
            scraped = [gap for gaps in pool.map(self._scrape, mine) for gap in gaps]
        rack_aware, unknown = self._selector()
        now = time.monotonic()
        elsewhere = (*scraped, *unknown)
        snapshot = self._cycle.turn(now=now, wall=time.time(), rack_aware=rack_aware, elsewhere=elsewhere)
        self._metrics.polled(snapshot.cycle_seconds)
        gaps = frozenset(snapshot.gaps)
        for gap in gaps:
            if gap.what != HAND_OVER or gap not in self._last_reported:
                self._metrics.failed(gap.what)
        for gap in gaps - self._last_reported:
            log.warning("traffic-gap", what=gap.what, where=gap.where, reason=gap.reason, consequence=gap.consequence)
        self._last_reported = gaps
        return snapshot

    def poll_for(self, seconds: float, *, min_polls: int = 1) -> TrafficSnapshot:
        """Poll on the caller's thread for this time after the first poll, and at least this number of times.

        Raises:
            AgentError: No broker can be reached at all.
        """
        snapshot = self.poll()
        end, polls = time.monotonic() + seconds, 1
        while (left := end - time.monotonic()) > 0 or polls < min_polls:
            time.sleep(max(0.0, min(left, self._settings.poll_seconds)))
            snapshot = self.poll()
            polls += 1
        return snapshot

    def _selector(self) -> tuple[bool | None, tuple[Gap, ...]]:
        try:
            return self._rack_aware(), ()
        except AgentError as error:
            return None, (failed(Family.SELECTOR, "", error),)

    def close(self) -> None:
        """Disconnect, where no thread was started."""
        self._wire.close()

    def post(self, group: str, body: bytes, member_id: str | None = None) -> ObservedMember:
        """Take the statistics from an application's `stats_cb`.

        Raises:
            MeasuredElsewhereError: Another agent measures the group.
            StatisticsError: They are invalid; nothing is changed.
        """
        if self._leadership.tenures.of_group(group) is None:
            raise MeasuredElsewhereError(
                f"this agent does not measure group {group!r}; its bytes are estimated by another"
            )
        try:
            return self._exact.post(group, parse(body), now=time.monotonic(), member_id=member_id)
        except StatisticsError:
            self._metrics.failed(Family.STATISTICS)
            raise

    def _scrape(self, endpoint: ClientEndpoint) -> list[Gap]:
        try:
            self._exact.post(endpoint.group, counters_at(endpoint), now=time.monotonic())
        except StatisticsError as error:
            return [failed(Family.SCRAPE, endpoint.url, str(error))]
        return []


def observe(settings: Settings, *, seconds: float) -> TrafficSnapshot:
    """Measure for a while without an agent: for the command line. Nothing is joined or changed.

    The groups are those of `traffic.groups`, else of `groups`. In 0 seconds there is one poll, which shows groups,
    racks and shares by partitions, but no bytes.

    Raises:
        AgentError: No broker can be reached at all.
    """
    rack_aware = ask_selector(settings)
    watch = TrafficWatch(settings, board=TrafficBoard(), metrics=TrafficMetrics.silent(), rack_aware=rack_aware)
    try:
        return watch.poll_for(seconds)
    finally:
        watch.close()
