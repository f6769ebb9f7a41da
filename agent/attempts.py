"""How soon a failed request to a coordinator is sent again: the first two times at once, then after growing pauses.

kafka-python repeats some requests at once and others after a constant 0.1 s, for as long as anybody waits: a broker
that refuses steadily would be asked thousands of times a second.
"""

from __future__ import annotations

from typing import Final

FREE: Final = 2
"""Failures in a row that cost no pause: a new member id, or a rebalance that another one overtakes, are ordinary."""
FIRST_PAUSE_SECONDS: Final = 0.1
MAX_PAUSE_SECONDS: Final = 0.5
"""Well below every session timeout, so that a coordinator that comes back is found in time."""


class Attempts:
    """Counts failures in a row of one kind of request."""

    def __init__(self) -> None:
        """Nothing has failed yet."""
        self.failures = 0

    @property
    def pause_seconds(self) -> float:
        """How long to wait before the next attempt."""
        if self.failures <= FREE:
            return 0.0
        return float(min(MAX_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2.0 ** min(self.failures - FREE - 1, 16)))

    def failed(self) -> None:
        """One more attempt has failed."""
        self.failures += 1

    def succeeded(self) -> None:
        """The next failure is the first again."""
        self.failures = 0
