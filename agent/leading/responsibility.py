"""Whether this agent is responsible for leading one group: by the election, and unless another agent has fenced it.

Also for how long an agent that stops stays in the group, so that the next one can take its membership over.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from samerack.agent.leading.group_reporter import INSIDE, OUTSIDE, STANDBY, GroupReporter
from samerack.election.leadership_state import LeadershipState
from samerack.election.model import lead


class Responsibility:
    """This agent's responsibility for leading one group."""

    def __init__(
        self, group: str, leadership: LeadershipState, reporter: GroupReporter, *, prepare: Callable[[], None]
    ) -> None:
        """Nothing is handed over at first.

        Args:
            group: The group's name.
            leadership: Whether this agent or another one leads the group.
            reporter: Knows and reports the agent's role in the group.
            prepare: Loads what leading needs; called whenever the agent is active, before it does anything.
        """
        self._leadership = leadership
        self._reporter = reporter
        self._prepare = prepare
        self._name = lead(group)
        self._fenced_in: int | None = None
        """The election term in which another agent took the membership over; None if none did in this term."""
        self.hand_over_until = 0.0
        """Until when the agent stays for another one to take the membership over, monotonic seconds."""

    def is_active(self) -> bool:
        """Returns whether this agent is to be in the group; reports its role if not."""
        if self._fenced_in is not None and self._leadership.term <= self._fenced_in:
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
        """Stays for so long if the agent is in the group and another one would take the membership over."""
        if self._reporter.role in INSIDE and self._leadership.has_standby(self._name):
            self.hand_over_until = time.monotonic() + seconds

    def is_handing_over(self) -> bool:
        """Returns whether the agent still waits for another one to take the membership over."""
        return time.monotonic() < self.hand_over_until

    def fenced(self) -> None:
        """Stays out after another agent has taken the membership, until a later election makes this one active."""
        self._fenced_in = self._leadership.term
