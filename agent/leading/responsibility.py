"""When this agent is to be in one group: by the election, unless another agent has fenced it, and with its consumers.

Until then it waits outside and polls the group. An agent that stayed in a group without consumers would prevent
the state Empty: committed offsets would expire by their own age (KIP-211), and applications with other protocols and
tools would be refused.

Also for how long an agent that stops stays in the group, so that the next one can take its membership over.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable
from contextlib import suppress
from dataclasses import replace
from typing import Final, TypeVar

from kafka import errors as kafka_errors

from samerack.agent.group_status import INSIDE, OUTSIDE, STANDBY, WAITING
from samerack.agent.leading.membership import Membership
from samerack.agent.leading.parts import GroupParts
from samerack.agent.policy.back_off import BackOffState, backed_off
from samerack.agent.policy.back_off_causes import RULES, Cause
from samerack.auth.kafka_config import client_id
from samerack.cluster.group import EMPTY_STATES, MemberView, is_agent
from samerack.cluster.group_poller import GroupPoll, GroupPoller
from samerack.common.errors import AgentError
from samerack.common.shared_threads import Rest
from samerack.election.leadership_state import LeadershipState
from samerack.election.messages import lead

_T = TypeVar("_T")
_BACK_OFF_CHECK_SECONDS: Final = 2.0
"""A pause after a back-off ends without an event, so the agent checks this often whether one has ended."""
MISSING: Final = (
    "the group does not exist yet (check its name), or the brokers assign it; the agent waits for its first consumer, "
    "and never creates a group"
)


class Responsibility:
    """This agent's responsibility for leading one group; nothing is handed over at first."""

    def __init__(  # noqa: PLR0913 - who decides, who describes the group, and what is done when it is to be led
        self,
        parts: GroupParts,
        *,
        leadership: LeadershipState,
        poller: GroupPoller,
        new_membership: Callable[[], Membership],
        prepare: Callable[[], None],
        empty_at: float | None = None,
        clock: Callable[[], float] | None = None,
    ) -> None:
        """Prepare; nothing is sent.

        `new_membership` returns a membership of the group, before it has sent anything; `prepare` loads what leading
        needs, whenever the agent is active, before it does anything. `empty_at` is when the group certainly had no
        members, monotonic seconds.
        """
        self._parts = parts
        self._reporter = parts.reporter
        self._leadership = leadership
        self._poller = poller
        self._new_membership = new_membership
        self._prepare = prepare
        self._empty_at = empty_at
        """When the group was empty before the next wait, monotonic seconds; None if that is not known."""
        self._clock = clock or time.monotonic  # not a default value: the simulator replaces this module's clock
        self._name = lead(parts.group)
        self._fenced_in: int | None = None
        """The election term in which another agent took the membership over; None if none did in this term."""
        self._pauses = BackOffState()
        """How long it stays out after that, at least."""
        self.hand_over_until = 0.0
        """Until when the agent stays for another one to take the membership over, monotonic seconds."""

    def is_active(self) -> bool:
        """Return whether this agent is to be in the group; report its role if not."""
        if self._is_out_for_term:
            return False
        if not self._leadership.is_active(self._name):
            self._reporter.become(STANDBY)
            return False
        self._fenced_in = None
        if self._reporter.role == STANDBY:
            self._reporter.become(OUTSIDE)
        self._prepare()
        return True

    def hand_over(self, seconds: float) -> None:
        """Stay at most this time, if the agent is in the group, so that another one can take over its membership."""
        self.hand_over_until = self._clock() + seconds if self._reporter.role in INSIDE else 0.0

    @property
    def hand_over_seconds(self) -> float:
        """How long the agent still waits for another one to take the membership over, if one would; else 0."""
        left = max(0.0, self.hand_over_until - self._clock())
        return left if left and self._leadership.has_standby(self._name) else 0.0

    # fenced

    def fence(self) -> None:
        """Stay out after another agent has taken the membership: until a later election, or as `wait_fenced` allows."""
        self._fenced_in = self._leadership.term
        self._pauses = backed_off(self._pauses, Cause.FENCED, self._clock())

    @property
    def is_fenced(self) -> bool:
        """Whether brokers have fenced this agent, although it is the active one."""
        return self._is_out_for_term and self._leadership.is_active(self._name)

    @property
    def _is_out_for_term(self) -> bool:
        return self._fenced_in is not None and self._leadership.term <= self._fenced_in

    def wait_fenced(self, wake: Callable[[], None], is_stopping: Callable[[], bool]) -> Generator[Rest, None, None]:
        """Wait until no other agent has the membership, until an election has decided anew, or until the end."""
        instance_id = self._parts.settings.leading.instance_id

        def decide(poll: GroupPoll | None) -> bool | None:
            view = poll.view if poll is not None else None
            is_free = view is not None and all(member.instance_id != instance_id for member in view.members)
            return self._may_return(is_free=is_free) or None

        if (yield from self._watch(wake, lambda: self.is_fenced and not is_stopping(), decide)):
            self._fenced_in = None
            self._reporter.become(OUTSIDE)

    def _may_return(self, *, is_free: bool) -> bool:
        """Return whether to take the membership again in this election: no other agent has it.

        Brokers that lost the latest state of a group fence its member too, and may then keep its former id for longer
        than its session. `is_free`: the group has no member with the agent's instance id. One that is soon fenced again
        has met an agent of another election, which is as sure as it is.
        """
        if self._pauses.is_out(self._clock()):
            return False
        is_first = self._pauses.seconds(Cause.FENCED) <= RULES[Cause.FENCED].first_seconds
        return is_free or (is_first and self._leadership.is_surely_active(self._name))

    # outside, until there are consumers

    def wait_for_consumers(
        self, wake: Callable[[], None], is_wanted: Callable[[], bool]
    ) -> Generator[Rest, None, GroupPoll | None]:
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

    def check_empty(self, member: Membership) -> None:
        """Describe the group that was just left: the next consumers may join before the poller's first poll."""
        asked_at = self._clock()
        with suppress(kafka_errors.KafkaError):  # the poller sees it a little later
            if member.describe().state in EMPTY_STATES:
                self._empty_at = asked_at

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
        own = [member for member in view.members if member.instance_id == self._parts.settings.leading.instance_id]
        if any(member not in own and not is_agent(member, client) for member in view.members):
            return True
        if own:
            self._remove(own)
        elif view.state in EMPTY_STATES and self._parts.admission.admits(view):
            self._reporter.become(WAITING)
        self._reporter.publish(replace(view, members=()), first=False, condition=None)
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
