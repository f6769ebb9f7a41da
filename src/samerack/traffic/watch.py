"""The thread that measures: a cycle every few seconds, statistics taken in between, and one poll for the command line.

Every failure is counted by family, logged once and retried; measuring never stops the agent.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterable
from collections.abc import Set as AbstractSet
from http import HTTPStatus
from typing import Final
from urllib.parse import urlsplit

import structlog
from prometheus_client.parser import text_string_to_metric_families

from samerack.auth.kafka_config import for_kafka_python
from samerack.cluster.broker_configs import ask_selector
from samerack.cluster.racks import NO_HOSTS, Hosts
from samerack.cluster.wire import Wire
from samerack.common.errors import AgentError
from samerack.common.fetching import NoAnswerError, ask
from samerack.common.service import RetryPauses, Service
from samerack.election.leadership_state import LeadershipState
from samerack.settings.all_settings import Settings
from samerack.settings.measuring import ClientEndpoint
from samerack.traffic.board import TrafficBoard
from samerack.traffic.cycle import Cycle
from samerack.traffic.exact import ExactReads
from samerack.traffic.gaps import HAND_OVER, failed
from samerack.traffic.metrics import TrafficMetrics
from samerack.traffic.snapshot import Family, Gap, ObservedMember, TrafficSnapshot
from samerack.traffic.statistics import Counters, MeasuredElsewhereError, StatisticsError, parse
from samerack.traffic.weights import WeightBook

# Reads Java's exact bytes per broker from the client's own metrics endpoint (a JMX exporter, Micrometer and such).
#
# `consumer-node-metrics incoming-byte-total{node-id}` are wire bytes; the node `node-2147...` is the coordinator's
# connection. `bytes-consumed-total` is decompressed and never read here.

MAX_BYTES: Final = 8 << 20
_SECONDS: Final = 2.0
_REDIRECTS: Final = 3
"""The status divided by 100."""
_NAME: Final = re.compile(r"(?i)incoming[_.-]?byte([_.-]?total){0,2}$")
"""Micrometer and some versions of the JMX exporter keep `_total`, others drop it or add it twice."""
_NODE: Final = re.compile(r"^(?:node[-_.]?)?(-?\d+)$")
_COORDINATORS_FROM: Final = 2**30
"""Java numbers a coordinator's connection 2^31 - 1 - id."""


class ScrapeError(Exception):
    """The endpoint does not answer, or not with a client's metrics."""


def scrape(url: str) -> str:
    """Return the text at an http or https address of a client nearby: requested without any proxy or redirect.

    Raises:
        ScrapeError: It does not answer, or with another status than 200, or with more than 8 MiB.
    """
    if not url.startswith(("http://", "https://")):
        raise ScrapeError(f"{url}: only http and https addresses are read")
    address = urlsplit(url)
    path = f"{address.path or '/'}?{address.query}" if address.query else address.path or "/"
    try:
        answer = ask(f"{address.scheme}://{address.netloc}", path, seconds=_SECONDS, max_bytes=MAX_BYTES)
    except NoAnswerError as error:
        raise ScrapeError(str(error)) from None
    if answer.status != HTTPStatus.OK:
        what = "a redirect, which is not followed" if answer.status // 100 == _REDIRECTS else "no page of metrics"
        raise ScrapeError(f"{url}: answers {answer.status}: {what}; give the address of the page itself")
    return answer.body.decode("utf-8", "replace")


def received_by_client(text: str) -> dict[str, dict[int, int]]:
    """Return wire bytes by client id and broker from Prometheus' text format, however the exporter spells the name.

    Raises:
        ScrapeError: It is not that format, or has no such metric.
    """
    found: dict[str, dict[int, int]] = {}
    try:
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                if not _NAME.search(sample.name):
                    continue
                labels = {key.replace("-", "_").replace(".", "_"): value for key, value in sample.labels.items()}
                node = _NODE.match(labels.get("node_id", ""))
                client = labels.get("client_id", "")
                if node is None or not client or not 0 <= int(node[1]) < _COORDINATORS_FROM:
                    continue
                brokers = found.setdefault(client, {})
                brokers[int(node[1])] = brokers.get(int(node[1]), 0) + int(sample.value)
    except (ValueError, KeyError, IndexError) as error:
        raise ScrapeError(f"not the text format of Prometheus: {error}") from None
    if not found:
        raise ScrapeError("no incoming-byte-total with client_id and node_id; let consumer-node-metrics be exported")
    return found


def pick(clients: Iterable[str], client_id: str) -> str | None:
    """Return the client of a page that belongs to a configured client id; the only one where none is configured."""
    names = sorted(clients)
    if client_id:
        return client_id if client_id in names else None
    return names[0] if len(names) == 1 else None


log = structlog.get_logger("traffic")

_SHARE_OF_TIME: Final = 3
"""A poll may take a third of the time at most."""
_SHARE_OF_HASTE: Final = 10
"""While groups are found every second, each is a new tenure: polls that these hasten take a tenth of the time."""

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
        self._wire = Wire(for_kafka_python(settings.kafka))
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
        """Poll once, unless this agent stands by; return the pause, which an election ends."""
        started, self._min_pause = time.monotonic(), 0.0
        if not self._leadership.tenures.held:
            self._wire.close()
            self._board.clear()
            self._cycle.rest()
            return threading.TIMEOUT_MAX
        self.poll()
        took = time.monotonic() - started
        pause = max(self._settings.poll_seconds - took, took * (_SHARE_OF_TIME - 1))
        self._min_pause = min(pause, took * (_SHARE_OF_HASTE - 1))
        return pause

    def rest(self, seconds: float) -> None:
        """Wait for the next turn, which elections may hasten."""
        self._stopping.wait(self._min_pause)
        super().rest(seconds - self._min_pause)

    def failed(self, error: Exception) -> None:
        """Count a failed poll."""
        self._metrics.failed(Family.METADATA if isinstance(error, AgentError) else None)

    def ended(self) -> None:
        """Disconnect."""
        self._wire.close()

    def poll(self) -> TrafficSnapshot:
        """Poll now; to be called from one thread at a time.

        Raises:
            AgentError: No broker can be reached at all.
        """
        scraped = [
            gap
            for endpoint in self._settings.client_endpoints
            if self._leadership.tenures.of_group(endpoint.group) is not None
            for gap in self._scrape(endpoint)
        ]
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
            clients = received_by_client(scrape(endpoint.url))
            client = pick(clients, endpoint.client_id)
            if client is None:
                known = ", ".join(sorted(clients))
                raise ScrapeError(f"{endpoint.url}: shows clients {known}; set client_id to one of them")  # noqa: TRY301 - handled below
            self._exact.post(endpoint.group, _java(client, clients[client]), now=time.monotonic())
        except (ScrapeError, StatisticsError) as error:
            return [failed(Family.SCRAPE, endpoint.url, str(error))]
        return []


def _java(client: str, received: dict[int, int]) -> Counters:
    """Convert counters of Java's client: bytes by node only; the probe finds the partitions that a node serves."""
    return Counters(client=client, client_id=client, age_seconds=None, received=received, served_by=None, messages={})


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
        until = time.monotonic() + seconds
        snapshot = watch.poll()
        while (left := until - time.monotonic()) > 0:
            time.sleep(min(left, settings.traffic.poll_seconds))
            snapshot = watch.poll()
        return snapshot
    finally:
        watch.close()
