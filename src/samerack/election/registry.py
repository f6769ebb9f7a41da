"""What an active agent knows of all waiting agents: their racks by address, which a thread reads from their groups.

It sends one DescribeGroups to each broker every few seconds. A group shows its members' metadata only while it is
stable; while it rebalances, the last assignment counts, which holds the same content. An agent that moves from one
group to another is in none for a moment, so an address is kept for some seconds more. Groups that this agent may not
describe count as empty, which is logged once.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

import structlog
from kafka import errors as kafka_errors

from samerack.auth.kafka_config import for_kafka_python
from samerack.cluster.client import ClusterClient, connect
from samerack.cluster.group import DescribedGroup
from samerack.cluster.group_questions import MAX_GROUPS_PER_REQUEST, Coordinators, describe_groups, to_coordinators
from samerack.cluster.wire import ask
from samerack.common.errors import AgentError, one_line
from samerack.common.service import Service
from samerack.election.member import ROOM, waiting_groups
from samerack.election.messages import Advertisement, decode_advertisement, identifies_host
from samerack.settings.all_settings import Settings

Answer = DescribedGroup | Exception
"""A description, or the error in place of it. Members' metadata are empty while the group rebalances."""


class GroupAsker:
    """Describes groups over one client and remembers their coordinators. One thread may use it at a time."""

    def __init__(self, client: ClusterClient) -> None:
        self._ask = partial(ask, client)
        self._coordinators = Coordinators(self._ask)

    def describe(self, groups: Sequence[str], timeout: float = 5.0) -> dict[str, Answer]:
        """Describe groups; each request may take `timeout` seconds.

        Raises:
            KafkaError: No broker names their coordinators.
        """
        unfound = self._coordinators.find(groups, timeout)
        if unfound.failure is not None:
            raise unfound.failure
        found: dict[str, Answer] = {group: error(group) for group, error in unfound.errors.items()}
        questions = to_coordinators(self._coordinators.of(groups), describe_groups, MAX_GROUPS_PER_REQUEST)
        for answer in self._ask(questions, timeout):
            if answer.error is not None:
                found |= dict.fromkeys(answer.question.about, answer.error)
            else:
                for one in answer.response.groups:
                    error = kafka_errors.for_code(one.error_code)
                    found[one.group_id] = one if error is kafka_errors.NoError else error(one.group_id)
        self._coordinators.forget(group for group, answer in found.items() if isinstance(answer, Exception))
        return found


KEPT_SECONDS: Final = 30.0
"""How long an address keeps its rack after its agent was last seen."""


class Registry:
    """All groups of agents, as last described. Not thread-safe."""

    def __init__(self, election: str) -> None:
        self._election = election
        self._groups: dict[str, dict[str, Advertisement]] = {}
        self._seen: dict[str, tuple[str, float]] = {}
        self.racks: Mapping[str, str] = {}
        self.waiting = 0

    def take(self, group: str, described: DescribedGroup) -> None:
        """Store one description."""
        known = self._groups.get(group, {})
        members: dict[str, Advertisement] = {}
        for member in described.members:
            # members of the election are assigned verdicts, others what they have sent
            content = member.member_metadata or (b"" if group == self._election else member.member_assignment)
            if content:
                members[member.member_id] = decode_advertisement("", content)
            elif (before := known.get(member.member_id)) is not None:
                members[member.member_id] = before
        self._groups[group] = members

    def skip(self, group: str) -> None:
        """Treat a group as empty that this agent may not see: no agent is expected there."""
        self._groups[group] = {}

    def sum_up(self, now: float) -> bool:
        """Compute the results from all descriptions; return whether any changed."""
        here: dict[str, str | None] = {}
        for members in self._groups.values():
            for advertisement in members.values():
                for address in filter(identifies_host, advertisement.addresses if advertisement.rack else ()):
                    here[address] = (
                        advertisement.rack if here.get(address, advertisement.rack) == advertisement.rack else None
                    )
        seen = {address: one for address, one in self._seen.items() if now - one[1] < KEPT_SECONDS}
        seen.update((address, (rack, now)) for address, rack in here.items() if rack is not None)
        self._seen = {address: one for address, one in seen.items() if here.get(address, "") is not None}
        racks = {address: rack for address, (rack, _) in sorted(self._seen.items())}
        waiting = sum(len(members) for group, members in self._groups.items() if group != self._election)
        changed = (racks, waiting) != (self.racks, self.waiting)
        if racks != self.racks:
            self.racks = racks
        self.waiting = waiting
        return changed


