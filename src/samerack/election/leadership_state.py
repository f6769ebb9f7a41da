"""What this agent is responsible for, and which groups it measures, so that one agent measures each group.

A group is measured by the agent that is active for leading it; a group that no agent both leads and measures, by the
agent that is active for the longest pattern that it matches. What was read between two moments counts only if the
agent had the same tenure at both: nobody counts what was read around a change of agents.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from samerack.common.patterns import EVERY, fits, included
from samerack.election.messages import lead, observe, observed_by


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenure:
    """The time since an election in which this agent has a responsibility without interruption.

    Attributes:
        what: the responsibility.
        term: the election that gave it.
        succeeds: whether another agent may have had it before.
    """

    what: str
    term: int
    succeeds: bool = True


class Tenures:
    """All tenures of this agent between two elections."""

    def __init__(self, held: Mapping[str, Tenure], *, measuring: Iterable[str] = ()) -> None:
        """Prepare; `held` is by responsibility, `measuring` those of all agents by which groups are measured."""
        self.held = held
        self._measuring = frozenset(measuring)
        self._patterns = sorted(included(observed_by(self._measuring)), key=lambda one: (-len(one), one))
        self._known: dict[str, Tenure | None] = {}

    def of_pattern(self, pattern: str) -> Tenure | None:
        """Return the tenure in which this agent measures a pattern, as `traffic.groups` has it, if it does."""
        return self.held.get(observe(pattern))

    def of_group(self, group: str) -> Tenure | None:
        """Return the tenure in which this agent measures a group, if it does."""
        if group not in self._known:
            responsibility = lead(group)
            if responsibility not in self._measuring:
                responsibility = next((observe(one) for one in self._patterns if fits(one, group)), "")
            self._known[group] = self.held.get(responsibility)
        return self._known[group]


_ALONE: Final = Tenure(what=observe(EVERY), term=0, succeeds=False)
NOTHING: Final = Tenures({})
EVERYTHING: Final = Tenures({_ALONE.what: _ALONE}, measuring=[_ALONE.what])
"""The tenure of an agent that is alone, or acts as if it were."""


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
