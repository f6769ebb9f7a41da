"""Virtual time: a queue of events in order, in whole milliseconds. Nothing here waits, and nothing is random.

There are two kinds of events, so that hours without new events can be skipped: events that only repeat or are postponed
again and again in a stable group (heartbeats, polls, sessions) move along when time leaps.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass

Action = Callable[[], None]


@dataclass(slots=True, eq=False)
class Event:
    """One scheduled action."""

    action: Action | None
    repeats: bool

    def cancel(self) -> None:
        """Cancel the action."""
        self.action = None


class Timeline:
    """The clock and the queue of events."""

    def __init__(self) -> None:
        self.now = 0
        self.leapt = 0
        self._queue: list[tuple[int, int, Event]] = []  # time, sequence number (the order at equal times), and event
        self.scheduled = 0

    def seconds(self) -> float:
        """The time in seconds, as the agent reads it."""
        return self.now / 1000

    def after(self, milliseconds: int, action: Action, *, repeats: bool = False) -> Event:
        """Schedule an action; one that repeats moves along when time leaps."""
        self.scheduled += 1
        event = Event(action, repeats)
        heapq.heappush(self._queue, (self.now + max(0, milliseconds), self.scheduled, event))
        return event

    def run(self, milliseconds: int, until: Callable[[], bool] = lambda: False) -> bool:
        """Let time pass, at most until a condition holds; return whether it holds."""
        end = self.now + milliseconds
        while not until():
            if not self._queue or self._queue[0][0] > end:
                self.now = end
                return until()
            at, _, event = heapq.heappop(self._queue)
            if event.action is not None:
                self.now = at
                event.action()
        return True

    def leap(self, milliseconds: int) -> int:
        """Skip time up to the next event that does not repeat; return the skipped milliseconds."""
        queue = [entry for entry in self._queue if entry[2].action is not None]
        firm = min((at for at, _, event in queue if not event.repeats), default=self.now + milliseconds)
        length = max(0, min(milliseconds, firm - self.now))
        self._queue = [(at + length if event.repeats else at, number, event) for at, number, event in queue]
        heapq.heapify(self._queue)
        self.now += length
        self.leapt += length
        return length
