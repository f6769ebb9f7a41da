"""Tracks whether members commit: when a member's committed offsets moved last, and whether there was more to read.

A committed offset may stay below the end for ever although its member has read all: transactions end with markers that
are no records, some applications commit the offset of the last record itself, and records of an open transaction cannot
be read yet.

A member that leaves has read until then; one that died has not for its whole session. How often a group commits is
learned while it is stable: no member reads in a rebalance.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, NamedTuple

from samerack.events.cause import Signs
from samerack.traffic.snapshot import PartitionTraffic

_MIN_SECONDS: Final = 4.0
"""Brokers allow no session shorter than 6 s by default, and a poll may come a moment late."""
_SHORTEST_SESSION_SECONDS: Final = 10.0
"""Of all clients' defaults. A member that committed within it has left; sessions as short as allowed are exceptions."""
_TIMES_USUAL: Final = 2.0
_UNREADABLE: Final = 2
"""Such a rest may be a marker, and the last record itself."""
_FADING: Final = 0.8
"""Factor on the longest time between two commits, for each that came sooner."""


class _Progress(NamedTuple):
    """Some partitions: their owner's key, when their commits were seen first, the usual commit interval.

    Members mostly commit all of their partitions together: there is one object for those that are alike.
    """

    owner: str
    since: float
    usual: float
    waits: bool
    """Whether there was more to read."""
    interrupted: bool = False
    """Whether there was a rebalance since."""
    committed_after: float = float("-inf")
    """The last poll before its owner's latest commit."""

    def stands_still(self, at: float) -> bool:
        """Return whether it had been unusually long without a commit then, or has never had one since it waits."""
        patience = max(_MIN_SECONDS, _TIMES_USUAL * self.usual)
        return at - (self.since if self.waits else self.committed_after) >= patience


class GroupCommits:
    """The commits of one group; one thread drives it."""

    def __init__(self) -> None:
        self._polled: Collection[PartitionTraffic] = ()
        self._progress: list[_Progress | None] = []
        """That of each polled partition; None without a commit or an owner."""
        self._polled_at = float("-inf")

    def record(self, partitions: Collection[PartitionTraffic], keys: dict[str, str], at: float) -> None:
        """Record a poll of offsets; `keys` has the members' keys by member id."""
        known = {one.partition: (one.committed, last) for one, last in zip(self._polled, self._progress, strict=True)}
        found: list[_Progress | None] = []
        alike: dict[_Progress, _Progress] = {}
        for one in partitions:
            if one.committed is None or one.member is None:
                found.append(None)
                continue
            owner, waits = keys.get(one.member, one.member), (one.readable_records or 0) > _UNREADABLE
            committed, last = known.get(one.partition, (None, None))
            moved = committed != one.committed
            if last is None or last.owner != owner:
                now = _Progress(owner, at, last.usual if last is not None else 0.0, waits)
            elif moved or not last.waits:
                complete = last.waits and not last.interrupted
                usual = max(_FADING * last.usual, at - last.since) if complete else last.usual
                after = self._polled_at if moved else last.committed_after
                now = _Progress(owner, at, usual, waits, committed_after=after)
            else:
                now = last
            found.append(alike.setdefault(now, now))
        self._polled, self._progress, self._polled_at = partitions, found, at

    def interrupt(self) -> None:
        """Record that the group rebalances, or has: the time until each next commit is not usual."""
        self._progress = [None if one is None else one._replace(interrupted=True) for one in self._progress]

    def signs(self, at: float) -> Signs:
        """Return who had committed recently at that time, and who not for unusually long though records waited."""
        known = {one for one in self._progress if one is not None}
        waiting = {one.owner for one in known if one.waits}
        busy = {one.owner for one in known if not one.stands_still(at)}
        return Signs(
            silent=frozenset(waiting - busy),
            alive=frozenset(one.owner for one in known if at - one.committed_after < _SHORTEST_SESSION_SECONDS),
        )
