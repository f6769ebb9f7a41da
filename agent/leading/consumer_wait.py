"""Waits outside one group until it has consumers.

An agent that stayed in a group without consumers would prevent the state Empty: committed offsets would expire by
their own age (KIP-211), and applications with other protocols and tools would be refused.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable
from contextlib import suppress
from dataclasses import replace
from typing import Final, TypeVar

from kafka import errors as kafka_errors

from samerack.agent.group_status import WAITING
from samerack.agent.leading.membership import Membership
from samerack.agent.leading.parts import GroupParts
from samerack.auth.kafka_config import client_id
from samerack.cluster.group import EMPTY_STATES, MemberView, is_agent
from samerack.cluster.group_poller import GroupPoll, GroupPoller
from samerack.common.errors import AgentError
from samerack.common.shared_threads import Rest

_T = TypeVar("_T")
_BACK_OFF_CHECK_SECONDS: Final = 2.0
"""A pause after a back-off ends without an event, so the agent checks this often whether one has ended."""


MISSING: Final = (
    "the group does not exist yet: check its name; the agent waits for its first consumer and never creates a group"
)


class ConsumerWait:
    """The wait for the first consumers of one group."""

    def __init__(
        self,
        parts: GroupParts,
        poller: GroupPoller,
        new_membership: Callable[[], Membership],
        *,
        empty_at: float | None = None,
    ) -> None:
        """Prepare.

        `new_membership` returns a membership of the group, before it has sent anything; `empty_at` is when the group
        certainly had no members, monotonic seconds.
        """
        self._parts = parts
        self._reporter = parts.reporter
        self._poller = poller
        self._new_membership = new_membership
        self._empty_at = empty_at
        """When the group was empty before the next wait, monotonic seconds; None if that is not known."""

    def wait(self, wake: Callable[[], None], is_wanted: Callable[[], bool]) -> Generator[Rest, None, GroupPoll | None]:
        """Wait until the group has consumers; return the poll that shows them, or None if no longer wanted.

        Raises:
            KafkaError: The brokers refuse to describe the group.
        """
        if not is_wanted():
            return None  # an election may still make this agent the active one
        empty_at, self._empty_at = self._empty_at, None
        return (
            yield from self._watch(
                wake,
                is_wanted,
                lambda poll: poll if poll is not None and self._has_consumers(poll) else None,
                empty_at=empty_at,
            )
        )

    def wait_fenced(
        self, wake: Callable[[], None], is_wanted: Callable[[], bool], may_return: Callable[[bool], bool]
    ) -> Generator[Rest, None, bool]:
        """Wait until the membership may be taken again; return False if no longer wanted.

        `may_return` decides, given whether no member of the group has the agent's instance id.
        """
        instance_id = self._parts.settings.leading.instance_id

        def returns(poll: GroupPoll | None) -> bool | None:
            view = poll.view if poll is not None else None
            return may_return(view is not None and all(one.instance_id != instance_id for one in view.members)) or None

        return (yield from self._watch(wake, is_wanted, returns)) is not None

    def _watch(
        self,
        wake: Callable[[], None],
        is_wanted: Callable[[], bool],
        decide: Callable[[GroupPoll | None], _T | None],
        *,
        empty_at: float | None = None,
    ) -> Generator[Rest, None, _T | None]:
        """Poll the group until `decide` has an answer; return it, or None if the agent is no longer wanted."""
        group = self._parts.group
        self._poller.watch(group, wake, empty_at=empty_at)
        try:
            while is_wanted():
                answer = decide(self._poller.latest(group))
                if answer is not None:
                    return answer
                # a request ends without an event, as a pause after a back-off does
                waits = self._reporter.role == WAITING and not self._reporter.paused()
                yield Rest(None if waits else _BACK_OFF_CHECK_SECONDS)
        finally:
            self._poller.unwatch(group)
        return None

    def check_empty(self, member: Membership) -> None:
        """Describe the group that was just left: the next consumers may join before the poller's first poll."""
        asked_at = time.monotonic()
        with suppress(kafka_errors.KafkaError):  # the poller sees it a little later
            if member.describe().state in EMPTY_STATES:
                self._empty_at = asked_at

    def _has_consumers(self, poll: GroupPoll) -> bool:
        """Return whether the poll shows consumers; remove a former membership of this agent if it shows only that.

        Raises:
            KafkaError, AgentError: The group is not described, or the brokers did not accept the removal.
        """
        if poll.view is None:
            raise poll.error or AgentError(f"kafka: group {self._parts.group} is not described")
        view = poll.view
        self._reporter.waits_for(MISSING if view.state == "Dead" else "")
        client = client_id(self._parts.settings.kafka)
        own = [one for one in view.members if one.instance_id == self._parts.settings.leading.instance_id]
        if any(one not in own and not is_agent(one, client) for one in view.members):
            return True
        if own:
            self._remove(own)
        elif view.state in EMPTY_STATES and self._parts.admission.admits(view):
            self._reporter.become(WAITING)
        self._parts.publish(replace(view, members=()), first=False, condition=None)
        return False

    def _remove(self, own: Iterable[MemberView]) -> None:
        """Remove memberships of this instance id that an earlier process did not leave.

        Raises:
            KafkaError, AgentError: The brokers did not accept it.
        """
        membership = self._new_membership()
        try:
            for member in own:
                membership.release(member.id, member.instance_id)
        finally:
            membership.close()
