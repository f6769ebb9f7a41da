"""Times in which rebalances may be triggered: each opens as a crontab says, and stays open for some minutes.

Crontabs are read as Debian's cron reads them, also where clocks change: what would open in an hour that is left out
opens right after it, and what would open in an hour that comes twice opens once. The minutes are real ones.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from cronsim import CronSim

from common.settings import WindowSettings


def next_opening(windows: Iterable[WindowSettings], wall: float) -> float | None:
    """When the next of them opens; None where one is open now.

    Args:
        windows: At least one.
        wall: The present time, in seconds since 1970.
    """
    opening = min(_opening(window, wall) for window in windows)
    return None if opening <= wall else opening


def _opening(window: WindowSettings, wall: float) -> float:
    """When the window opened that is open now, or when the next one opens."""
    seconds = window.minutes * 60.0
    earliest = datetime.fromtimestamp(wall - seconds, UTC).astimezone(ZoneInfo(window.timezone))
    for start in CronSim(window.cron, earliest):
        opens = start.timestamp()
        if opens + seconds > wall:  # in an hour that comes twice, a start may be earlier than asked for
            return opens
    return float("inf")
