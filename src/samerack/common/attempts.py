"""How soon something that failed is tried again: after pauses that double, up to a limit, until it succeeds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

_MAX_DOUBLINGS: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPauses:
    """The pauses after failures in a row, in seconds: each is twice as long as the one before."""

    first: float
    most: float  # the longest
    free: int = 0  # how many failures have no pause

    def after(self, failures: int) -> float:
        """Return the seconds to wait after this number of failures in a row."""
        if failures <= self.free:
            return 0.0
        return min(self.most, self.first * 2.0 ** min(failures - self.free - 1, _MAX_DOUBLINGS))


REQUESTS: Final = RetryPauses(first=0.1, most=0.5, free=2)
"""For requests to a coordinator: a new member id, or a rebalance that another one replaces, is normal, and the longest
pause is well below every session timeout. kafka-python repeats some requests at once and others after a constant 0.1 s,
for as long as a call waits: a broker that always refuses would get thousands of requests a second."""
REFUSALS: Final = RetryPauses(first=2.0, most=60.0)
"""For connections that one side refuses: a retry soon changes nothing, and many clients that retry overload brokers."""


class Attempts:
    """Counts failures in a row."""

    def __init__(self, pauses: RetryPauses) -> None:
        self.failures = 0
        self._pauses = pauses

    @property
    def pause_seconds(self) -> float:
        """How long to wait before the next attempt."""
        return self._pauses.after(self.failures)

    def failed(self) -> float:
        """Count a failed attempt; return how long to wait before the next."""
        self.failures += 1
        return self.pause_seconds

    def succeeded(self) -> None:
        """Reset the count after a successful attempt."""
        self.failures = 0
