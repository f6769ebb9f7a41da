"""The agent process: builds the parts from settings, starts their threads, and ends them on SIGTERM or Ctrl-C."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from types import FrameType
from typing import Any
from zlib import crc32

import structlog

from samerack.agent.events import EventLog
from samerack.agent.events.event_writer import writer_of
from samerack.agent.events.metrics import EventMetrics
from samerack.agent.events.place import path_of
from samerack.agent.events.rebalance_tracker import RebalanceTracker
from samerack.agent.leading.assigning import unweighed
from samerack.agent.leading.foreign_protocols import ForeignProtocols
from samerack.agent.leading.leader import GroupLeader
from samerack.agent.leading.takeover_controller import TakeoverLock
from samerack.agent.metrics import Metrics
from samerack.agent.pod.members import PodRacks
from samerack.agent.pod.own import own_rack, with_own_rack
from samerack.agent.policy.measured import UNMEASURED, check_min_savings, measured
from samerack.agent.publishing.metrics import PublishingMetrics
from samerack.agent.publishing.publisher import Publisher, ask_cluster_id, topics_of
from samerack.agent.reporting.ledger import Ledger
from samerack.agent.reporting.money_metrics import MoneyCollector
from samerack.agent.reporting.report_service import ReportService
from samerack.agent.supervisor.lifeline import Lifeline
from samerack.agent.supervisor.line import MemberIdentity as Membership
from samerack.agent.web import api as web_api
from samerack.agent.web import client_reports as traffic_web
from samerack.agent.web import page as web_page
from samerack.agent.web import takeover as web_takeover
from samerack.agent.web.server import WebServer, application
from samerack.cluster.coordination import close, connect, reception
from samerack.cluster.errors import RefusedError
from samerack.cluster.group_poller import GroupPoller
from samerack.cluster.racks import NO_HOSTS, Hosts
from samerack.cluster.version_watch import VersionWatch
from samerack.cluster.view import SettlingTimes
from samerack.cluster.watch import ClusterWatch, find_group_type, open_admin
from samerack.cluster.wire import Wire
from samerack.common.errors import AgentError, SettingsError
from samerack.common.kafka_config import for_kafka_python
from samerack.common.money import price_table
from samerack.common.settings import Settings
from samerack.election.addresses import of_this_host
from samerack.election.election import Election
from samerack.election.leadership_state import Alone, LeadershipState
from samerack.election.metrics import ElectionCollector
from samerack.election.model import Advertisement, lead, observe
from samerack.planning import planner
from samerack.traffic.board import TrafficBoard
from samerack.traffic.metrics import TrafficCollector, TrafficMetrics
from samerack.traffic.model import Gap
from samerack.traffic.watch import TrafficWatch

log = structlog.get_logger("agent")

STOP_SECONDS = 3.0
"""Everything must have ended by then: the agent promises to stop within five seconds of SIGTERM, and librdkafka takes
one second to close."""
_LAST_LOOK_SECONDS = 1.0
_STALE_SECONDS = 30.0
_KNOCK_SECONDS = 3.0


class Agent:
    """All parts of one agent."""

    def __init__(self, settings: Settings) -> None:
        """Build all parts; wrong settings fail here.

        Raises:
            SettingsError: No group is named, or a client refuses a Kafka setting.
            AgentError: The port is in use.
        """
        self._kafka = settings.kafka
        for_kafka_python(self._kafka)  # raises before anything is started
        prices = price_table(settings.money)
        check_min_savings(settings, prices)
        planner.warm_up()
        self._hand_over_seconds = settings.election.hand_over_seconds
        self.metrics = Metrics()
        settings = self._in_rack(settings)
        self._rack = settings.traffic.rack
        if not settings.groups and not settings.traffic.groups and not settings.traffic.rack:
            raise SettingsError(
                "groups: is empty; name the groups to lead with --group, SAMERACK_GROUPS or in the file, or those to "
                "observe in traffic.groups, or give this pod a rack to tell other agents (samerack rack --why)"
            )
        self._pods = PodRacks(settings.pod, asked=self.metrics.pod_asked) if settings.pod.kubernetes_members else None
        self.election = Election(settings, presence=_presence(settings)) if settings.election.group else None
        hosts = self._known_hosts()
        standing = self.election or Alone()
        self.traffic = TrafficBoard()
        counted = EventMetrics(self.metrics.registry)
        self.events = EventLog(
            rate=self._bytes_per_second, dollars=prices.dollars, metrics=counted, most=settings.events.most
        )
        self._writer = writer_of(settings, self.events, counted)
        tracker = RebalanceTracker(self.events, cooperative=settings.leading.cooperative_protocols)
        self.traffic.listen(tracker.take)
        self._watch = ClusterWatch(
            partial(open_admin, settings.kafka),
            pause=settings.watch.cluster_seconds,
            times=SettlingTimes(
                change=settings.policy.settling_seconds, leader=settings.policy.leader_settling_seconds
            ),
            selector=settings.racks.replica_selector,
            metrics=self.metrics,
        )
        self._measuring = (
            TrafficWatch(
                settings,
                board=self.traffic,
                metrics=TrafficMetrics(self.metrics.registry),
                hosts=hosts,
                rack_aware=self._watch.selector,
                standing=standing,
            )
            if settings.traffic.enabled
            else None
        )
        self.metrics.registry.register(
            TrafficCollector(self.traffic, max_series=settings.traffic.max_series, mine=partial(_counts, standing))
        )
        self.on_presence: Callable[[], None] = lambda: None
        """Called when the agent's member ids change, which the supervisor must know at once."""
        takeover_lock = TakeoverLock()
        self._poller = GroupPoller(Wire(for_kafka_python(settings.kafka)), seconds=settings.watch.waiting_seconds)
        kept = path_of(settings)
        foreign_protocols = ForeignProtocols(kept.with_suffix(".protocols.json") if kept is not None else None)
        self._versions = VersionWatch(settings.kafka)
        self._leaders = [
            GroupLeader(
                group=group,
                settings=settings,
                watch=self._watch,
                poller=self._poller,
                foreign_protocols=foreign_protocols,
                group_type=partial(find_group_type, settings.kafka),
                unsupported_reason=self._versions.unsupported_reason,
                metrics=self.metrics,
                events=self.events,
                weigh=self._measuring.weights.weights if self._measuring is not None else unweighed,
                standing=standing,
                hosts=hosts,
                measured=(
                    measured(self.traffic, self._measuring.weights) if self._measuring is not None else UNMEASURED
                ),
                rebalances=tracker.of(group),
                lock=takeover_lock,
                notify_supervisor=self._tell_presence,
            )
            for group in settings.groups
        ]
        for leader in self._leaders:
            self.metrics.expect(leader.group)
        self.metrics.up.set_function(lambda: float(not self.unready()))
        self._publisher = (
            Publisher(
                settings,
                metrics=PublishingMetrics(self.metrics.registry, topics_of(settings).values()),
                roles=self._roles,
                mine=partial(_counts, standing),
                cluster_id=partial(ask_cluster_id, settings.kafka),
                election=lambda: settings.election.group if self.election and not self.election.refused else "",
            )
            if topics_of(settings)
            else None
        )
        if self._publisher is not None:
            self.traffic.listen(self._publisher.take)
            self.events.listen(self._publisher.tell)
        self.reports = ReportService(
            board=self.traffic,
            roles=self._roles,
            events=self.events,
            prices=prices,
            leading=settings.leading,
            own_rack=settings.traffic.rack,
            bootstrap=settings.kafka["bootstrap.servers"],
            more_gaps=self._gaps,
            statuses=self.metrics.board.all,
        )
        ledger = Ledger(prices, roles=self._roles, own_share=self.reports.own_share)
        self.traffic.listen(ledger.take)
        self.metrics.registry.register(
            MoneyCollector(
                self.reports,
                ledger,
                max_series=settings.traffic.max_series,
                active=lambda: standing.claims.any_duty,
            )
        )
        self.metrics.registry.register(ElectionCollector(self.election))
        self.web = WebServer(
            application(
                self.metrics,
                healthy=self.unhealthy,
                ready=self.unready,
                more=(
                    *web_api.routes(self.reports, status=self.status),
                    *web_page.routes(self.reports),
                    *web_takeover.routes({leader.group: leader for leader in self._leaders}),
                    *(traffic_web.routes(self._measuring.post) if self._measuring is not None else ()),
                ),
                hosts=settings.web.hosts,
            ),
            host=settings.web.host,
            port=settings.web.port,
        )

    def _in_rack(self, settings: Settings) -> Settings:
        """Returns the settings with the rack of this pod, if it is known and none is set."""
        own = own_rack(settings.pod)
        self.metrics.in_rack(own.rack or "", own.source or "none")
        self._answers = {answer.source: answer.detail for answer in own.answers}
        return with_own_rack(settings, own)

    def _known_hosts(self) -> Hosts:
        """Returns what other agents and the Kubernetes API know about hosts."""
        pods = self._pods.hosts() if self._pods is not None else NO_HOSTS
        election = self.election
        if election is None:
            return pods
        return Hosts(
            agents=election.rack_of,
            kubernetes=pods.kubernetes,
            version=lambda: (election.racks, pods.version()),
        )

    def _bytes_per_second(self, group: str) -> float | None:
        measured = self.traffic.group(group)
        return measured.bytes_per_second if measured is not None else None

    def _roles(self) -> dict[str, str]:
        return {status.group: status.role for status in self.metrics.board.all()}

    def status(self) -> dict[str, Any]:
        """Returns what the brokers support, and the agent's role in each group with what prevents a better one."""
        troubles = {leader.group: leader.trouble for leader in self._leaders}
        groups = [
            {"group": one.group, "role": one.role, "state": one.state, "trouble": troubles.get(one.group, "")}
            for one in self.metrics.board.all()
        ]
        return {"brokers": self._versions.summary(), "groups": groups}

    def presences(self) -> frozenset[Membership]:
        """Returns every member id of the agent in the groups that it leads or is to lead."""
        return frozenset(one for leader in self._leaders for one in leader.presences())

    def _tell_presence(self) -> None:
        self.on_presence()

    def is_well(self) -> bool:
        """Returns whether no group waits for an overdue plan."""
        return not any(leader.is_overdue() for leader in self._leaders)

    def _gaps(self) -> tuple[Gap, ...]:
        """Returns what the brokers do not allow, apart from traffic measurement."""
        gaps = self._publisher.gaps() if self._publisher is not None else ()
        gaps += self._writer.gaps() if self._writer is not None else ()
        refused = [(leader.group, leader.trouble) for leader in self._leaders if leader.refused and leader.trouble]
        for group, trouble in refused:
            cause, _, cure = trouble.rpartition("; ")
            gaps += (
                Gap(
                    what="leading",
                    where=group,
                    refused=True,
                    reason=cause or trouble,
                    consequence=f"the group leads itself; {cure}",
                ),
            )
        return gaps

    def unhealthy(self) -> dict[str, str]:
        """Returns the parts whose thread has ended."""
        threads: dict[str, threading.Thread] = {"watch": self._watch, "poller": self._poller}
        threads |= {f"group {leader.group}": leader for leader in self._leaders}
        if self._pods is not None:
            threads["pods"] = self._pods
        if self._measuring is not None:
            threads["traffic"] = self._measuring
        if self._publisher is not None:
            threads["publishing"] = self._publisher
        if self.election is not None:
            threads["election"] = self.election
        if self._writer is not None:
            threads["events"] = self._writer
        return {name: "its thread has ended" for name, thread in threads.items() if not thread.is_alive()}

    def unready(self) -> dict[str, str]:
        """Returns the parts that do not work at the moment, with the reason."""
        wrong = self.unhealthy()
        if unseen := self._unseen_cluster():
            wrong.setdefault("watch", unseen)
        if self._poller.trouble:
            wrong.setdefault("poller", self._poller.trouble)
        if self.election is not None and self.election.trouble:
            wrong["election"] = self.election.trouble
        troubles = {leader.group: leader.trouble for leader in self._leaders}
        for status in self.metrics.board.all():
            trouble = troubles.get(status.group, "")
            if status.role in ("outside", "fenced", "observing"):
                wrong[f"group {status.group}"] = f"{status.role}: {trouble}" if trouble else status.role
        return wrong

    def _unseen_cluster(self) -> str:
        """Returns why the agent has no current metadata of the cluster; empty if it has."""
        if self._watch.refused:
            return self._watch.trouble
        if time.monotonic() - self._watch.last_look <= _STALE_SECONDS:
            return ""
        never = self._watch.last_look == float("-inf")
        since = (
            "metadata has not been read yet" if never else f"no look at the cluster in the last {_STALE_SECONDS:.0f} s"
        )
        return f"{since}; {self._watch.trouble}" if self._watch.trouble else since

    def probe_brokers(self) -> None:
        """Connects to the brokers once, so that an agent that they refuse fails at its start.

        Raises:
            RefusedError: TLS or SASL fails.
        """
        log.info("pod-rack", rack=self._rack or None, answers=self._answers)
        try:
            close(connect(for_kafka_python(self._kafka), _KNOCK_SECONDS))
        except RefusedError:
            raise
        except AgentError as error:
            log.warning("kafka-away", error=str(error))

    def start(self) -> None:
        """Starts all threads."""
        if self._writer is not None:
            self._writer.start()
        self.web.start()
        self._versions.start()
        self._watch.start()
        self._poller.start()
        if self._pods is not None:
            self._pods.start()
        if self.election is not None:
            self.election.start()
        if self._measuring is not None:
            self._measuring.start()
        if self._publisher is not None:
            self._publisher.start()
        for leader in self._leaders:
            leader.start()

    def stop(self) -> None:
        """Hands every group over or leaves it, and ends all threads within STOP_SECONDS."""
        deadline = time.monotonic() + STOP_SECONDS
        for leader in self._leaders:
            leader.stop(hand_over_seconds=min(self._hand_over_seconds, STOP_SECONDS / 2))
        if self.election is not None:
            self.election.stop()  # other agents elect and take the memberships over while the leaders still wait
        self._watch.stop()
        self._poller.stop()
        self._versions.stop()
        if self._pods is not None:
            self._pods.stop()
        if self._measuring is not None:
            self._measuring.stop()
            if self._publisher is not None:
                self._measuring.join(_LAST_LOOK_SECONDS)  # so that its last measurement is published too
        if self._publisher is not None:
            self._publisher.stop()
        self.web.end()  # open connections take a second to close, which runs in parallel with the rest
        for part in (*self._leaders, self.election, self._publisher):
            if part is not None:
                part.join(max(0.1, deadline - time.monotonic()))
        if self._writer is not None:
            self._writer.stop()  # after all parts that may still add events
            self._writer.join(max(0.1, deadline - time.monotonic()))
        self.web.stop()


