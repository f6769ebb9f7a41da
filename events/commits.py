"""Tracks whether members commit: when a member's committed offsets moved last, and whether there was more to read.

A member that leaves has read until then; one that died has not for its whole session. How often a group commits is
learned while it is stable: no member reads in a rebalance.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from samerack.events.cause import Partition, Signs
from samerack.traffic.model import PartitionTraffic

_MIN_SECONDS: Final = 4.0
"""Brokers allow no session shorter than 6 s by default, and a poll may come a moment late."""
_SHORTEST_SESSION_SECONDS: Final = 10.0
"""Of all clients' defaults. A member that committed within it has left; sessions as short as allowed are exceptions."""
_TIMES_USUAL: Final = 2.0
_FADING: Final = 0.8
"""Factor on the longest time between two commits, for each that came sooner."""


@dataclass(slots=True)
class _Progress:
    """One partition: its owner's key, its committed offset, when that was seen first, the usual commit interval."""

    owner: str
    offset: int
    since: float
    usual: float
    waits: bool
    """Whether there was more to read."""
    interrupted: bool = False
    """Whether there was a rebalance since."""
    committed_after: float = float("-inf")
    """The last poll before its owner's latest commit."""


class Commits:
    """The commits of one group; one thread drives it."""

    def __init__(self) -> None:
        self._known: dict[Partition, _Progress] = {}
        self._polled_at = float("-inf")

    def record(self, partitions: Iterable[PartitionTraffic], keys: dict[str, str], at: float) -> None:
        """Record a poll of offsets.

        Args:
            partitions: what the group reads.
            keys: the members' keys, by member id.
            at: when it was polled.
        """
        found: dict[Partition, _Progress] = {}
        for one in partitions:
            if one.committed is None or one.member is None:
                continue
            where = one.partition
            owner, waits = keys.get(one.member, one.member), bool(one.lag_records)
            last = self._known.get(where)
            if last is None or last.owner != owner:
                found[where] = _Progress(owner, one.committed, at, last.usual if last is not None else 0.0, waits)
            elif last.offset != one.committed or not last.waits:
                complete = last.waits and not last.interrupted
                usual = max(_FADING * last.usual, at - last.since) if complete else last.usual
                after = self._polled_at if last.offset != one.committed else last.committed_after
                found[where] = _Progress(owner, one.committed, at, usual, waits, committed_after=after)
            else:
                found[where] = last
        self._known, self._polled_at = found, at

    def interrupt(self) -> None:
        """Record that the group rebalances, or has: the time until each next commit is not usual."""
        for one in self._known.values():
            one.interrupted = True

    def signs(self, at: float) -> Signs:
        """Return who had committed recently at that time, and who not for unusually long though records waited."""
        silent: dict[str, bool] = {}
        for one in self._known.values():
            if one.waits:
                still = at - one.since >= max(_MIN_SECONDS, _TIMES_USUAL * one.usual)
                silent[one.owner] = silent.get(one.owner, True) and still
        known = self._known.values()
        return Signs(
            silent=frozenset(owner for owner, still in silent.items() if still),
            alive=frozenset(one.owner for one in known if at - one.committed_after < _SHORTEST_SESSION_SECONDS),
        )
