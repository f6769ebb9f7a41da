"""Describes the groups that leaders wait for: one DescribeGroups request per coordinator for all, in short intervals.

An agent is in a group only while consumers are, so it must see the first consumer soon after that joins: for
`group.initial.rebalance.delay.ms` no member owns partitions yet, and where only one member has joined since the last
poll it is known to lead. A waiting leader holds no connection of its own; a poll is a value, and a group whose
coordinator moves keeps its last one.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

from kafka import errors as kafka_errors

from samerack.cluster.errors import COORDINATOR_MOVED
from samerack.cluster.group import EMPTY_STATES, GroupView, view_group
from samerack.cluster.group_questions import MAX_GROUPS_PER_REQUEST, Coordinators, describe_groups, to_coordinators
from samerack.cluster.wire import BrokerClient
from samerack.common.attempts import RetryPauses
from samerack.common.service import Service

_ANSWER_SECONDS: Final = 2.0
"""Below the brokers' initial rebalance delay: a coordinator that hangs must not delay the groups of the others."""
_STRETCHED_SECONDS: Final = 0.5
"""Also the pause while no broker answers. With longer ones the first rebalance of a group could be missed."""
_PAUSE_PER_POLL: Final = 9
"""Polls take a tenth of the time at most, unless that stretches the pause too far."""
_MIN_PAUSE_SECONDS: Final = 0.1
"""Between two polls, also while groups are added one after the other, as at the agent's start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPoll:
    """The coordinator's description of one group, or the error why there is none.

    `empty_at`: when the group was last seen without members, monotonic seconds; None if it never was. Its first
    consumer joined after that.
    """

    view: GroupView | None = None
    error: kafka_errors.KafkaError | None = None
    empty_at: float | None = None

    @property
    def member_ids(self) -> frozenset[str]:
        """The ids of the members."""
        return frozenset(member.id for member in self.view.members) if self.view is not None else frozenset()


class GroupPoller(Service):
    """Polls every watched group; any thread may add and remove groups."""

    def __init__(self, wire: BrokerClient, *, seconds: float) -> None:
        """Prepare with connections of the poller's own and the seconds between two polls; `start` starts polling."""
        slow = max(seconds, _STRETCHED_SECONDS)
        super().__init__("poller", retries=RetryPauses(first=slow, most=slow))
        self._wire = wire
        self._seconds = seconds
        self._listeners: dict[str, Callable[[], None]] = {}
        self._polls: dict[str, GroupPoll] = {}
        self._empty_at: dict[str, float] = {}
        self._coordinators = Coordinators(wire.ask)
        self._lock = threading.Lock()

    def watch(self, group: str, listener: Callable[[], None], *, empty_at: float | None = None) -> None:
        """Poll this group from now on, and call `listener`, on the poller's thread, when its description has changed.

        `empty_at`: when the caller last saw the group without members, monotonic seconds.
        """
        with self._lock:
            self._listeners[group] = listener
            self._forget_polls(group)
            if empty_at is not None:
                self._empty_at[group] = empty_at
        self.wake()

    def unwatch(self, group: str) -> None:
        """Stop polling this group."""
        with self._lock:
            self._listeners.pop(group, None)
            self._forget_polls(group)

    def _forget_polls(self, group: str) -> None:
        self._polls.pop(group, None)
        self._empty_at.pop(group, None)

    def latest(self, group: str) -> GroupPoll | None:
        """Return the last poll since `watch`; the same object while nothing changes, None before the first."""
        return self._polls.get(group)

    def turn(self) -> float:
        """Poll once; return the pause."""
        begun = time.monotonic()
        self.poll_once()
        stretched = (time.monotonic() - begun) * _PAUSE_PER_POLL
        return max(self._seconds, min(_STRETCHED_SECONDS, stretched))

    def rest(self, seconds: float) -> None:
        """Wait for the next poll, which `wake` starts no sooner than after a short pause."""
        self._stopping.wait(_MIN_PAUSE_SECONDS)
        super().rest(seconds - _MIN_PAUSE_SECONDS)

    def ended(self) -> None:
        """Disconnect."""
        self._wire.close()

    def poll_once(self) -> None:
        """Describe every watched group once.

        Raises:
            AgentError: No broker can be reached.
        """
        with self._lock:
            groups = sorted(self._listeners)
        if not groups:
            return
        for group, error in self._coordinators.find(groups, _ANSWER_SECONDS).errors.items():
            self._handle_error(group, error)
        questions = to_coordinators(self._coordinators.of(groups), describe_groups, MAX_GROUPS_PER_REQUEST)
        asked_at = time.monotonic()
        for answer in self._wire.ask(questions, _ANSWER_SECONDS):
            if answer.error is not None:
                self._coordinators.forget(answer.question.about)
                continue
            for described in answer.response.groups:
                self._take(described, asked_at)

    def _take(self, described: Any, asked_at: float) -> None:
        """Store one group's description."""
        group = str(described.group_id)
        error = kafka_errors.for_code(described.error_code)
        if error in COORDINATOR_MOVED:
            self._coordinators.forget([group])
        elif error is kafka_errors.NoError:
            view = view_group(described)
            self._keep(group, GroupPoll(view=view, empty_at=asked_at if view.state in EMPTY_STATES else None))
        else:
            self._handle_error(group, error)

    def _handle_error(self, group: str, error: Any) -> None:
        """Store why a group cannot be described, unless the error is temporary."""
        if not issubclass(error, kafka_errors.RetriableError):
            self._keep(group, GroupPoll(error=error(group)))

    def _keep(self, group: str, poll: GroupPoll) -> None:
        """Store one group's poll, and notifies its listener if it has changed."""
        with self._lock:
            listener = self._listeners.get(group)
            if listener is None:
                return
            if poll.empty_at is not None:
                self._empty_at[group] = poll.empty_at
            before = self._polls.get(group)
            if before is not None and poll.view is not None and before.view == poll.view:
                return
            self._polls[group] = replace(poll, empty_at=self._empty_at.get(group))
        listener()
