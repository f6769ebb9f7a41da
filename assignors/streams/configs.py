"""Settings of a Streams assignment (KIP-924, `AssignmentConfigs`) and the names of KIP-925's strategies.

Defaults are Kafka's (`StreamsConfig`, 4.3).
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import Enum
from typing import Final

from samerack.assignors.problem import AssignmentError


class Strategy(Enum):
    """KIP-925, `rack.aware.assignment.strategy`, by the names that Kafka released."""

    NONE = "none"
    MIN_TRAFFIC = "min_traffic"
    BALANCE_SUBTOPOLOGY = "balance_subtopology"


ALIASES: Final = {
    "min_cost": Strategy.MIN_TRAFFIC,
    "balanced_min_cost": Strategy.BALANCE_SUBTOPOLOGY,
}
"""Names in KIP-925 (4.B.III) for strategies that Kafka released under other names."""


def strategy_named(name: str) -> Strategy:
    """Return the strategy of this name or alias, in upper or lower case (KIP-925, section 5, write `NONE`).

    Raises:
        AssignmentError: There is no such strategy.
    """
    wanted = name.lower()
    found = ALIASES.get(wanted) or next((strategy for strategy in Strategy if strategy.value == wanted), None)
    if found is None:
        names = ", ".join([*(strategy.value for strategy in Strategy), *ALIASES])
        raise AssignmentError(f"strategy {name!r} is unknown; give one of {names}")
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignmentConfigs:
    """Settings of the application that concern assignment.

    Attributes:
        acceptable_recovery_lag: lag in offsets up to which a client counts as caught up (KIP-441).
        max_warmup_replicas: extra standbys at a time, beyond the configured ones (KIP-441).
        num_standby_replicas: standbys of each task with a changelog.
        probing_rebalance_interval_ms: wait before warm-ups are checked again (KIP-441).
        rack_aware_assignment_tags: keys of client tags over whose values tasks are spread (KIP-708).
        rack_aware_traffic_cost: cost of a topic partition that is read across racks; None for the assignor's own.
        rack_aware_non_overlap_cost: cost of a task that moves to another client; None for the assignor's own.
        rack_aware_assignment_strategy: KIP-925's strategy, as the user wrote it.
    """

    acceptable_recovery_lag: int = 10_000
    max_warmup_replicas: int = 2
    num_standby_replicas: int = 0
    probing_rebalance_interval_ms: int = 600_000
    rack_aware_assignment_tags: tuple[str, ...] = ()
    rack_aware_traffic_cost: int | None = None
    rack_aware_non_overlap_cost: int | None = None
    rack_aware_assignment_strategy: str = Strategy.NONE.value

    def __post_init__(self) -> None:
        """Refuse values below the minimum."""
        for name in (field.name for field in fields(self)):
            value, least = getattr(self, name), 1 if name == "max_warmup_replicas" else 0
            if isinstance(value, int) and value < least:
                raise AssignmentError(f"{name} is {value}; give at least {least}")
