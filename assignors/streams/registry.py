"""The task assignors by name, for command lines and tests that choose one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from assignors.streams.active import Costs
    from assignors.streams.model import ApplicationState
    from assignors.streams.plugin import TaskAssignment
    from assignors.streams.rules import Obstacle


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What an assignor is asked.

    Attributes:
        state: the application, with lags where the assignor needs them.
        now_ms: the present in ms since 1970, which follow-up deadlines are counted from.
        must_preserve_active: `sticky` only: actives stay where they were, whatever the balance.
        compatible: Kafka's behaviour where Kafka strays from the documents.
    """

    state: ApplicationState
    now_ms: int = 0
    must_preserve_active: bool = False
    compatible: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What an assignor answered.

    Attributes:
        assignment: the answer.
        probing_rebalance: warm-ups are under way, and another rebalance is to come.
        obstacle: why racks had no say, if they had none.
        warnings: what a person should hear, such as tags that contradict racks.
        costs: the prices of tasks with state, configured or the assignor's own; None where it prices nothing.
    """

    assignment: TaskAssignment
    probing_rebalance: bool = False
    obstacle: Obstacle | None = None
    warnings: tuple[str, ...] = ()
    costs: Costs | None = None


ASSIGNORS: Final[dict[str, Callable[[Request], Outcome]]] = {}
"""`ha`, `sticky`: each assignor under the name that Kafka's users know it by."""
