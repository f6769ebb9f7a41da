"""Which share of a group's reads crosses racks now, and how much of it a better plan avoids."""

from __future__ import annotations

from typing import Final

from samerack.traffic.model import GroupTraffic

MIN_SHARE: Final = 0.05
"""Shares that differ by less than this are treated as equal: five points, the default of `policy.min_saving`."""


def present_share(group: GroupTraffic) -> float:
    """Returns the share that crosses racks now, by bytes if the optimum is by bytes too."""
    shares = group.shares
    by_bytes = shares.present_bytes is not None and shares.optimal_by == "bytes"
    return (shares.present_bytes if by_bytes else shares.present_partitions) or 0.0


def avoidable_share(group: GroupTraffic) -> float | None:
    """Returns the share that crosses racks beyond the best plan; None if it is at most MIN_SHARE."""
    if group.shares.optimal is None:
        return None
    saving = present_share(group) - group.shares.optimal
    return saving if saving > MIN_SHARE else None
