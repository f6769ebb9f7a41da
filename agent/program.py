"""The agent process: what it does in one cluster or in several, its HTTP server, and its end on SIGTERM or Ctrl-C.

`agent.cluster_agent` has the services of a cluster, `agent.assembly` builds their parts, `agent.health` says which of
them do not work.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import partial
from types import FrameType
from typing import Final

import structlog
from starlette.applications import Starlette
from starlette.routing import Mount
from structlog.contextvars import bound_contextvars

from samerack.agent.cluster_agent import ClusterAgent, stop_deadline
from samerack.agent.otel import MetricsExport
from samerack.agent.publishing.outbox import topics_of
from samerack.agent.settings_source import SettingsSource, cluster_settings, continues
from samerack.agent.settings_watch import SettingsWatch
from samerack.agent.supervisor.lifeline import Lifeline
from samerack.agent.supervisor.line import RENEWS, MemberIdentity
from samerack.agent.web import clusters as web_clusters
from samerack.agent.web.server import WebServer, application, metrics_route
from samerack.cluster.client import auth_status
from samerack.common.fetching import with_port
from samerack.common.patterns import EVERY
from samerack.planning import planner
from samerack.settings.all_settings import Settings, cluster_path
from samerack.settings.publishing import OtelSettings

log = structlog.get_logger("agent")

_SIGNALS_SECONDS: Final = 1.0
"""A handler runs in the main thread; a signal that the kernel gives to another one does not end its wait."""

_ACCEPTED: Final = ""


class Agent:
    """One agent: what it does in each of its clusters, what it shows, and what it reports to its supervisor."""

    def __init__(self, settings: Settings, *, keeps_trying: bool = False) -> None:
        """Build all parts; wrong settings fail here. If it `keeps_trying`, it also starts if brokers refuse it.

        Raises:
            SettingsError: No group is named, or a client refuses a Kafka setting.
            AgentError: The port is in use.
        """
        self.on_member_ids: Callable[[], None] = lambda: None
        """Called when the agent's member ids change, which the supervisor must know at once."""
        self.clusters: dict[str, ClusterAgent] = {}
        """By the name of the cluster, which is empty where the settings are those of one."""
        self._has_several = bool(settings.clusters)
        self._may_be_refused = keeps_trying or self._has_several
        for name, own in cluster_settings(settings).items():
            with self._named(name):
                self.clusters[name] = ClusterAgent(own, notify_supervisor=self._notify_supervisor)
        self._export = self._metrics_export(settings.otel) if settings.otel.endpoint else None
        app = self._app_of_several() if self._has_several else self._app_of_one()
        self.web = WebServer(app, host=settings.web.host, port=settings.web.port, unix=settings.web.socket)

    def _named(self, cluster: str) -> AbstractContextManager[None]:
        """Return a context of one cluster: what begins in it, threads too, is logged with the cluster's name."""
        return bound_contextvars(cluster=cluster) if cluster else nullcontext()

    def _metrics_export(self, settings: OtelSettings) -> MetricsExport:
        registries = {name: one.parts.metrics.registry for name, one in self.clusters.items()}
        shown = web_clusters.ClusterMetrics(registries) if self._has_several else registries[""]
        return MetricsExport(settings, shown.collect)

    def _app_of_one(self) -> Starlette:
        (one,) = self.clusters.values()
        routes, cluster = one.routes(), one.parts.settings.cluster
        # commands with the same settings ask below the path of their cluster
        metrics = metrics_route(one.parts.metrics.exposition)
        below = [Mount(cluster_path(cluster), routes=(*routes, metrics))] if cluster else []
        return application(
            one.parts.metrics.exposition,
            healthy=one.health.unhealthy,
            ready=one.health.unready,
            notes=one.health.notes,
            more=(*routes, *below),
            hosts=one.parts.settings.web.hosts,
        )

    def _app_of_several(self) -> Starlette:
        shown = tuple(
            web_clusters.ShownCluster(
                name=name,
                reports=one.reports,
                registry=one.parts.metrics.registry,
                unhealthy=one.health.unhealthy,
                unready=one.health.unready,
                routes=one.routes(),
            )
            for name, one in self.clusters.items()
        )
        return web_clusters.application_of(shown, hosts=next(iter(self.clusters.values())).parts.settings.web.hosts)

    def member_ids(self) -> frozenset[MemberIdentity]:
        """Return every member id of the agent in the groups that it leads or is to lead."""
        return frozenset(member_id for cluster in self.clusters.values() for member_id in cluster.member_ids())

    def _notify_supervisor(self) -> None:
        self.on_member_ids()

    def auth_status(self) -> str | None:
        """Return whether brokers accept the agent, see `Lifeline`; where a refusal ends no agent, they do."""
        return _ACCEPTED if self._may_be_refused else auth_status()

    def makes_progress(self) -> bool:
        """Return whether every thread runs, and no group waits for an overdue plan."""
        return all(cluster.makes_progress() for cluster in self.clusters.values())

    def probe_brokers(self) -> None:
        """Connect to the brokers once, so that an agent that they refuse fails at its start.

        An agent of several clusters, or one that keeps trying, starts in any case and shows which brokers refuse it.

        Raises:
            RefusedError: TLS or SASL fails.
        """
        one = next(iter(self.clusters.values()))
        log.info("pod-rack", rack=one.parts.settings.traffic.rack or None, answers=one.parts.rack_answers)
        if not self._may_be_refused:
            one.probe_brokers()

    def start(self) -> None:
        """Start what shows the clusters, and their services."""
        self.web.start()
        for name, one in self.clusters.items():
            with self._named(name):
                one.start()
        if self._export is not None:
            self._export.start()

    def stop(self) -> None:
        """Hand every group over or leave it, and end everything else within STOP_SECONDS."""
        for cluster in self.clusters.values():
            cluster.stop()
        self._end()

    def stop_at_once(self) -> None:
        """Have `stop` hand nothing over from now on; any thread may ask."""
        for cluster in self.clusters.values():
            cluster.stop_at_once()

    def stop_for_successor(self, continues: Callable[[str], bool]) -> None:
        """End everything as `stop` does, for another process of this agent that begins at once.

        That process `continues` the membership of some groups; the others are left.
        """
        for cluster in self.clusters.values():
            cluster.stop_for_successor(continues)
        self._end()

    def _end(self) -> None:
        deadline = stop_deadline()
        if self._export is not None:
            self._export.stop()
        self.web.end()  # open connections take a second to close, which runs in parallel with the rest
        for cluster in self.clusters.values():
            deadline = cluster.wait_handed_over(deadline)
        for cluster in self.clusters.values():
            cluster.join(deadline)
        self.web.stop()


