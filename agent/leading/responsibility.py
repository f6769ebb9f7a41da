"""Whether this agent is responsible for leading one group: by the election, and unless another agent has fenced it.

Also for how long an agent that stops stays in the group, so that the next one can take its membership over.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from samerack.agent.group_status import INSIDE, OUTSIDE, STANDBY
from samerack.agent.leading.group_reporter import GroupReporter
from samerack.agent.policy.back_off import BackOffState, backed_off
from samerack.agent.policy.back_off_causes import Cause
from samerack.election.leadership_state import LeadershipState
from samerack.election.messages import lead


class Responsibility:
    """This agent's responsibility for leading one group; nothing is handed over at first."""

    def __init__(
        self,
        group: str,
        leadership: LeadershipState,
        reporter: GroupReporter,
        *,
        prepare: Callable[[], None],
        clock: Callable[[], float] | None = None,
    ) -> None:
        """Use `prepare` to load what leading needs, whenever the agent is active, before it does anything."""
        self._leadership = leadership
        self._reporter = reporter
        self._prepare = prepare
        self._clock = clock or time.monotonic  # not a default value: the simulator replaces this module's clock
        self._name = lead(group)
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
        """Stay for so long if the agent is in the group and another one would take the membership over."""
        if self._reporter.role in INSIDE and self._leadership.has_standby(self._name):
            self.hand_over_until = self._clock() + seconds

    def is_handing_over(self) -> bool:
        """Return whether the agent still waits for another one to take the membership over."""
        return self._clock() < self.hand_over_until

    def fence(self) -> None:
        """Stay out after another agent has taken the membership: until a later election, or `end_fence`."""
        self._fenced_in = self._leadership.term
        self._pauses = backed_off(self._pauses, Cause.FENCED, self._clock())

    @property
    def is_fenced(self) -> bool:
        """Whether brokers have fenced this agent, although it is the active one."""
        return self._is_out_for_term and self._leadership.is_active(self._name)

    @property
    def _is_out_for_term(self) -> bool:
        return self._fenced_in is not None and self._leadership.term <= self._fenced_in

    def may_return(self, *, is_free: bool) -> bool:
        """Return whether to take the membership again in this election: no other agent has it.

        Brokers that lost the latest state of a group fence its member too, and may then keep its former id for longer
        than its session. `is_free`: the group has no member with the agent's instance id.
        """
        if self._pauses.is_out(self._clock()):
            return False
        return is_free or self._leadership.is_surely_active(self._name)

    def end_fence(self) -> None:
        """Make the agent responsible again in this election: no other one has the membership."""
        self._fenced_in = None
        self._reporter.become(OUTSIDE)
