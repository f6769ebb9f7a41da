"""Which share of a group's reads crosses racks now, and how much of it counts."""

from __future__ import annotations

from typing import Final

from samerack.traffic.model import GroupTraffic

MIN_SHARE: Final = 0.05
"""Shares that differ by less than this are treated as equal: five points, the default of `policy.min_saving`."""


def is_by_bytes(group: GroupTraffic) -> bool:
    """Return whether `present_share` is by bytes: if the optimum is by bytes too, and bytes were measured."""
    return group.shares.present_bytes is not None and group.shares.optimal_by == "bytes"


def present_share(group: GroupTraffic) -> float | None:
    """Return the share that crosses racks now, by bytes or by partitions; None if it is not known."""
    return group.shares.present_bytes if is_by_bytes(group) else group.shares.present_partitions
