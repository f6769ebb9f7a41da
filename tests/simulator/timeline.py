"""Virtual time: what is to happen, in order, in whole milliseconds. Nothing here waits, and nothing is random.

Two kinds of events are told apart so that hours in which nothing new can happen need not be played: those that only
repeat or are put off again and again while all is well (heartbeats, looks, sessions) move along when time leaps.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field

Action = Callable[[], None]


@dataclass(slots=True, order=True)
class Event:
    """One thing that is to happen; equal times happen in the order in which they were planned."""

    at: int
    number: int
    action: Action | None = field(compare=False)
    repeats: bool = field(compare=False)

    def cancel(self) -> None:
        """It will not happen."""
        self.action = None


class Timeline:
    """The clock and the queue."""

    def __init__(self) -> None:
        self.now = 0
        self.leapt = 0
        self._queue: list[Event] = []
        self._numbers = 0

    def seconds(self) -> float:
        """The time as the agent reads it."""
        return self.now / 1000

    def after(self, milliseconds: int, action: Action, *, repeats: bool = False) -> Event:
        """Plan something.

        Args:
            milliseconds: from now.
            action: what.
            repeats: whether it moves along when time leaps.
        """
        self._numbers += 1
        event = Event(self.now + max(0, milliseconds), self._numbers, action, repeats)
        heapq.heappush(self._queue, event)
        return event

    def run(self, milliseconds: int, until: Callable[[], bool] = lambda: False) -> bool:
        """Let time pass, no longer than until something is so; the answer is whether it is."""
        end = self.now + milliseconds
        while not until():
            if not self._queue or self._queue[0].at > end:
                self.now = end
                return until()
            event = heapq.heappop(self._queue)
            if event.action is not None:
                self.now = event.at
                event.action()
        return True

    def leap(self, milliseconds: int) -> int:
        """Let time pass in which what repeats only repeats: up to the next event that does not; how long that was."""
        self._queue = [event for event in self._queue if event.action is not None]
        firm = min((event.at for event in self._queue if not event.repeats), default=self.now + milliseconds)
        length = max(0, min(milliseconds, firm - self.now))
        for event in self._queue:
            if event.repeats:
                event.at += length
        heapq.heapify(self._queue)
        self.now += length
        self.leapt += length
        return length
