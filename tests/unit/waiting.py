"""Waits for facts, with one limit that is generous: a busy machine makes a test slow, but not wrong."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

LONGEST_SECONDS: Final = 60.0
"""The limit of every wait for something that must happen; much longer than it takes on the busiest machine."""
_AGAIN_SECONDS: Final = 0.01


def until(fact: Callable[[], object]) -> bool:
    """Wait for a fact; return whether it holds within the limit."""
    deadline = time.monotonic() + LONGEST_SECONDS
    while not fact():
        if time.monotonic() > deadline:
            return False
        time.sleep(_AGAIN_SECONDS)
    return True
