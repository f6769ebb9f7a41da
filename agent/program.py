"""The agent process: a list of services that is started in order, and stopped on SIGTERM or Ctrl-C in reverse.

`agent.assembly` builds the parts, `agent.health` says which of them do not work.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from types import FrameType
from typing import Final

import structlog

from samerack.agent.assembly import STOP_SECONDS, AgentParts
from samerack.agent.health import Health
from samerack.agent.publishing.topic_names import topics_of
from samerack.agent.reporting.ledger import Ledger
from samerack.agent.reporting.money_metrics import MoneyCollector
from samerack.agent.reporting.report_service import ReportService
from samerack.agent.supervisor.lifeline import Lifeline
from samerack.agent.supervisor.line import MemberIdentity
from samerack.agent.web import api as web_api
from samerack.agent.web import client_reports as web_client_reports
from samerack.agent.web import page as web_page
from samerack.agent.web import takeover as web_takeover
from samerack.agent.web.server import WebServer, application
from samerack.cluster.client import close, connect, reception
from samerack.common.errors import AgentError, RefusedError
from samerack.common.kafka_config import for_kafka_python
from samerack.common.service import Service
from samerack.common.settings import Settings
from samerack.election.metrics import ElectionCollector
from samerack.planning import planner

log = structlog.get_logger("agent")

_MIN_JOIN_SECONDS: Final = 0.1
_PROBE_SECONDS: Final = 3.0


class Agent:
    """One agent: its services, what it shows, and what it reports to its supervisor."""

    def __init__(self, settings: Settings) -> None:
        """Builds all parts; wrong settings fail here.

        Raises:
            SettingsError: No group is named, or a client refuses a Kafka setting.
            AgentError: The port is in use.
        """
        self.on_member_ids: Callable[[], None] = lambda: None
        """Called when the agent's member ids change, which the supervisor must know at once."""
        self.parts = AgentParts(settings, notify_supervisor=self._notify_supervisor)
        self._services = tuple(_services(self.parts))
        self.health = Health(self.parts, self._services)
        self.parts.metrics.up.set_function(lambda: float(not self.health.unready()))
        reports = self._reports()
        self.web = self._web_server(reports)

    def _reports(self) -> ReportService:
        """Returns the reports of traffic and money, and registers their metrics."""
        parts, settings = self.parts, self.parts.settings
        reports = ReportService(
            board=parts.traffic,
            roles=parts.roles,
            events=parts.events,
            prices=parts.prices,
            leading=settings.leading,
            own_rack=settings.traffic.rack,
            bootstrap=settings.kafka["bootstrap.servers"],
            more_gaps=self.health.gaps,
            statuses=parts.metrics.board.all,
            server_assignors=lambda: parts.watch.server_assignors,
        )
        ledger = Ledger(parts.prices, roles=parts.roles, own_share=reports.own_share)
        parts.traffic.listen(ledger.take)
        parts.metrics.registry.register(
            MoneyCollector(
                reports,
                ledger,
                max_series=settings.traffic.max_series,
                active=lambda: parts.leadership.claims.counts_groups,
            )
        )
        parts.metrics.registry.register(ElectionCollector(parts.election))
        return reports

    def _web_server(self, reports: ReportService) -> WebServer:
        parts, web = self.parts, self.parts.settings.web
        return WebServer(
            application(
                parts.metrics,
                healthy=self.health.unhealthy,
                ready=self.health.unready,
                more=(
                    *web_api.routes(reports, status=self.health.status),
                    *web_page.routes(reports),
                    *web_takeover.routes({leader.group: leader for leader in parts.leaders}),
                    *(web_client_reports.routes(parts.measuring.post) if parts.measuring is not None else ()),
                ),
                hosts=web.hosts,
            ),
            host=web.host,
            port=web.port,
        )

    def member_ids(self) -> frozenset[MemberIdentity]:
        """Returns every member id of the agent in the groups that it leads or is to lead."""
        return frozenset(one for leader in self.parts.leaders for one in leader.member_ids())

    def _notify_supervisor(self) -> None:
        self.on_member_ids()

    def probe_brokers(self) -> None:
        """Connects to the brokers once, so that an agent that they refuse fails at its start.

        Raises:
            RefusedError: TLS or SASL fails.
        """
        settings = self.parts.settings
        log.info("pod-rack", rack=settings.traffic.rack or None, answers=self.parts.rack_answers)
        try:
            close(connect(for_kafka_python(settings.kafka), _PROBE_SECONDS))
        except RefusedError:
            raise
        except AgentError as error:
            log.warning("kafka-unreachable", error=str(error))

    def start(self) -> None:
        """Starts all services, and before them what they record to and what shows them."""
        if self.parts.writer is not None:
            self.parts.writer.start()
        self.web.start()
        for service in self._services:
            service.start()

    def stop(self) -> None:
        """Hands every group over or leaves it, and ends all services within STOP_SECONDS."""
        deadline = time.monotonic() + STOP_SECONDS
        for service in reversed(self._services):
            service.stop()
        self.web.end()  # open connections take a second to close, which runs in parallel with the rest
        for service in reversed(self._services):
            if service.is_awaited:
                service.join(_left(deadline))
        if self.parts.writer is not None:
            self.parts.writer.stop()  # after all services that may still add events
            self.parts.writer.join(_left(deadline))
        self.web.stop()


def _services(parts: AgentParts) -> Iterator[Service]:
    """Yields the services in the order in which they start; they stop in the reverse order.

    The leaders stop first, then the election: other agents elect and take the memberships over while the leaders still
    wait. What is measured last is published last.
    """
    if parts.publisher is not None:
        yield parts.publisher
    if parts.measuring is not None:
        yield parts.measuring
    if parts.pods is not None:
        yield parts.pods
    yield parts.poller
    yield parts.watch
    if parts.election is not None:
        yield parts.election
    yield from reversed(parts.leaders)


def _left(deadline: float) -> float:
    """Returns the seconds until the deadline, or a moment if it is over."""
    return max(_MIN_JOIN_SECONDS, deadline - time.monotonic())


def _observing(settings: Settings) -> Settings:
    """Returns the settings of an agent that leads no group and measures those that it would lead."""
    traffic = settings.traffic.model_copy(update={"groups": settings.traffic.groups or settings.groups})
    return settings.model_copy(update={"groups": (), "traffic": traffic})


def get_ready(settings: Settings) -> None:
    """Loads what an agent of these settings needs and this module does not load, before processes are forked."""
    if not settings.election.group:
        planner.warm_up()  # it leads from its start; with an election it may never lead
    if topics_of(settings):
        import samerack.agent.publishing.publisher  # noqa: F401, PLC0415 - librdkafka: for publishing only


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

    for number in (signal.SIGTERM, signal.SIGINT):  # before anything connects
        signal.signal(number, on_signal)
    agent = Agent(_observing(settings) if observing else settings)
    agent.probe_brokers()
    probing = False
    agent.start()
    lifeline = Lifeline(
        line,
        member_ids=agent.member_ids,
        makes_progress=agent.health.makes_progress,
        reception=reception,
        on_lost=stop.set,
    )
    if why:
        agent.parts.events.add("worker", action="replaced", reason=why)
    agent.on_member_ids = lifeline.send
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
        lifeline.send()  # the supervisor leaves the memberships that are still in a group
    log.info("stopped")
