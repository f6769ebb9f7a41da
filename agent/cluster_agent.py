"""What one agent does in one Kafka cluster: its services, its health, and what it shows; `agent.program` runs it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

import structlog
from starlette.routing import BaseRoute

from samerack.agent.assembly import STOP_SECONDS, AgentParts
from samerack.agent.health import Health
from samerack.agent.leading.leader import GroupLeader
from samerack.agent.supervisor.protocol import MemberIdentity
from samerack.agent.web import api as web_api
from samerack.agent.web import page as web_page
from samerack.auth.kafka_config import for_kafka_python
from samerack.cluster.client import connect
from samerack.common.errors import AgentError, RefusedError
from samerack.common.service import Service
from samerack.election.election import Election, ElectionCollector
from samerack.reporting.evidence import StreamsPlanning
from samerack.reporting.money_metrics import BillCollector, Ledger, MoneyCollector
from samerack.reporting.report_service import ReportService
from samerack.settings.all_settings import Settings

log = structlog.get_logger("agent")

_MIN_JOIN_SECONDS: Final = 0.1
_PROBE_SECONDS: Final = 3.0


class ClusterAgent:
    """One cluster's services, and what is shown of it."""

    def __init__(self, settings: Settings, *, notify_supervisor: Callable[[], None] = lambda: None) -> None:
        """Build all parts; wrong settings fail here. `notify_supervisor` is called when the agent's member ids change.

        Raises:
            SettingsError: No group is named, or a client refuses a Kafka setting.
        """
        self.parts = AgentParts(settings, notify_supervisor=notify_supervisor)
        self._services = _services(self.parts)
        self.health = Health(self.parts, self._services)
        self.parts.metrics.up.set_function(lambda: float(not self.health.unready()))
        self.reports = self._reports()
        self._ending: tuple[Service | GroupLeader, ...] = ()

    def _reports(self) -> ReportService:
        """Return the reports of traffic and money, and registers their metrics."""
        parts, settings = self.parts, self.parts.settings
        reports = ReportService(
            board=parts.traffic,
            roles=parts.roles,
            events=parts.events,
            traffic_history=parts.history,
            prices=parts.prices,
            leading=settings.leading,
            own_rack=settings.traffic.rack,
            by="leading-agent" if settings.groups else "observing-agent",
            bootstrap=settings.kafka["bootstrap.servers"],
            more_gaps=self.health.gaps,
            server_assignors=lambda: parts.watch.server_assignors,
            max_group_size=lambda: parts.watch.max_group_size,
            streams_plans=self._streams_plans,
        )
        ledger = Ledger(parts.prices, roles=parts.roles, own_share=reports.own_share)
        parts.traffic.listen(ledger.take)
        parts.metrics.registry.register(
            MoneyCollector(
                reports,
                ledger,
                limits=parts.limits,
                active=lambda: bool(parts.leadership.tenures.held),
            )
        )
        parts.metrics.registry.register(BillCollector(reports, limits=parts.limits))
        parts.metrics.registry.register(ElectionCollector(parts.leadership))
        return reports

    def _streams_plans(self) -> dict[str, StreamsPlanning]:
        """Return how the agent plans the Streams applications whose last plan it made and they used."""
        streams, settings = self.parts.streams, self.parts.settings.streams
        return {
            one.application: StreamsPlanning(
                assignor=one.planned.assignor,
                strategy=one.planned.strategy,
                weights=settings.weights,
            )
            for one in (streams.board.all() if streams is not None else ())
            if one.planned is not None and not one.trouble
        }

    def routes(self) -> tuple[BaseRoute, ...]:
        """Return the page and the API of this cluster."""
        parts = self.parts
        return (
            *web_api.routes(self.reports, status=self.health.status, statuses=parts.metrics.board.all),
            *web_page.routes(
                self.reports,
                statuses=parts.metrics.board.all,
                streams=parts.streams.board.all if parts.streams is not None else tuple,
                notes=self.health.notes,
                wanted=parts.wanted.of,
            ),
            *web_api.leader_routes(parts.led),
            *(web_api.streams_routes(parts.streams) if parts.streams is not None else ()),
            *web_api.statistics_routes(parts.measuring.post),
        )

    def member_ids(self) -> frozenset[MemberIdentity]:
        """Return every member id of the agent in the groups that it leads or is to lead."""
        return frozenset(member_id for leader in self.parts.led.values() for member_id in leader.member_ids())

    def makes_progress(self) -> bool:
        """Return whether every thread runs that was not asked to end, and no group waits for an overdue plan."""
        lost = () if self._ending else self.health.unhealthy()
        return not lost and not any(leader.is_overdue() for leader in self.parts.led.values())

    def probe_brokers(self) -> None:
        """Connect to the brokers once, so that an agent that they refuse fails at its start.

        Raises:
            RefusedError: TLS or SASL fails.
        """
        try:
            connect(for_kafka_python(self.parts.settings.kafka), _PROBE_SECONDS).close()
        except RefusedError:
            raise
        except AgentError as error:
            log.warning("kafka-unreachable", error=str(error))

    def start(self) -> None:
        """Start all services, and before them what they record to."""
        if self.parts.writer is not None:
            self.parts.writer.start()
        if self.parts.streams is not None:
            self.parts.streams.start()
        for service in self._services:
            service.start()
        self.parts.led.start()

    def in_stopping_order(self) -> tuple[Service | GroupLeader, ...]:
        """Return the services as they stop.

        The leaders stop first, then the election: other agents elect and take the memberships over while the leaders
        still wait. What is measured last is published last.
        """
        return (*self.parts.led.values(), *reversed(self._services))

    def stop(self) -> None:
        """Ask all services to end; every group is handed over or left."""
        self.parts.led.close()
        self._ending = self.in_stopping_order()
        for service in self._ending:
            if service is not self.parts.watch:  # `wait_handed_over` ends it
                service.stop()

    def stop_at_once(self) -> None:
        """Leave the groups that wait to be handed over, after `stop`; any thread may ask."""
        for leader in self.parts.led.values():
            leader.stop_at_once()

    def stop_for_successor(self, continues: Callable[[str], bool]) -> None:
        """Ask all services to end as `stop` does, for another process of this agent that begins at once.

        That process `continues` the membership of some groups; the others are left.
        """
        self.parts.led.close()
        leaders = tuple(self.parts.led.values())
        continued = frozenset(leader.group for leader in leaders if continues(leader.group))
        # the memberships last: from their end until the successor is there, nobody sends heartbeats
        self._ending = (*reversed(self._services), *leaders)
        for service in self._ending:
            if (isinstance(service, GroupLeader) and service.group in continued) or (
                isinstance(service, Election) and continued
            ):
                service.stop_for_successor()
            elif isinstance(service, GroupLeader) and continued:
                service.stop_at_once()  # the agent stays in the election: no other one is elected meanwhile
            elif service is not self.parts.watch:
                service.stop()

    def wait_handed_over(self, deadline: float) -> float:
        """Wait until no group waits to be handed over; return when the rest must have ended: then, or a little later.

        A leader that waits for its successor plans for its group, so that it needs the watch.
        """
        for leader in self.parts.led.values():
            leader.join(leader.hand_over_seconds)
        self.parts.watch.stop()
        if self.parts.election is not None:
            self.parts.election.wake()  # it watches for successors no more
        return max(deadline, time.monotonic() + STOP_SECONDS / 2)

    def join(self, deadline: float) -> None:
        """Wait for the services until a moment of the monotonic clock, and end what they record to."""
        for service in self._ending:
            if service.is_awaited:
                service.join(_left(deadline))
        self.parts.client.close()
        if self.parts.writer is not None:
            self.parts.writer.stop()  # after all services that may still add events
            self.parts.writer.join(_left(deadline))
        if self.parts.streams is not None:
            self.parts.streams.stop()


def stop_deadline() -> float:
    """Return when everything that is asked to stop now must have ended, on the monotonic clock."""
    return time.monotonic() + STOP_SECONDS


def _services(parts: AgentParts) -> tuple[Service, ...]:
    """Return the services other than leaders, in the order in which they start."""
    every = (parts.publisher, parts.measuring, parts.pods, parts.poller, parts.watch, parts.election, parts.finder)
    return tuple(service for service in every if service is not None)


def _left(deadline: float) -> float:
    """Return the seconds until the deadline, or a moment if it is over."""
    return max(_MIN_JOIN_SECONDS, deadline - time.monotonic())
