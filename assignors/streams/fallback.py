"""`FallbackPriorTaskAssignor`: what to do while the chosen assignor cannot run, for example without lags (KIP-441).

Actives stay where they were, new ones and standbys go where room is, racks and lags are not asked, and a follow-up
rebalance comes at once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from assignors.streams.rack_steps import enabled_together
from assignors.streams.registry import Outcome, Request
from assignors.streams.sticky import keep_prior

if TYPE_CHECKING:
    from collections.abc import Callable

    from assignors.streams.model import ApplicationState
    from assignors.streams.plugin import AssignmentError, GroupAssignment, GroupSubscription, TaskAssignment


@dataclass(frozen=True, slots=True, kw_only=True)
class FallbackPriorTaskAssignor:
    """KIP-924's plug-in around `fallback_prior`.

    Attributes:
        clock_ms: the present in ms since 1970.
    """

    clock_ms: Callable[[], int]

    def assign(self, application_state: ApplicationState) -> TaskAssignment:
        """Keep what was (see `fallback_prior`)."""
        return fallback_prior(Request(state=application_state, now_ms=self.clock_ms())).assignment

    def on_assignment_computed(
        self, assignment: GroupAssignment, subscription: GroupSubscription, error: AssignmentError
    ) -> None:
        """Nothing to do: this assignor remembers nothing."""


def fallback_prior(request: Request) -> Outcome:
    """Every task active, those that were stay, and a follow-up rebalance is always due.

    With `compatible` the obstacle is that of racks in general, although they are not asked here.

    Raises:
        AssignmentError: a setting means nothing.
    """
    outcome = keep_prior(request)
    return replace(outcome, obstacle=enabled_together(request.state).obstacle) if request.compatible else outcome