def only_observing(settings: Settings) -> Settings:
    """Return the settings of an agent that leads no group and measures those that it would lead, or all."""
    groups = settings.traffic.groups or settings.groups or (EVERY,)
    traffic = settings.traffic.model_copy(update={"groups": groups})
    return settings.model_copy(update={"groups": (), "traffic": traffic})


def get_ready(settings: Settings) -> None:
    """Load what an agent of these settings needs and this module does not load, before it connects."""
    if not settings.election.group:
        planner.warm_up()  # it leads from its start; with an election it may never lead
    if topics_of(settings):
        import samerack.agent.publishing.publisher  # noqa: F401, PLC0415 - librdkafka: for publishing only


def run(
    source: SettingsSource, *, line: socket.socket, observing: bool, keeps_trying: bool = False, why: str = ""
) -> None:
    """Run an agent until SIGTERM or SIGINT, until its supervisor has ended, or until its settings have changed.

    `line` is the socket to the supervisor. If it is `observing`, it joins no group, and measures those that would be
    led. For `keeps_trying` see `Agent`. `why` is why this process replaces another one; empty if it does not.

    Raises:
        SettingsError, AgentError: See `Agent`.
        SystemExit: With the code RENEWS if the settings have changed: the next process begins with the new ones.
    """
    settings = source.settings
    stop = threading.Event()
    changed: list[Settings] = []
    probing = True

    def on_signal(number: int, _: FrameType | None) -> None:
        log.info("stopping", signal=signal.Signals(number).name)
        if probing:
            raise SystemExit(0)  # nothing is started, and unreachable brokers would delay the end for seconds
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):  # before anything connects
        signal.signal(number, on_signal)
    agent = Agent(only_observing(settings) if observing else settings, keeps_trying=keeps_trying)

    def on_lost() -> None:
        if stop.is_set():  # the supervisor has got another signal, or has ended: nobody would leave for this process
            agent.stop_at_once()
        stop.set()

    def on_change(found: Settings) -> None:
        changed.append(found)
        stop.set()

    clusters = tuple(agent.clusters.values())
    watch = SettingsWatch(source, metrics=clusters[0].parts.metrics, on_change=on_change)
    agent.probe_brokers()
    probing = False
    agent.start()
    lifeline = Lifeline(
        line,
        settings=lambda: source.in_force,
        member_ids=agent.member_ids,
        makes_progress=agent.makes_progress,
        auth_status=agent.auth_status,
        on_lost=on_lost,
    )
    for cluster in clusters if why else ():
        cluster.parts.events.add("worker", action="replaced", reason=why)
    agent.on_member_ids = lifeline.send
    # before the first sign of life, after which the supervisor may pass a SIGHUP on
    signal.signal(signal.SIGHUP, lambda _number, _frame: watch.ask())
    lifeline.start()
    watch.start()
    log.info(
        "started",
        process=os.getpid(),
        groups=list(settings.groups),
        clusters=list(settings.clusters),
        url=f"http://{with_port(agent.web.host, agent.web.port)}/metrics",
    )
    while not stop.wait(_SIGNALS_SECONDS):
        pass
    watch.stop()
    if changed:
        agent.stop_for_successor(partial(continues, before=settings, now=changed[0]))
        source.renew()
    else:
        agent.stop()
    with suppress(OSError):
        lifeline.send()  # the supervisor leaves or passes on what memberships there still are, and settings
    log.info("stopped")
    if changed:
        raise SystemExit(RENEWS)
