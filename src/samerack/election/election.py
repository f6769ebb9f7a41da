"""The agent's part in the election: a thread that stays in the agents' group, and its metrics.

An agent that the election does not need waits outside it (`election.waiting`). An agent without permission to
take part acts as if it were alone, and logs that; fencing by the instance id in the led group still keeps two of them
from leading at once. While the agents' group cannot be reached the last verdict stays in force. An agent that was
fenced by another one with its identity drops all responsibilities, and waits until that one has left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Final

import structlog
from kafka import errors as kafka_errors
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from samerack.auth.kafka_config import for_kafka_python
from samerack.cluster.client import ClusterClient, connect
from samerack.cluster.group import STABLE
from samerack.common.errors import AgentError, one_line
from samerack.common.service import Service
from samerack.election.leadership_state import LeadershipState, Tenures
from samerack.election.member import ROOM, UNREGISTERED_ROOM, ElectionMember, responsibilities_of
from samerack.election.messages import Advertisement, Verdict, lead, led_by, observed_by
from samerack.election.registry import RegistryReader
from samerack.election.waiting import Waiting
from samerack.settings.all_settings import Settings

log = structlog.get_logger("election")

_TURN_SECONDS: Final = 0.5
_JOIN_SECONDS: Final = 0.5
_REFUSED_SECONDS: Final = 60.0
_DISPLACED_SECONDS: Final = 5.0
_REFUSED: Final = (
    kafka_errors.GroupAuthorizationFailedError,
    kafka_errors.InconsistentGroupProtocolError,
    kafka_errors.InvalidGroupIdError,
    kafka_errors.InvalidSessionTimeoutError,
)
_CURES: Final[Mapping[type, str]] = {
    kafka_errors.GroupAuthorizationFailedError: "allow Read on the group, or set election.group to one that is allowed",
    kafka_errors.InconsistentGroupProtocolError: "the group is in use for something else; set election.group to "
    "another name",
    kafka_errors.InvalidGroupIdError: "set election.group to a name that brokers allow",
    kafka_errors.InvalidSessionTimeoutError: "set election.session_timeout_seconds between the brokers' "
    "group.min.session.timeout.ms and group.max.session.timeout.ms",
}


class Election(LeadershipState, Service):
    """The thread of this agent's part in the election."""

    failure_event = "election-failed"
    expected_errors = (kafka_errors.KafkaError, AgentError)
    may_hurry = False  # `wake` is for what this agent advertises
    is_awaited = True

    def __init__(self, settings: Settings, *, advertisement: Advertisement) -> None:
        """Prepare; `start` begins. `election.group` of the settings is not empty."""
        Service.__init__(self, "election")
        self._reader = reader = RegistryReader(settings, changed=self.wake)
        LeadershipState.__init__(
            self,
            group=settings.election.group,
            identity=advertisement.identity,
            registry=reader.registry,
            follow=lambda active: reader.follow(active=active),
        )
        self._settings = settings
        self._advertisement = advertisement
        self._member: ElectionMember | None = None
        self._waiting: Waiting | None = None
        self._registers = True
        self._has_successor = False
        self.hands_over: Callable[[], bool] = lambda: False
        """Whether this agent, after `stop`, still waits for another one to take a group over."""
        self._own_responsibilities = advertisement.responsibilities

    # called by other packages

    @property
    def is_outside(self) -> bool:
        """Whether this agent waits outside the election at the moment."""
        return self._waiting is not None

    @property
    def trouble(self) -> str:
        """Why this agent is inactive although it could act; "" while it takes part or waits."""
        takes_part = self.is_outside or (self._verdict is not None and self._verdict.agents)
        return super().trouble or ("" if takes_part else self.last_error)

    def sure_tenures(self) -> Tenures | None:
        """Return `tenures`; None while another agent may have been elected without this one's knowledge."""
        tenures, verdict = self.tenures, self._verdict
        if self.refused or not tenures.held:
            return tenures
        is_sure = verdict is not None and self._is_sure_of(verdict) and tenures is self._tenures
        return tenures if is_sure else None

    def is_surely_active(self, responsibility: str) -> bool:
        """Return whether this agent has the responsibility, and no later election can have given it to another one."""
        verdict = self._verdict
        if self.refused or verdict is None:
            return False
        return responsibility in verdict.active and self._is_sure_of(verdict)

    def _is_sure_of(self, verdict: Verdict) -> bool:
        """Return whether no later election than this one can have been held without this agent's knowledge."""
        member = self._member
        return not self._stopping.is_set() and member is not None and member.is_sure_of(verdict)

    def offer(self, groups: Iterable[str]) -> None:
        """Offer to lead these groups as well as those of the settings, by another election if they are new."""
        responsibilities = (*self._own_responsibilities, *map(lead, groups))
        if responsibilities != self._advertisement.responsibilities:
            self._advertisement = self._advertisement.model_copy(update={"responsibilities": responsibilities})
            self.wake()

    def stop_for_successor(self) -> None:
        """Ask the thread to end; the next process of this agent continues its part in the election."""
        self._has_successor = True
        self.stop()

    def stop(self) -> None:
        """Ask the thread to leave the agents' group at once and end: the others elect without this agent."""
        self._reader.stop()
        super().stop()

    # the thread

    def turn(self) -> float:
        """Take part or wait outside until that has to begin anew."""
        try:
            self._session()
        except _REFUSED as error:
            self._refuse(f"{type(error).__name__}: {_CURES[type(error)]}")
            self._stopping.wait(_REFUSED_SECONDS)
        except kafka_errors.FencedInstanceIdError:
            self._give_up()
            self._stopping.wait(_DISPLACED_SECONDS)
        return 0.0

    def _session(self) -> None:
        """Run one period in the election, or outside it."""
        client = connect(for_kafka_python(self._settings.kafka))
        try:
            waiting = Waiting(
                client,
                settings=self._settings.election,
                advertisement=self._advertisement,
                wake=self.wake,
                registers=self._registers,
            )
            if self._displaced:
                while waiting.is_displaced():
                    if self._stopping.wait(_DISPLACED_SECONDS):
                        return
                self._displaced = False
            if waiting.is_needed(self._stopping.wait):
                self._take_part(client, waiting.former)
                self._watch_successors(waiting)
            elif not self._stopping.is_set():
                self._wait_outside(waiting)
        finally:
            client.close()

    def _take_part(self, client: ClusterClient, former: Advertisement | None) -> None:
        """Take part until stopped, or until the election does not need this agent.

        `former` is what a former process of this agent advertises there. A static member's return is not a
        rebalance, so that no election counts what this process advertises instead.
        """
        member = ElectionMember(
            client, settings=self._settings.election, advertisement=self._advertisement, wake=self.wake
        )
        member.verdict = self._verdict
        self._member = member
        is_unheard = former is not None and set(former.responsibilities) != set(self._advertisement.responsibilities)
        try:
            while not self._stopping.is_set() and not self._may_go(member):
                self._turn(member)
                if is_unheard and not member.wants_join:
                    is_unheard = False
                    member.trigger("leads other groups than the process before it")
                self._wake.wait(_TURN_SECONDS)
                self._wake.clear()
        finally:
            self._member = None
            if not self._has_successor:
                member.leave()

    def _watch_successors(self, waiting: Waiting) -> None:
        """Watch the election that this agent has left while its groups wait for others: those in it may leave, too."""
        while self._stopping.is_set() and not self._has_successor and self.hands_over():
            with suppress(kafka_errors.KafkaError):
                group = waiting.poll()
                if group.group_state == STABLE or not group.members:  # else it does not show what they offer
                    self._is_left_to(responsibilities_of(group))
            self._wake.wait(_TURN_SECONDS)
            self._wake.clear()

    def _may_go(self, member: ElectionMember) -> bool:
        """Return whether the election does not need this agent."""
        verdict = self._verdict
        room = ROOM if self._registers else UNREGISTERED_ROOM
        return verdict is not None and verdict.waits and verdict.agents > room and not member.wants_join

    def _turn(self, member: ElectionMember) -> None:
        """Advertise what is new, join if needed, and record the verdict."""
        member.poll_heartbeat()
        if member.fenced:
            raise kafka_errors.FencedInstanceIdError(self._identity)
        member.advertisement = self._advertisement
        if not member.wants_join and member.news:
            member.trigger(member.news)
        if not member.wants_join:
            self._merge_racks()
            return
        if not member.join(_JOIN_SECONDS):
            self.wake()
            return
        self._refuse("")
        if member.verdict is not None:
            self._elected(member.verdict, member.member_id, member.offered)

    def _wait_outside(self, waiting: Waiting) -> None:
        """Wait outside until stopped, or needed in the election."""
        self._refuse("")
        self._end()
        self._waiting = waiting
        self._notify()
        log.info("waits-outside", agents=waiting.members_inside, group=waiting.group if waiting.registers else None)
        try:
            while not self._stopping.is_set():
                waiting.advertisement = self._advertisement
                if waiting.turn() and self._is_needed(waiting):
                    log.info("enters-election", agents=waiting.members_inside)
                    return
                self._wake.wait(_TURN_SECONDS)
                self._wake.clear()
        except _REFUSED as error:
            self._may_not_register(waiting, error)
        finally:
            self._waiting = None
            waiting.leave()

    def _is_needed(self, waiting: Waiting) -> bool:
        try:
            return waiting.is_needed(self._stopping.wait)
        except kafka_errors.KafkaError as error:
            log.info("poll-failed", error=one_line(error))
            waiting.poll_later()
            return False

    def _may_not_register(self, waiting: Waiting, error: Exception) -> None:
        """Record that this agent may not join its waiting group, so that it takes part in larger elections as well."""
        self._registers = False
        log.error(
            "may-not-wait-outside",
            group=waiting.group,
            reason=one_line(error),
            consequence=f"takes part in the election while it has no more than {UNREGISTERED_ROOM} agents",
            cure=f"allow Read on groups with the prefix {self._settings.election.group}"
            if isinstance(error, kafka_errors.GroupAuthorizationFailedError)
            else _CURES[type(error)],
        )


