"""Decides how a group is planned, from its protocol and the settings: cooperative or eager, racks, skew, deadline."""

from __future__ import annotations

from dataclasses import dataclass

from samerack.assignors.consumer.registry import Options
from samerack.planning.deadline import DEADLINE_SECONDS
from samerack.settings.leading import COOPERATIVE_PROTOCOLS, LeadingSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Mode:
    """How a group is to be planned.

    Attributes:
        cooperative: Members rebalance incrementally (KIP-429).
        keep_copartitioned: Partition i of co-partitioned topics stays together.
        rack_aware_fetch: Whether replicas in the member's rack may serve reads, or leaders only.
        max_skew: Partitions beyond its fair share that a member may have for locality; not with keep_copartitioned.
        spread_moves: Partitions beyond the fewest that may move so that topics are spread.
        deadline_seconds: How long planning may take.
    """

    cooperative: bool
    keep_copartitioned: bool
    rack_aware_fetch: bool
    max_skew: int = 0
    spread_moves: int = 0
    deadline_seconds: float = DEADLINE_SECONDS


def options_of(mode: Mode) -> Options:
    """Return the options of the optimal assignor in this mode."""
    return Options(keep_copartitioned=mode.keep_copartitioned, max_skew=mode.max_skew, spread_moves=mode.spread_moves)


def mode_of(protocol: str, leading: LeadingSettings, *, rack_aware_fetch: bool) -> Mode:
    """Return how to plan for a group whose members chose this protocol name; bundles of partitions have no skew."""
    keep = leading.keep_copartitioned
    together = keep == "always" or (keep == "auto" and protocol == "range")
    return Mode(
        cooperative=protocol in COOPERATIVE_PROTOCOLS,
        keep_copartitioned=together,
        rack_aware_fetch=rack_aware_fetch,
        max_skew=0 if together else leading.max_skew,
        spread_moves=leading.spread_moves,
        deadline_seconds=leading.deadline_seconds,
    )
