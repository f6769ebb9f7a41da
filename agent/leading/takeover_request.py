"""Requests for a takeover of one group, and its progress: users ask from other threads, the group's leader answers.

A request that the group's leader does not start in time is refused, so that its user gets an answer.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from samerack.agent.group_status import FOLLOWING, LEADING, WAITING
from samerack.agent.leading.group_reporter import GroupReporter
from samerack.agent.leading.progress import UNDER_WAY, Progress, TakeoverOutcome

_ASKED_SECONDS: Final = 5.0
"""A request that the group's leader has not started by then is refused."""


class TakeoverRequest:
    """The last request for a takeover of one group, at first none; thread-safe."""

    def __init__(self, *, group: str, reporter: GroupReporter, clock: Callable[[], float]) -> None:
        self._group = group
        self._reporter = reporter
        self._clock = clock
        self._lock = threading.Lock()
        self._progress = Progress(group=group)
        self._asked_at = float("-inf")
        self.approached = False
        """Whether the agent has moved to the best position that it found, since the request or the last rebalance."""

    def ask(self, *, dry_run: bool) -> Progress:
        """Request a takeover, or only its gain; return its progress, or that of one already under way."""
        with self._lock:
            if self._now().outcome in UNDER_WAY:
                return self._progress
            role = self._reporter.role
            asked = Progress(group=self._group, number=self._progress.number + 1, dry_run=dry_run)
            if role == FOLLOWING:
                self._asked_at, self.approached = self._clock(), False
                self._progress = replace(asked, outcome=TakeoverOutcome.ASKED)
            else:
                self._progress = replace(
                    asked, outcome=TakeoverOutcome.REFUSED, reason=_role_refusal(role, self._reporter.trouble)
                )
            return self._progress

    @property
    def progress(self) -> Progress:
        """The progress of the last takeover."""
        with self._lock:
            return self._now()

    @property
    def next_number(self) -> int:
        """The number of the takeover that starts now: the request's, or a new one without a request."""
        progress = self._progress
        return progress.number if progress.outcome is TakeoverOutcome.ASKED else progress.number + 1

    def extend(self) -> None:
        """Start the time of the request again: the group's leader works on it."""
        self._asked_at = self._clock()

    def publish(self, progress: Progress) -> None:
        """Replace the progress."""
        with self._lock:
            self._progress = progress

    def _now(self) -> Progress:
        overdue = self._clock() - self._asked_at > _ASKED_SECONDS
        if self._progress.outcome is TakeoverOutcome.ASKED and overdue:
            reason = f"the group did not settle within {_ASKED_SECONDS:g} s, or its topics are not known yet; try again"
            self._progress = replace(self._progress, outcome=TakeoverOutcome.REFUSED, reason=reason)
        return self._progress


def _role_refusal(role: str, trouble: str) -> str:
    """Return why an agent in this role cannot take the lead over."""
    if role == LEADING:
        return "the agent leads it already"
    if role == WAITING:
        return "it has no consumers; the agent leads it when the first of them start"
    return f"the agent is {role} to it" + (f": {trouble}" if trouble else ", and only one that follows can take over")