log = structlog.get_logger("election")

_REFUSED_SECONDS: Final = 60.0
_EMPTY_SECONDS: Final = 10.0
_MIN_SECONDS: Final = 2.0
_MAX_SECONDS: Final = 20.0
_AGENTS_PER_SECOND: Final = 250
"""The more agents there are, the less often all are read: about this many of them per second."""


class RegistryReader(Service):
    """Reads all groups of agents periodically. Results are replaced as a whole, so any thread may read them."""

    failure_event = "agents-outside-unread"
    expected_errors = (kafka_errors.KafkaError, AgentError)

    def __init__(self, settings: Settings, *, changed: Callable[[], None]) -> None:
        """Prepare; `changed` is called after each poll that found something new."""
        super().__init__("agents outside")
        self._settings = settings
        self._election = settings.election.group
        self._changed = changed
        self.registry = Registry(self._election)
        self._reading = threading.Event()
        self._members_inside = 0
        self._failed = ""
        self.refused = False

    # what the election asks

    def follow(self, *, active: bool) -> None:
        """Read while this agent is active for something, at once after each election."""
        if not active:
            self._reading.clear()
        else:
            self._reading.set()
        self.wake()
        if active and not self._stopping.is_set() and self.ident is None:
            self.start()  # most agents are never active

    # the thread

    def turn(self) -> float:
        """Read while this agent is active for something; then wait until it is."""
        if self._reading.is_set():
            client = connect(for_kafka_python(self._settings.kafka))
            try:
                asker = GroupAsker(client)
                while self._reading.is_set() and not self._stopping.is_set():
                    self._wake.clear()
                    self._read(asker)
                    self._wake.wait(self._interval())
            finally:
                client.close()
        return threading.TIMEOUT_MAX

    def report(self, trouble: str) -> None:
        """Log why nothing was read; the election logs it if brokers refuse the agent."""
        if not self.was_refused:
            self._unread(trouble)

    def _unread(self, error: str) -> None:
        if error != self._failed:
            log.warning(self.failure_event, error=error)
        self._failed = error

    def _read(self, asker: GroupAsker) -> None:
        answers = asker.describe((self._election, *waiting_groups(self._election)))
        self._take(answers)
        if self.registry.sum_up(time.monotonic()):
            self._changed()
        failed = {one_line(answer) for answer in answers.values() if isinstance(answer, Exception)}
        if self.refused or not failed:
            self._failed = ""
        else:
            self._unread(sorted(failed)[0])

    def _take(self, answers: dict[str, Answer]) -> None:
        refused = False
        for group, answer in answers.items():
            if not isinstance(answer, Exception):
                self.registry.take(group, answer)
                if group == self._election:
                    self._members_inside = len(answer.members)
            elif isinstance(answer, kafka_errors.GroupAuthorizationFailedError):
                refused = True
                self.registry.skip(group)
        if refused and not self.refused:
            log.info(
                "agents-outside-refused",
                consequence=f"only agents within the election give their racks, which are {ROOM} or those needed",
                cure=f"allow Read on groups with the prefix {self._election}",
            )
        self.refused = refused

    def _interval(self) -> float:
        if self.refused:
            return _REFUSED_SECONDS if self._members_inside <= ROOM else _EMPTY_SECONDS
        if not self.registry.waiting and self._members_inside < ROOM:
            return _EMPTY_SECONDS
        agents = self.registry.waiting + self._members_inside
        return min(_MAX_SECONDS, max(_MIN_SECONDS, agents / _AGENTS_PER_SECOND))
