"""What this agent is responsible for: the answers of an agent without election, which `Election` replaces."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from samerack.election.tenure import EVERYTHING, Tenures


class LeadershipState:
    """What this agent is responsible for now: without election for everything, and it has no standby."""

    @property
    def term(self) -> int:
        """Number of the last election that this agent took part in; 0 before the first."""
        return 0

    def is_active(self, responsibility: str) -> bool:  # noqa: ARG002 - whatever it is
        """Return whether this agent has this responsibility."""
        return True

    def is_surely_active(self, responsibility: str) -> bool:  # noqa: ARG002 - without election it knows of no others
        """Return whether an election gave this agent the responsibility, and no other agent can have it meanwhile."""
        return False

    def has_standby(self, responsibility: str) -> bool:  # noqa: ARG002 - whatever it is
        """Return whether another agent would take over if this one stopped."""
        return False

    def listen(self, listener: Callable[[], None]) -> None:
        """Call `listener`, on the election's thread, after every election."""

    def unlisten(self, listener: Callable[[], None]) -> None:
        """Call `listener` no more."""

    def offer(self, groups: Iterable[str]) -> None:
        """Offer to lead these groups as well as those of the settings; replaces what was offered before."""

    @property
    def tenures(self) -> Tenures:
        """What this agent measures, as far as it knows."""
        return EVERYTHING

    def sure_tenures(self) -> Tenures | None:
        """Return `tenures`; None while another agent may measure the same without this one's knowledge."""
        return self.tenures
