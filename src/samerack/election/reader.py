"""A thread that reads what waiting agents advertise, while this agent is active for something.

It sends one DescribeGroups to each broker every few seconds. An agent that may not describe the groups treats them as
empty and logs that once.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

import structlog
from kafka import errors as kafka_errors

from samerack.auth.kafka_config import for_kafka_python
from samerack.cluster.client import connect
from samerack.common.errors import AgentError, one_line
from samerack.common.service import Service
from samerack.election.asking import Answer, GroupAsker
from samerack.election.places import ROOM, waiting_groups
from samerack.election.registry import Registry
from samerack.settings.all_settings import Settings

log = structlog.get_logger("election")

_REFUSED_SECONDS: Final = 60.0
_EMPTY_SECONDS: Final = 10.0
_MIN_SECONDS: Final = 2.0
_MAX_SECONDS: Final = 20.0
_AGENTS_PER_SECOND: Final = 250
"""The more agents there are, the less often all are read: about this many of them per second."""
_LARGEST_ANSWER_BYTES: Final = 100_000_000
"""kafka-python accepts one million by default; ten thousand agents at one broker are larger."""


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
            largest = {"receive_message_max_bytes": _LARGEST_ANSWER_BYTES}
            client = connect({**for_kafka_python(self._settings.kafka), **largest})
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
        failed = {one_line(one) for one in answers.values() if isinstance(one, Exception)}
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
