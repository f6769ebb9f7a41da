"""The interface of the election to other parts of the agent, and the one of an agent without election."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from samerack.election.counting import EVERYTHING, Claims
from samerack.election.model import ReportingMember


class LeadershipState(Protocol):
    """What this agent is responsible for now."""

    @property
    def term(self) -> int:
        """Number of the last election."""

    def is_active(self, responsibility: str) -> bool:
        """Return whether this agent has this responsibility."""

    def is_surely_active(self, responsibility: str) -> bool:
        """Return whether an election gave this agent the responsibility, and no other agent can have it meanwhile."""

    def has_standby(self, responsibility: str) -> bool:
        """Return whether another agent would take over if this one stopped."""

    def listen(self, listener: Callable[[], None]) -> None:
        """Call `listener` after every election."""

    def unlisten(self, listener: Callable[[], None]) -> None:
        """Call `listener` no more."""

    def offer(self, groups: Iterable[str]) -> None:
        """Offer to lead these groups as well as those of the settings; replaces what was offered before."""

    @property
    def claims(self) -> Claims:
        """What this agent counts, as far as it knows."""

    def sure_claims(self) -> Claims | None:
        """Return `claims`; None while another agent may have been elected without this one's knowledge."""

    def advertise(self, reporting: frozenset[ReportingMember]) -> None:
        """Advertise to other agents which members report their reads to this one."""


class Alone:
    """The state of an agent without election: it is responsible for everything and has no standby."""

    term = 0

    def is_active(self, responsibility: str) -> bool:  # noqa: ARG002 - whatever it is
        """Return True."""
        return True

    def is_surely_active(self, responsibility: str) -> bool:  # noqa: ARG002 - whatever it is
        """Return False: without an election it cannot know about others."""
        return False

    def has_standby(self, responsibility: str) -> bool:  # noqa: ARG002 - whatever it is
        """Return False."""
        return False

    def listen(self, listener: Callable[[], None]) -> None:
        """Do nothing: nothing ever changes."""

    def unlisten(self, listener: Callable[[], None]) -> None:
        """Do nothing: no listener was kept."""

    def offer(self, groups: Iterable[str]) -> None:
        """Do nothing: it leads every group."""

    @property
    def claims(self) -> Claims:
        """Everything."""
        return EVERYTHING

    def sure_claims(self) -> Claims | None:
        """Return `claims`."""
        return self.claims

    def advertise(self, reporting: frozenset[ReportingMember]) -> None:
        """Do nothing: there are no others."""
