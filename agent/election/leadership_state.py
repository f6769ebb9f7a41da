"""What other parts of the agent ask the election, and the answers of an agent without one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from agent.election.counting import EVERYTHING, Claims
from agent.election.model import Told


class LeadershipState(Protocol):
    """Tells whether this agent is responsible for something now."""

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
    """The state of an agent without election: it is responsible for everything and has no standby."""

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
