"""What the agent is to a group, as metrics, events and commands name it."""

from __future__ import annotations

from typing import Final

from samerack.common import records

OUTSIDE: Final = "outside"
STANDBY: Final = "standby"
WAITING: Final = "waiting"
"""The group has no consumers; the agent joins when the first of them joins."""
OBSERVING: Final = "observing"
FOLLOWING: Final = records.FOLLOWING
LEADING: Final = records.LEADING
FENCED: Final = "fenced"
INSIDE: Final = frozenset({FOLLOWING, LEADING})
