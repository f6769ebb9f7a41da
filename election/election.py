"""The agent's part in the election: a thread that stays in the agents' group, and its results for other packages.

An agent that the election does not need waits outside it (`election.waiting`). An agent without permission to
take part acts as if it were alone, and logs that; fencing by the instance id in the led group still keeps two of them
from leading at once. While the agents' group cannot be reached the last verdict stays in force. An agent that was
fenced by another one with its identity drops all responsibilities, and waits until that one has left.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from typing import Final

import structlog
from kafka import errors as kafka_errors
from kafka.net.compat import KafkaNetClient

from samerack.cluster.client import close, connect
from samerack.cluster.errors import RefusedError
from samerack.cluster.refusals import next_pause
from samerack.common.errors import AgentError
from samerack.common.kafka_config import for_kafka_python
from samerack.common.settings import Settings
from samerack.election.counting import EVERYTHING, Claims
from samerack.election.member import ElectionMember
from samerack.election.model import NO_TOLD, Advertisement, Told, Verdict
from samerack.election.outcome import Outcome
from samerack.election.places import ROOM, UNREGISTERED_ROOM
from samerack.election.reader import RegistryReader
from samerack.election.waiting import Waiting

log = structlog.get_logger("election")

_TURN_SECONDS: Final = 0.5
_JOIN_SECONDS: Final = 0.5
_RETRY_SECONDS: Final = 1.0
_REFUSED_SECONDS: Final = 60.0
_DISPLACED_SECONDS: Final = 5.0
_REFUSED: Final = (
    kafka_errors.GroupAuthorizationFailedError,
    kafka_errors.InconsistentGroupProtocolError,
    kafka_errors.InvalidGroupIdError,
)
_CURES: Final[Mapping[type, str]] = {
    kafka_errors.GroupAuthorizationFailedError: "allow Read on the group, or set election.group to one that is allowed",
    kafka_errors.InconsistentGroupProtocolError: "the group is used for something else: set election.group to another",
    kafka_errors.InvalidGroupIdError: "set election.group to a name that brokers allow",
}


class Election(threading.Thread):
    """The thread of this agent's part in the election."""

    def __init__(self, settings: Settings, *, presence: Advertisement) -> None:
        """Prepare; `start` begins.

        Args:
            settings: All settings; `election.group` is not empty.
            presence: What this agent advertises.
        """
        super().__init__(name="election", daemon=True)
        self._settings = settings
        self._presence = presence
        self._member: ElectionMember | None = None
        self._waiting: Waiting | None = None
        self._registers = True
        self._told: frozenset[Told] = NO_TOLD
        self._refused = ""
        self._displaced = False
        self.elections = 0
        self._listeners: list[Callable[[], None]] = []
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._reader = RegistryReader(settings, changed=self._wake.set)
        self._outcome = Outcome(self._reader)

    # read by other packages

    @property
    def term(self) -> int:
        """Number of the last election that this agent took part in; 0 before the first."""
        return self._outcome.term

    @property
    def agents(self) -> int:
        """How many agents took part; 0 while this one waits outside."""
        verdict = self._outcome.verdict
        return verdict.agents if verdict is not None else 0

    @property
    def waiting_agents(self) -> int:
        """How many agents wait outside the election; 0 while this one is active for nothing."""
        return self._reader.registry.waiting if self.held else 0

    @property
    def is_outside(self) -> bool:
        """Whether this agent waits outside the election at the moment."""
        return self._waiting is not None

    @property
    def held(self) -> AbstractSet[str]:
        """What this agent is active for."""
        verdict = self._outcome.verdict
        return verdict.active if verdict is not None else frozenset()

    @property
    def racks(self) -> Mapping[str, str]:
        """Rack by address of a host; empty while this agent is active for nothing."""
        return self._outcome.racks

    def rack_of(self, host: str) -> str | None:
        """Return the rack of the host with this address, if an agent runs on it."""
        return self.racks.get(host)

    @property
    def refused(self) -> str:
        """Why this agent cannot take part, so that it acts as if alone; "" while it can."""
        return self._refused

    @property
    def trouble(self) -> str:
        """Why this agent is inactive although it could act; "" while it takes part or waits."""
        identity = self._presence.identity
        return f"fenced: another agent has the election.identity {identity!r}" if self._displaced else ""

    def is_active(self, duty: str) -> bool:
        """Return whether this agent has this responsibility."""
        return bool(self._refused) or duty in self.held

    def has_deputy(self, duty: str) -> bool:
        """Return whether another agent would take over if this one stopped."""
        verdict = self._outcome.verdict
        return verdict is not None and duty in verdict.deputized

    def listen(self, listener: Callable[[], None]) -> None:
        """Call `listener`, on the election's thread, after every election."""
        self._listeners.append(listener)

    @property
    def claims(self) -> Claims:
        """What this agent counts, as far as it knows."""
        return EVERYTHING if self._refused else self._outcome.claims

    def sure_claims(self) -> Claims | None:
        """Return `claims`; None while another agent may count the same without this one's knowledge."""
        outcome, member, waiting = self._outcome, self._member, self._waiting
        claims, verdict = outcome.claims, outcome.verdict
        if self._refused or verdict is None:
            return self.claims
        if self._stopping.is_set():
            return None
        if waiting is not None:
            sure = waiting.is_sure()
        else:
            sure = member is not None and member.is_sure_of(verdict) and outcome.knows_those_outside()
        return claims if sure and claims is outcome.claims else None

    def tell(self, told: frozenset[Told]) -> None:
        """Advertise which members report their reads to this agent, by another election."""
        if told != self._told:
            self._told = told
            self._wake.set()

    # the thread

    def stop(self) -> None:
        """Ask the thread to leave the agents' group at once and end: the others elect without this agent."""
        self._stopping.set()
        self._reader.stop()
        self._wake.set()

    def run(self) -> None:
        """Take part or wait outside until stopped."""
        refused_pause = 0.0
        while not self._stopping.is_set():
            pause = _RETRY_SECONDS
            try:
                self._session()
                pause = 0.0
            except RefusedError as error:
                pause = refused_pause = next_pause(refused_pause)
                log.warning("election-failed", error=str(error), retry_seconds=pause)
            except _REFUSED as error:
                self._refuse(f"{type(error).__name__}: {_CURES[type(error)]}")
                pause = _REFUSED_SECONDS
            except kafka_errors.FencedInstanceIdError:
                self._give_up()
                pause = _DISPLACED_SECONDS
            except (kafka_errors.KafkaError, AgentError) as error:
                refused_pause = 0.0
                log.warning("election-failed", error=f"{type(error).__name__}: {error}", retry_seconds=pause)
            except Exception as error:  # an error here must not affect the agent's other work
                log.exception("election-failed", error=str(error), retry_seconds=pause)
            self._stopping.wait(pause)

    def _session(self) -> None:
        """Run one period in the election, or outside it."""
        client = connect(for_kafka_python(self._settings.kafka))
        try:
            waiting = Waiting(
                client,
                settings=self._settings.election,
                presence=self._presence,
                wake=self._wake.set,
                registers=self._registers,
            )
            if self._displaced:
                while waiting.is_displaced():
                    if self._stopping.wait(_DISPLACED_SECONDS):
                        return
                self._displaced = False
            if waiting.is_needed(self._stopping.wait):
                self._take_part(client)
            elif not self._stopping.is_set():
                self._wait_outside(waiting)
        finally:
            close(client)

    def _take_part(self, client: KafkaNetClient) -> None:
        """Take part until stopped, or until the election does not need this agent."""
        member = ElectionMember(client, settings=self._settings.election, presence=self._presence, wake=self._wake.set)
        member.verdict, member.told = self._outcome.verdict, self._told
        self._member = member
        try:
            while not self._stopping.is_set() and not self._may_go(member):
                self._turn(member)
                self._wake.wait(_TURN_SECONDS)
                self._wake.clear()
        finally:
            self._member = None
            member.leave()

    def _may_go(self, member: ElectionMember) -> bool:
        verdict = self._outcome.verdict
        room = ROOM if self._registers else UNREGISTERED_ROOM
        return verdict is not None and verdict.waits and verdict.agents > room and not member.wants_join

    def _turn(self, member: ElectionMember) -> None:
        member.poll_heartbeat()
        if member.fenced:
            raise kafka_errors.FencedInstanceIdError(self._presence.identity)
        if member.told != self._told:
            member.told = self._told
            member.trigger("clients tell what they read")
        if not member.wants_join:
            if self._outcome.settle():
                self._tell()
            return
        if not member.join(_JOIN_SECONDS):
            self._wake.set()
            return
        self._refuse("")
        if member.verdict is not None:
            self._elected(member.verdict, member.member_id)

    def _wait_outside(self, waiting: Waiting) -> None:
        """Wait outside until stopped, or needed in the election."""
        self._refuse("")
        self._outcome.end()
        self._waiting = waiting
        self._tell()
        log.info("waits-outside", agents=waiting.members_inside, group=waiting.group if waiting.registers else None)
        try:
            while not self._stopping.is_set():
                if waiting.turn(self._told) and self._is_needed(waiting):
                    log.info("is-needed", agents=waiting.members_inside)
                    return
                self._outcome.claim(waiting.claims(time.monotonic()))
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
            log.info("look-failed", error=f"{type(error).__name__}: {error}")
            waiting.look_later()
            return False

    # results

    def _refuse(self, reason: str) -> None:
        if reason and reason != self._refused:
            log.error("acts-alone", group=self._settings.election.group, reason=reason)
        changed = reason != self._refused
        self._refused = reason
        if changed:
            self._tell()

    def _give_up(self) -> None:
        """Drop all responsibilities: they belong to another agent with this one's identity."""
        log.error("fenced", identity=self._presence.identity, cure="give every agent its own election.identity")
        self._displaced = True
        self._outcome.end()
        self._tell()

    def _may_not_register(self, waiting: Waiting, error: Exception) -> None:
        self._registers = False
        log.error(
            "may-not-wait-outside",
            group=waiting.group,
            reason=f"{type(error).__name__}: {error}",
            consequence=f"takes part in the election while it has no more than {UNREGISTERED_ROOM} agents",
            cure=f"allow Read on groups with the prefix {self._settings.election.group}",
        )

    def _elected(self, verdict: Verdict, member_id: str) -> None:
        if not self._outcome.elected(verdict, member_id):
            return
        self.elections += 1
        log.info(
            "elected", term=verdict.term, agents=verdict.agents, active=sorted(verdict.active), hosts=len(self.racks)
        )
        self._tell()

    def _tell(self) -> None:
        for listener in self._listeners:
            listener()
