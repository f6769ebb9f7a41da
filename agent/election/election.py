"""The agent's part in the election: a thread that stays in the agents' group, and what came of it for the other rooms.

An agent that cannot take part for want of permission acts as if it were alone, and says so; fencing by the instance
id in the led group still keeps two of them from leading at once. While the agents' group cannot be reached the last
verdict stays in force. What must not enter: leading, measuring.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from types import MappingProxyType
from typing import Final, Protocol

import structlog
from kafka import errors as kafka_errors

from agent.coordination import close, connect
from agent.election.counting import EVERYTHING, NOTHING, Claim, Claims
from agent.election.member import ElectionMember
from agent.election.model import Presence, Told, Verdict
from agent.errors import RefusedError
from agent.refusals import next_pause
from common.errors import AgentError
from common.kafka_config import for_kafka_python
from common.settings import Settings

log = structlog.get_logger("election")

_TURN_SECONDS: Final = 0.5
_JOIN_SECONDS: Final = 0.5
_RETRY_SECONDS: Final = 1.0
_REFUSED_SECONDS: Final = 60.0
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
_NO_RACKS: Final[Mapping[str, str]] = MappingProxyType({})


class Standing(Protocol):
    """What the other rooms ask: whether this agent is to do something now."""

    @property
    def term(self) -> int:
        """Number of the last election."""

    def is_active(self, duty: str) -> bool:
        """Whether this agent is to do it."""

    def has_deputy(self, duty: str) -> bool:
        """Whether another agent would do it if this one ended."""

    def listen(self, listener: Callable[[], None]) -> None:
        """Call this after every election."""

    @property
    def claims(self) -> Claims:
        """What this agent counts, as far as it knows."""

    def sure_claims(self) -> Claims | None:
        """The same; None while another agent may have been elected without this one's knowledge."""

    def tell(self, told: frozenset[Told]) -> None:
        """Let the others know which members tell this agent what they read."""


class Alone:
    """The standing of an agent without election: it does everything, and nobody stands by."""

    term = 0

    def is_active(self, duty: str) -> bool:  # noqa: ARG002 - whatever it is
        """Always."""
        return True

    def has_deputy(self, duty: str) -> bool:  # noqa: ARG002 - whatever it is
        """Never."""
        return False

    def listen(self, listener: Callable[[], None]) -> None:
        """Nothing ever changes."""

    @property
    def claims(self) -> Claims:
        """Everything."""
        return EVERYTHING

    def sure_claims(self) -> Claims | None:
        """Everything."""
        return self.claims

    def tell(self, told: frozenset[Told]) -> None:
        """There are no others."""


