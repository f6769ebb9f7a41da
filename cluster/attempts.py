"""How soon a failed request to a coordinator is sent again: the first two times at once, then after growing pauses.

kafka-python repeats some requests at once and others after a constant 0.1 s, for as long as a call waits: a broker
that always refuses would get thousands of requests a second.
"""

from __future__ import annotations

from typing import Final

FREE: Final = 2
"""Failures in a row without a pause: a new member id, or a rebalance that another one replaces, is normal."""
FIRST_PAUSE_SECONDS: Final = 0.1
MAX_PAUSE_SECONDS: Final = 0.5
"""Well below every session timeout, so that a coordinator that returns is found in time."""


class Attempts:
    """Counts failures in a row of one kind of request."""

    def __init__(self) -> None:
        """Starts without failures."""
        self.failures = 0

    @property
    def pause_seconds(self) -> float:
        """How long to wait before the next attempt."""
        if self.failures <= FREE:
            return 0.0
        return float(min(MAX_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2.0 ** min(self.failures - FREE - 1, 16)))

    def failed(self) -> None:
        """Counts a failed attempt."""
        self.failures += 1

    def succeeded(self) -> None:
        """Resets the count after a successful attempt."""
        self.failures = 0
