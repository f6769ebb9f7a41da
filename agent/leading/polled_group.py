"""The group as brokers last described it to the agent's membership: polled from time to time, dropped when outdated.

All decisions within a membership are about this description. After each step that changes the group it is dropped, so
that the group is polled again before anything else is decided.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from kafka import errors as kafka_errors

from samerack.agent.group_status import INSIDE, OBSERVING
from samerack.agent.leading.membership import Membership
from samerack.agent.leading.parts import GroupParts
from samerack.agent.policy.back_off_causes import BackOffError, Cause
from samerack.cluster.errors import is_refusal
from samerack.cluster.group import GroupView
from samerack.cluster.group_member import EndedError
from samerack.cluster.joining import is_first

POLL_SECONDS: Final = 1.0
"""Between two polls of a group that may need something."""
_RESTING_SHARE: Final = 5
"""A group that needs nothing is polled this many times less often."""


class PolledGroup:
    """The last description of one group during one membership."""

    def __init__(self, parts: GroupParts, member: Membership) -> None:
        self._parts = parts
        self._reporter = parts.reporter
        self._member = member
        self.view: GroupView | None = None
        """The group with the agent in it; None if it was not polled since `forget`."""
        self.others: GroupView | None = None
        """The group without the agent; the same object while it does not change."""
        self.stable_at: float | None = None
        """When the group was Stable with the agent in it, monotonic seconds; None after a rebalance or `forget`."""
        self.seen_inside = False
        """Whether `view` is of a poll that began while the agent was in the group or joined it."""
        self._poll_at = float("-inf")
        self.is_resting = False
        """Whether the group needed nothing at its last poll, so that the next one is due later."""
        self.forget()

    @property
    def due_seconds(self) -> float:
        """In how many seconds the next poll is due; at most 0 if it is due now."""
        return self._poll_at - self._parts.clock()

    def forget(self) -> None:
        """Drop what was seen, so that the group is polled again before anything is decided."""
        self.view = self.others = self.stable_at = None
        self.seen_inside = False
        self._poll_at = float("-inf")
        self.is_resting = False
        self._parts.evaluator.forget()
        self._parts.admission.forget()

    def poll_within(self, seconds: float) -> None:
        """Make the next poll due after this time at the latest."""
        self._poll_at = min(self._poll_at, self._parts.clock() + seconds)

    def rest(self) -> None:
        """Poll the group less often: it needs nothing, and heartbeats report each of its rebalances at once."""
        if not self.is_resting:
            self._poll_at += (_RESTING_SHARE - 1) * POLL_SECONDS
            self.is_resting = True

    def poll(self) -> GroupView | None:
        """Poll the group once; return the description, or None if the poll failed.

        After a temporary failure the last poll stays valid, as leaving costs a rebalance.

        Raises:
            BackOffError: The agent is in it, and its place is needed for a consumer.
            KafkaError: The brokers refuse to describe the group, or the membership must end.
        """
        self._poll_at, self.is_resting = self._parts.clock() + POLL_SECONDS, False
        inside = not self._member.is_outside
        try:
            view = self._member.describe()
        except kafka_errors.KafkaError as error:
            # the group may wait for this member meanwhile: it must still handle its heartbeats and join
            if is_refusal(error) or isinstance(error, (kafka_errors.FencedInstanceIdError, EndedError)):
                raise
            self._reporter.failed("kafka", error, POLL_SECONDS)
            return None
        self._see(view)
        self.seen_inside = inside
        return view

    def _see(self, view: GroupView) -> None:
        member, assigning = self._member, self._parts.assigning
        others = replace(view, members=tuple(one for one in view.members if one.id != member.known_id))
        if others == self.others:
            others = self.others  # results are cached by object identity
        elif member.leading and not assigning.may_be_of(member.generation_id, others):
            self._reporter.log.info(
                "outdated-description", generation=member.generation_id, members=len(others.members)
            )
            return
        self.view, self.others = view, others
        admission = self._parts.admission
        admission.sees(others, inside=not member.is_outside)
        if admission.full and not member.is_outside:
            raise BackOffError(Cause.GROUP_FULL, admission.full)
        if self._reporter.role in INSIDE:
            self._reporter.trouble = ""
        elif self._reporter.role == OBSERVING:
            admission.report()
        assigning.see(others)
        self._parts.evaluator.lives.sees(others, member.lookup, self._parts.clock())
        self._parts.evictions.see(view)
        first = is_first(view, member.member_id, member.leader_id)
        self._reporter.publish(others, first=first, condition=self._parts.evaluator.condition)
