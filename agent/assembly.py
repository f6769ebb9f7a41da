"""Builds all parts of an agent from its settings and connects them; nothing is started.

The order counts: `/metrics` shows families in the order in which collectors are registered, and the boards call
listeners in the order in which they were added.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from samerack.agent.leading.group_memory import GroupMemory, GroupSizes
from samerack.agent.leading.group_requests import GroupRequests
from samerack.agent.leading.leader import GroupLeader
from samerack.agent.leading.parts import build_group_parts
from samerack.agent.leading.takeover_controller import TakeoverLock
from samerack.agent.led_groups import GroupFinder, LedGroups, MakeLeader, named
from samerack.agent.metrics import Metrics
from samerack.agent.pod.members import PodRacks
from samerack.agent.pod.own import own_rack, with_own_rack
from samerack.agent.policy.lag_guard import LagGuard
from samerack.agent.policy.measured import check_min_savings, measured
from samerack.agent.publishing.metrics import PublishingMetrics
from samerack.agent.publishing.outbox import topics_of
from samerack.agent.streams.metrics import StreamsMetrics
from samerack.agent.streams.reporter import StreamsBoard, StreamsReporter
from samerack.agent.streams.service import StreamsService, client_racks
from samerack.agent.supervisor.protocol import HAND_OVER_SECONDS
from samerack.auth.kafka_config import for_kafka_python
from samerack.cluster.client import SharedClient
from samerack.cluster.group_poller import GroupPoller
from samerack.cluster.group_questions import GroupTypes
from samerack.cluster.racks import NO_HOSTS, Hosts
from samerack.cluster.view import SettlingTimes
from samerack.cluster.watch import ClusterWatch
from samerack.cluster.wire import BrokerClient
from samerack.common.errors import SettingsError
from samerack.common.patterns import is_pattern, selects
from samerack.common.shared_threads import SharedThreads
from samerack.election.election import Election
from samerack.election.leadership_state import LeadershipState
from samerack.election.messages import Advertisement, identity_of, lead, observe, of_this_host
from samerack.events import EventLog
from samerack.events.event_log import EventMetrics
from samerack.events.event_writer import path_of, writer_of
from samerack.events.history import TrafficHistory
from samerack.events.rebalance_tracker import RebalanceTracker
from samerack.reporting.wanted import WantedMembers
from samerack.settings.all_settings import Settings
from samerack.settings.measuring import price_table
from samerack.traffic.board import TrafficBoard
from samerack.traffic.metrics import MAX_SERIES, SeriesLimits, TrafficCollector, TrafficMetrics
from samerack.traffic.watch import TrafficWatch

if TYPE_CHECKING:
    from samerack.agent.publishing.publisher import Publisher

STOP_SECONDS: Final = 3.0
"""Everything must have ended by then, or within half of it after the last group was handed over: an agent without a
successor promises to stop within five seconds of SIGTERM, and librdkafka takes one second to close."""
_LAST_POLL_SECONDS: Final = 1.0
_WATCH_SECONDS: Final = 0.5
"""Between two polls of racks and replicas."""
_SETTLING: Final = SettlingTimes(change=1.0, leader=600.0)
"""A change counts when two polls more have shown it. Leadership returns to the preferred replica by itself within the
brokers' `leader.imbalance.check.interval.seconds`, 300 by default."""
_WAITING_SECONDS: Final = 0.2
"""Between two polls of groups without consumers, so that the agent joins before their first assignment."""


