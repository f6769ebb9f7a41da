"""How long names and texts may be that programs on this machine send: they are kept in events, metrics and status."""

from __future__ import annotations

from typing import Final

MAX_NAME: Final = 249
"""Kafka's longest name of a topic; a group's name may be longer, but then brokers cannot store its offsets."""
MAX_TEXT: Final = 500
"""Characters of a reason that are kept."""