class Election(threading.Thread):
    """This agent among the others."""

    def __init__(self, settings: Settings, *, presence: Presence) -> None:
        """Prepare; `start` begins.

        Args:
            settings: All settings; `election.group` is not empty.
            presence: What this agent says of itself.
        """
        super().__init__(name="election", daemon=True)
        self._settings = settings
        self._presence = presence
        self._verdict: Verdict | None = None
        self._claims = NOTHING
        self._member: ElectionMember | None = None
        self._elected_as = ""
        self._told: frozenset[Told] = frozenset()
        self._refused = ""
        self.elections = 0
        self._listeners: list[Callable[[], None]] = []
        self._wake = threading.Event()
        self._stopping = threading.Event()

    # what others ask

    @property
    def term(self) -> int:
        """Number of the last election; 0 before the first."""
        return self._verdict.term if self._verdict is not None else 0

    @property
    def agents(self) -> int:
        """How many agents took part."""
        return self._verdict.agents if self._verdict is not None else 0

    @property
    def held(self) -> AbstractSet[str]:
        """What this agent is active for."""
        return self._verdict.active if self._verdict is not None else frozenset()

    @property
    def racks(self) -> Mapping[str, str]:
        """Rack by address of a host; empty while this agent has nothing to do."""
        return self._verdict.racks if self._verdict is not None else _NO_RACKS

    def rack_of(self, host: str) -> str | None:
        """The rack of the host with this address, where an agent runs on it."""
        return self.racks.get(host)

    @property
    def refused(self) -> str:
        """Why there is no election for this agent, so that it acts as if alone; "" while there is."""
        return self._refused

    def is_active(self, duty: str) -> bool:
        """Whether this agent is to do it."""
        return bool(self._refused) or duty in self.held

    def has_deputy(self, duty: str) -> bool:
        """Whether another agent would do it if this one ended."""
        return self._verdict is not None and duty in self._verdict.deputized

    def listen(self, listener: Callable[[], None]) -> None:
        """Call this, on the election's thread, after every election."""
        self._listeners.append(listener)

    @property
    def claims(self) -> Claims:
        """What this agent counts, as far as it knows."""
        return EVERYTHING if self._refused else self._claims

    def sure_claims(self) -> Claims | None:
        """The same; None while another agent may have been elected without this one's knowledge."""
        claims, verdict, member = self.claims, self._verdict, self._member
        if self._refused or verdict is None:
            return claims
        if member is None or self._stopping.is_set() or not member.is_sure_of(verdict):
            return None
        return claims if claims is self._claims else None

    def tell(self, told: frozenset[Told]) -> None:
        """Let the others know which members tell this agent what they read: by another election."""
        if told != self._told:
            self._told = told
            self._wake.set()

    # the thread

    def stop(self) -> None:
        """Ask the thread to leave the agents' group at once and end: the others elect without this agent."""
        self._stopping.set()
        self._wake.set()

    def run(self) -> None:
        """Stay in the group until stopped."""
        refused_pause = 0.0
        while not self._stopping.is_set():
            pause = _RETRY_SECONDS
            try:
                self._session()
            except RefusedError as error:
                pause = refused_pause = next_pause(refused_pause)
                log.warning("election-failed", error=str(error), retry_seconds=pause)
            except _REFUSED as error:
                self._refuse(f"{type(error).__name__}: {_CURES[type(error)]}")
                pause = _REFUSED_SECONDS
            except kafka_errors.FencedInstanceIdError:
                self._tell_fenced()
                pause = _REFUSED_SECONDS
            except (kafka_errors.KafkaError, AgentError) as error:
                refused_pause = 0.0
                log.warning("election-failed", error=f"{type(error).__name__}: {error}", retry_seconds=pause)
            except Exception as error:  # what the agent does must not depend on a mistake here
                log.exception("election-failed", error=str(error), retry_seconds=pause)
            self._stopping.wait(pause)

    def _session(self) -> None:
        client = connect(for_kafka_python(self._settings.kafka))
        member = ElectionMember(client, settings=self._settings.election, presence=self._presence, wake=self._wake.set)
        member.verdict, member.told = self._verdict, self._told
        self._member = member
        try:
            while not self._stopping.is_set():
                self._turn(member)
                self._wake.wait(_TURN_SECONDS)
                self._wake.clear()
        finally:
            self._member = None
            try:
                member.leave()
            finally:
                close(client)

    def _turn(self, member: ElectionMember) -> None:
        member.poll_heartbeat()
        if member.fenced:
            raise kafka_errors.FencedInstanceIdError(self._presence.identity)
        if member.told != self._told:
            member.told = self._told
            member.trigger("clients tell what they read")
        if not member.wants_join:
            return
        if not member.join(_JOIN_SECONDS):
            self._wake.set()
            return
        self._refuse("")
        if member.verdict is not None:
            self._elected(member.verdict, member.member_id)

    def _tell_fenced(self) -> None:
        log.error("fenced", identity=self._presence.identity, cure="give every agent its own election.identity")

    def _refuse(self, reason: str) -> None:
        if reason and reason != self._refused:
            log.error("acts-alone", group=self._settings.election.group, reason=reason)
        changed = reason != self._refused
        self._refused = reason
        if changed:
            self._tell()

    def _elected(self, verdict: Verdict, member_id: str) -> None:
        if verdict == self._verdict:
            return
        self._claims = self._claims_of(verdict, member_id)
        self._verdict, self._elected_as = verdict, member_id
        self.elections += 1
        log.info(
            "elected", term=verdict.term, agents=verdict.agents, active=sorted(verdict.active), hosts=len(verdict.racks)
        )
        self._tell()

    def _claims_of(self, verdict: Verdict, member_id: str) -> Claims:
        """The claims after an election; those go on that this agent has as the same member: it was never given up."""
        before = self._claims.held if member_id == self._elected_as else {}
        first = self._verdict is None and verdict.agents == 1  # nobody before this agent
        since = float("-inf") if first else time.monotonic()
        given: tuple[str | Told, ...] = (*verdict.active, *verdict.told)
        held = {what: before.get(what) or Claim(what=what, term=verdict.term, since=since) for what in given}
        return Claims(held, duties=verdict.counting, elsewhere=verdict.elsewhere)

    def _tell(self) -> None:
        for listener in self._listeners:
            listener()
