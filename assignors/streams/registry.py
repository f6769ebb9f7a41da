"""The question to a task assignor, and its answer; the assignors by name are in `assignors.streams.builtin`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from samerack.assignors.streams.active import Costs
    from samerack.assignors.streams.application import ApplicationState
    from samerack.assignors.streams.plugin import TaskAssignment
    from samerack.assignors.streams.rules import Obstacle


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The input of an assignor.

    Attributes:
        state: the application, with lags if the assignor needs them.
        now_ms: the current time in ms since 1970, from which follow-up deadlines are counted.
        must_preserve_active: `sticky` only: actives stay where they were, whatever the balance.
        compatible: Kafka's behaviour where Kafka deviates from the KIPs.
    """

    state: ApplicationState
    now_ms: int = 0
    must_preserve_active: bool = False
    compatible: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result of an assignor.

    Attributes:
        assignment: the answer.
        probing_rebalance: whether another rebalance must follow, because tasks are not on their targets.
        obstacle: why racks did not count, or None.
        warnings: warnings for the user, such as tags that contradict racks.
        costs: the costs of stateful tasks, configured or the assignor's own; None if it uses no costs.
    """

    assignment: TaskAssignment
    probing_rebalance: bool = False
    obstacle: Obstacle | None = None
    warnings: tuple[str, ...] = ()
    costs: Costs | None = None
