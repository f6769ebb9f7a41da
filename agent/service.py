"""One service of the agent: a part that runs on a thread of its own, and what a start, a stop and a check need of it.

The agent is a list of services (`agent.program`): they start in order, and stop in the reverse order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from threading import Thread


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """One service.

    Attributes:
        name: its name in `/healthz`.
        thread: the thread that it runs on.
        stop: asks the thread to end. It returns at once, unless services that stop later need the last results.
        is_awaited: whether the agent ends only when the thread has ended, or no time is left.
        is_checked: whether the agent is unhealthy once the thread has ended.
    """

    name: str
    thread: Thread
    stop: Callable[[], None]
    is_awaited: bool = False
    is_checked: bool = True
