"""Windows in which rebalances may be triggered: each opens by a cron expression and stays open for some minutes.

Cron expressions work as in Debian's cron, also at clock changes: a window in a skipped hour opens right after it, and
one in a repeated hour opens once. The minutes are elapsed time.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from cronsim import CronSim

from samerack.settings.policy import WindowSettings


def next_opening(windows: Iterable[WindowSettings], wall: float) -> float | None:
    """Return when the next window opens; None if one is open now.

    Args:
        windows: At least one.
        wall: The present time, in seconds since 1970.
    """
    opening = min(_opening(window, wall) for window in windows)
    return None if opening <= wall else opening


def _opening(window: WindowSettings, wall: float) -> float:
    """Return when the window that is open now opened, or else when the next one opens."""
    seconds = window.minutes * 60.0
    earliest = datetime.fromtimestamp(wall - seconds, UTC).astimezone(ZoneInfo(window.timezone))
    for start in CronSim(window.cron, earliest):
        opens = start.timestamp()
        if opens + seconds > wall:  # in a repeated hour CronSim may return a start before `earliest`
            return opens
    return float("inf")
