"""`FallbackPriorTaskAssignor`: used while the configured assignor cannot run, for example without lags (KIP-441).

Actives stay where they were, new actives and standbys go to the least loaded clients, racks and lags are ignored, and a
follow-up rebalance starts at once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from samerack.assignors.streams.rack_steps import enabled_together
from samerack.assignors.streams.registry import Outcome, Request
from samerack.assignors.streams.sticky import keep_prior

if TYPE_CHECKING:
    from collections.abc import Callable

    from samerack.assignors.streams.model import ApplicationState
    from samerack.assignors.streams.plugin import AssignmentError, GroupAssignment, GroupSubscription, TaskAssignment


@dataclass(frozen=True, slots=True, kw_only=True)
class FallbackPriorTaskAssignor:
    """KIP-924's plug-in around `fallback_prior`.

    Attributes:
        clock_ms: returns the current time in ms since 1970.
    """

    clock_ms: Callable[[], int]

    def assign(self, application_state: ApplicationState) -> TaskAssignment:
        """Keep the previous assignment (see `fallback_prior`)."""
        return fallback_prior(Request(state=application_state, now_ms=self.clock_ms())).assignment

    def on_assignment_computed(
        self, assignment: GroupAssignment, subscription: GroupSubscription, error: AssignmentError
    ) -> None:
        """Do nothing: this assignor has no state."""


def fallback_prior(request: Request) -> Outcome:
    """Assign every task as active, keep previous actives, and always requests a follow-up rebalance.

    With `compatible` the obstacle is the one that applies to racks in general, although racks are ignored here.

    Raises:
        AssignmentError: a setting has an invalid value.
    """
    outcome = keep_prior(request)
    return replace(outcome, obstacle=enabled_together(request.state).obstacle) if request.compatible else outcome