class AgentParts:
    """All parts of one agent; a part that the settings turn off is None."""

    def __init__(self, settings: Settings, *, notify_supervisor: Callable[[], None]) -> None:
        """Build all parts; wrong settings fail here. `notify_supervisor` is called when the agent's member ids change.

        Raises:
            SettingsError: No group is named, or a client refuses a Kafka setting.
        """
        for_kafka_python(settings.kafka)  # raises before anything is built
        self.prices = price_table(settings.money)
        check_min_savings(settings, self.prices)
        self.metrics = Metrics()
        self.settings = settings = self._in_rack(settings)
        if not (settings.groups or settings.traffic.groups or settings.traffic.rack or settings.streams.applications):
            raise SettingsError(
                "groups: is empty; set the groups to lead with --group, SAMERACK_GROUPS or in the file, or groups to "
                "observe in traffic.groups, or Streams applications in streams.applications, or give this pod a rack "
                "to report to other agents (samerack rack --why)"
            )
        self.pods = (
            PodRacks(settings.pod, asked=lambda outcome: self.metrics.pod_questions.labels(outcome).inc())
            if settings.pod.kubernetes_members
            else None
        )
        self.election = Election(settings, advertisement=_advertisement(settings)) if settings.election.group else None
        self.leadership = self.election or LeadershipState()
        self._hosts = self._known_hosts()
        self.traffic = TrafficBoard()
        event_metrics = EventMetrics(self.metrics.registry)
        self.events = EventLog(
            rate=self._bytes_per_second,
            dollars=self.prices.dollars,
            metrics=event_metrics,
        )
        self.history = TrafficHistory(step_seconds=settings.traffic.history_step_seconds)
        self.traffic.listen(self.history.take)
        self.writer = writer_of(settings, self.events, self.history, event_metrics)
        self._tracker = RebalanceTracker(self.events)
        self.traffic.listen(self._tracker.take)
        self.watch = ClusterWatch(
            BrokerClient(for_kafka_python(settings.kafka)),
            pause=_WATCH_SECONDS,
            times=_SETTLING,
            selector=settings.racks.replica_selector,
            metrics=self.metrics,
        )
        self.measuring = self._traffic_watch()
        self.limits = SeriesLimits.of(MAX_SERIES)
        self.metrics.registry.register(TrafficCollector(self.traffic, limits=self.limits, mine=self._is_counted))
        self.guard = LagGuard(
            settings.lag,
            weigh=self.measuring.weights.weights,
            leads=partial(selects, settings.groups),
            clock=time.monotonic,
        )
        self.traffic.listen(self.guard.take)
        self.wanted = WantedMembers(prices=self.prices, roles=self.roles, capacity_of=self.guard.capacity)
        self.metrics.registry.register(self.wanted)
        self.traffic.listen(self.wanted.take)
        self.client = SharedClient(for_kafka_python(settings.kafka))
        self.poller = GroupPoller(BrokerClient(for_kafka_python(settings.kafka)), seconds=_WAITING_SECONDS)
        self.led = LedGroups(self._leader_factory(notify_supervisor), forget=self.metrics.forget)
        for group in named(settings):
            self.led.add(group)
        if self.election is not None:
            self.election.hands_over = self.led.hands_over
        self.finder: GroupFinder | None = None
        if any(map(is_pattern, settings.groups)):
            wire = BrokerClient(for_kafka_python(settings.kafka))
            self.finder = GroupFinder(settings, wire, led=self.led, watch=self.watch, leadership=self.leadership)
        self.streams = self._streams_service() if settings.streams.enabled else None
        self.publisher = self._traffic_publisher() if topics_of(settings) else None
        if self.publisher is not None:
            self.traffic.listen(self.publisher.take)
            self.events.listen(self.publisher.take_event)

    def roles(self) -> dict[str, str]:
        """Return the agent's present role in each group that it is to lead."""
        return {status.group: status.role for status in self.metrics.board.all()}

    def _in_rack(self, settings: Settings) -> Settings:
        """Return the settings with the rack of this pod, if it is known and none is set."""
        own = own_rack(settings.pod)
        self.metrics.in_rack(own.rack or "", own.source or "none")
        self.rack_answers = {answer.source: answer.detail for answer in own.answers}
        """What each source answered about the rack of this pod."""
        return with_own_rack(settings, own)

    def _known_hosts(self) -> Hosts:
        """Return what other agents and the Kubernetes API know about hosts."""
        pods = self.pods.hosts() if self.pods is not None else NO_HOSTS
        leadership = self.leadership
        return Hosts(
            agents=leadership.rack_of,
            kubernetes=pods.kubernetes,
            version=lambda: (leadership.racks, pods.version()),
        )

    def _traffic_watch(self) -> TrafficWatch:
        return TrafficWatch(
            self.settings,
            board=self.traffic,
            metrics=TrafficMetrics(self.metrics.registry),
            hosts=self._hosts,
            rack_aware=self.watch.selector,
            leadership=self.leadership,
            stop_seconds=_LAST_POLL_SECONDS if topics_of(self.settings) else 0.0,  # what is measured last is published
        )

    def _leader_factory(self, notify_supervisor: Callable[[], None]) -> MakeLeader:
        """Return what makes the leader of a group; all leaders share what is made here."""
        settings = self.settings
        threads = SharedThreads("groups")
        takeover_lock = TakeoverLock()
        types = GroupTypes(BrokerClient(for_kafka_python(settings.kafka)))
        kept = path_of(settings)
        foreign_protocols, evicted = (
            GroupMemory(kept.with_suffix(f".{name}.json") if kept is not None else None, name=name)
            for name in ("protocols", "evicted")
        )
        sizes = GroupSizes(kept.with_suffix(".sizes.json") if kept is not None else None)
        requests = GroupRequests(kept.with_suffix(".requests.json") if kept is not None else None)

        def make(group: str, empty_at: float | None) -> GroupLeader:
            self.metrics.expect(group)
            return GroupLeader(
                build_group_parts(
                    group=group,
                    settings=settings,
                    watch=self.watch,
                    foreign_protocols=foreign_protocols,
                    evicted=evicted,
                    sizes=sizes,
                    requests=requests,
                    group_type=types.find,
                    unsupported_reason=self.watch.versions.unsupported_reason,
                    metrics=self.metrics,
                    events=self.events,
                    weigh=self.guard.weights,
                    hosts=self._hosts,
                    measured=measured(self.traffic, self.measuring.weights, self.guard.growing),
                    rebalances=self._tracker.of(group),
                    lock=takeover_lock,
                    notify_supervisor=notify_supervisor,
                ),
                threads=threads,
                client=self.client,
                poller=self.poller,
                leadership=self.leadership,
                hand_over_seconds=HAND_OVER_SECONDS,
                empty_at=empty_at,
            )

        return make

    def _streams_service(self) -> StreamsService:
        settings, registry = self.settings, self.metrics.registry
        board = StreamsBoard()
        registry.register(board)
        return StreamsService(
            settings.streams,
            StreamsReporter(events=self.events, metrics=StreamsMetrics(registry), board=board),
            racks_of=client_racks(
                settings.racks,
                group=self.traffic.group,
                hosts=self._hosts,
                brokers=lambda: self.watch.cluster.racks,
            ),
            weights_of=self.measuring.weights.weights,
        )

    def _traffic_publisher(self) -> Publisher:
        from samerack.agent.publishing.publisher import Publisher  # noqa: PLC0415 - librdkafka: for publishing only

        settings = self.settings
        return Publisher(
            settings,
            metrics=PublishingMetrics(self.metrics.registry, topics_of(settings).values()),
            roles=self.roles,
            mine=self._is_counted,
            cluster_id=lambda: self.watch.cluster_id,
            election=lambda: settings.election.group if not self.leadership.refused else "",
        )

    def _is_counted(self, group: str) -> bool:
        """Return whether this agent counts the group's traffic."""
        return self.leadership.tenures.of_group(group) is not None

    def _bytes_per_second(self, group: str) -> float | None:
        measured = self.traffic.group(group)
        return measured.bytes_per_second if measured is not None else None


def _advertisement(settings: Settings) -> Advertisement:
    """Return what this agent advertises in the election."""
    return Advertisement(
        identity=identity_of(settings),
        rack=settings.traffic.rack,
        addresses=of_this_host(settings.kafka["bootstrap.servers"]),
        responsibilities=(*map(lead, named(settings)), *map(observe, settings.traffic.groups)),
    )