def _counts(standing: LeadershipState, group: str) -> bool:
    return standing.claims.of_group(group) is not None


def _observing(settings: Settings) -> Settings:
    traffic = settings.traffic.model_copy(update={"groups": settings.traffic.groups or settings.groups})
    return settings.model_copy(update={"groups": (), "traffic": traffic})


def _presence(settings: Settings) -> Advertisement:
    """Returns what this agent advertises in the election."""
    groups = settings.groups
    name = f"{settings.web.port} {' '.join(groups)}"  # agents on one host differ in the port or the groups
    return Advertisement(
        identity=settings.election.identity or f"{socket.gethostname()}-{crc32(name.encode()):08x}",
        rack=settings.traffic.rack,
        addresses=settings.election.addresses or of_this_host(settings.kafka["bootstrap.servers"]),
        duties=(*map(lead, groups), *map(observe, settings.traffic.groups)),
    )


def get_ready() -> None:
    """Does the slow work that needs no settings, before the agent starts."""
    planner.warm_up()


def run(settings: Settings, *, line: socket.socket, observing: bool, why: str = "") -> None:
    """Runs an agent until SIGTERM or SIGINT, or until its supervisor has ended.

    Args:
        settings: All settings.
        line: The socket to the supervisor.
        observing: Join no group, and measure the groups that would be led.
        why: Why this process replaces another one; empty if it does not.

    Raises:
        SettingsError, AgentError: See `Agent`.
    """
    stop = threading.Event()
    probing = True

    def on_signal(number: int, _: FrameType | None) -> None:
        log.info("stopping", signal=signal.Signals(number).name)
        if probing:
            raise SystemExit(0)  # nothing is started, and unreachable brokers would delay the end for seconds
        stop.set()

    agent = Agent(_observing(settings) if observing else settings)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, on_signal)
    agent.probe_brokers()
    probing = False
    agent.start()
    lifeline = Lifeline(line, present=agent.presences, well=agent.is_well, received=reception, lost=stop.set)
    if why:
        agent.events.add("worker", action="replaced", reason=why)
    agent.on_presence = lifeline.tell
    lifeline.start()
    log.info(
        "started",
        process=os.getpid(),
        groups=list(settings.groups),
        url=f"http://{agent.web.host}:{agent.web.port}/metrics",
    )
    stop.wait()
    agent.stop()
    with suppress(OSError):
        lifeline.tell()  # the supervisor leaves the memberships that are still in a group
    log.info("stopped")
