"""What the agent decided and did, for people who look at it: a bounded ring in memory, newest last.

One writer per group, readers on any thread. What must not enter: deciding, and keeping anything for longer than the
process lives.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from agent.leading.policy import Decision

MOST_EVENTS: Final = 500
Kind: TypeAlias = Literal["decision", "plan"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One thing that happened.

    Attributes:
        at: when, in seconds since 1970.
        group: whose.
        kind: a decision of the policy, or a plan that went to the group.
        action: what was done: rebalance or suppress; of a plan, whose it is.
        reason: why, as in the metrics; of a plan, why it is not the preferred assignor's, or "".
        share_before: cross-rack share of the assignment in force.
        share_after: cross-rack share of the plan.
        bytes_per_second: what the group read at that time, where it was measured: what the shares are of.
        detail: more, for people.
    """

    at: float
    group: str
    kind: Kind
    action: str
    reason: str
    share_before: float
    share_after: float
    bytes_per_second: float | None = None
    detail: str = ""


class Events:
    """The ring."""

    def __init__(
        self,
        *,
        rate: Callable[[str], float | None] = lambda _group: None,
        clock: Callable[[], float] = time.time,
        most: int = MOST_EVENTS,
    ) -> None:
        """An empty ring.

        Args:
            rate: bytes per second that a group reads at the moment, or None.
            clock: seconds since 1970.
            most: how many events are kept; the oldest go first.
        """
        self._rate = rate
        self._clock = clock
        self._ring: deque[Event] = deque(maxlen=most)
        self._lock = threading.Lock()

    def decided(self, group: str, decision: Decision) -> None:
        """The policy followed a trigger, or did not."""
        self._add(
            Event(
                at=self._clock(),
                group=group,
                kind="decision",
                action=decision.action.value,
                reason=decision.reason.value,
                share_before=decision.before,
                share_after=decision.after,
                bytes_per_second=self._rate(group),
            )
        )

    def planned(self, group: str, *, assignor: str, shares: tuple[float, float], failure: str, detail: str) -> None:
        """A plan went to the group; `failure` says why it is not the preferred assignor's, if so."""
        self._add(
            Event(
                at=self._clock(),
                group=group,
                kind="plan",
                action=assignor,
                reason=failure,
                share_before=shares[0],
                share_after=shares[1],
                bytes_per_second=self._rate(group),
                detail=detail,
            )
        )

    def latest(self, most: int = MOST_EVENTS, *, group: str | None = None) -> tuple[Event, ...]:
        """The newest events first, those of one group if one is named."""
        with self._lock:
            found = [event for event in reversed(self._ring) if group is None or event.group == group]
        return tuple(found[:most])

    def _add(self, event: Event) -> None:
        with self._lock:
            self._ring.append(event)