_KINDS: Final = {"lead": led_by, "observe": observed_by}


class ElectionCollector(Collector):
    """The election's metric families; without an election they only show that the agent is alone."""

    def __init__(self, election: LeadershipState) -> None:
        self._election = election

    def collect(self) -> Iterator[Metric]:
        """Yield all families."""
        election = self._election
        yield GaugeMetricFamily(
            "samerack_election_agents",
            "Agents in the last election; 0 if this agent took no part.",
            value=election.agents,
        )
        yield GaugeMetricFamily(
            "samerack_waiting_agents",
            "Agents that wait outside the election.",
            value=election.waiting_agents,
        )
        yield GaugeMetricFamily(
            "samerack_acts_alone",
            "1 while this agent acts alone: without election.group, or without READ on it.",
            value=float(bool(election.refused)),
        )
        responsibilities = GaugeMetricFamily(
            "samerack_responsibilities",
            "Groups to lead and patterns to observe for which this agent is active.",
            labels=["kind"],
        )
        for kind, of in _KINDS.items():
            responsibilities.add_metric([kind], len(of(election.held)))
        yield responsibilities
        yield GaugeMetricFamily(
            "samerack_known_hosts",
            "Addresses of hosts whose rack other agents report.",
            value=len(election.racks),
        )
        yield CounterMetricFamily(
            "samerack_elections",
            "Elections that this agent took part in.",
            value=election.elections,
        )
