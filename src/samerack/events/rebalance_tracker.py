"""Tracks the rebalances of every group: gives each group its record, and feeds the groups the agent is not a member of.

Measuring polls all observed groups anyway; a membership in a group is more precise than that.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, NamedTuple

from samerack.cluster.group import EMPTY_STATES, STABLE, member_key
from samerack.events.cause import Signs, of_traffic, share_of
from samerack.events.event import Event
from samerack.events.event_log import EventLog
from samerack.events.rebalances import Rebalances
from samerack.traffic.board import Published
from samerack.traffic.snapshot import UNPLANNED_KINDS, GroupTraffic, PartitionTraffic

# Tracks whether members commit: when a member's committed offsets moved last, and whether there was more to read.
#
# A committed offset may stay below the end for ever although its member has read all: transactions end with markers
# that are no records, some applications commit the offset of the last record itself, and records of an open transaction
# cannot be read yet.
#
# A member that leaves has read until then; one that died has not for its whole session. How often a group commits is
# learned while it is stable: no member reads in a rebalance.

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
        for partition in partitions:
            if partition.committed is None or partition.member is None:
                found.append(None)
                continue
            owner, waits = keys.get(partition.member, partition.member), (partition.readable_records or 0) > _UNREADABLE
            committed, last = known.get(partition.partition, (None, None))
            moved = committed != partition.committed
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


_GONE_SECONDS: Final = 600.0
_SETTLED: Final = EMPTY_STATES | {STABLE}


@dataclass(slots=True, kw_only=True)
class _Followed:
    """One group: its rebalances, its known commits, its last measurement, and whether a membership feeds it."""

    rebalances: Rebalances
    commits: GroupCommits = field(default_factory=GroupCommits)
    last: GroupTraffic | None = None
    polled_at: float = float("-inf")
    held: bool = False


@dataclass(eq=False, repr=False)
class RebalanceTracker:
    """Tracks the rebalances of all groups, and records them as events.

    `clock` is monotonic.
    """

    events: EventLog
    clock: Callable[[], float] = time.monotonic
    _groups: dict[str, _Followed] = field(default_factory=dict, init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)

    def of(self, group: str) -> Rebalances:
        """Return the rebalances of one group, for a membership; the group is kept from now on."""
        followed = self._followed(group)
        followed.held = True
        return followed.rebalances

    def take(self, published: Published) -> None:
        """Compare a measurement with the one before; the board calls this, from its thread."""
        snapshot = published.snapshot
        at = self.clock() - snapshot.cycle_seconds
        counts = {topic: len(views) for topic, views in snapshot.cluster.topics.items()}
        for group in snapshot.groups:
            followed = self._followed(group.group)
            keys = {member.id: member_key(member.id, member.instance_id) for member in group.members}
            if not followed.rebalances.inside:
                self._compare(followed, group, at, counts)
            if not _is_as_before(followed.last, group):
                followed.commits.interrupt()
            if group.state == STABLE:
                followed.commits.record(group.partitions, keys, at)
            followed.last, followed.polled_at = group, at
        self._forget(at)

    def _compare(self, followed: _Followed, group: GroupTraffic, at: float, counts: dict[str, int]) -> None:
        if group.state not in _SETTLED:
            clients = {member_key(member.id, member.instance_id): member.client_id for member in group.members}
            followed.rebalances.moving(clients, at, measured=True)
            return
        if group.kind in UNPLANNED_KINDS or (group.state == STABLE and group.problem is None and group.members):
            return  # what its members own is not known
        same = _is_as_before(followed.last, group)
        if same and not followed.rebalances.awaits_poll:
            return
        snapshot = of_traffic(group, partitions=counts)
        followed.rebalances.stable(snapshot, at, share=None if same else share_of(group.problem), measured=True)

    def _forget(self, at: float) -> None:
        """Forget groups that are gone for good, not for a failed poll: there may be as many as ever existed."""
        with self._lock:
            gone = [name for name, one in self._groups.items() if not one.held and at - one.polled_at > _GONE_SECONDS]
            for name in gone:
                del self._groups[name]

    def _followed(self, group: str) -> _Followed:
        with self._lock:
            known = self._groups.get(group)
            if known is None:
                commits = GroupCommits()
                known = self._groups[group] = _Followed(
                    rebalances=Rebalances(
                        record=partial(self._add_event, group), last=partial(self._last, group), signs=commits.signs
                    ),
                    commits=commits,
                )
            return known

    def _add_event(self, group: str, *, at: float, **fields: Any) -> Event:
        """Add an event; `at` is on this tracker's clock."""
        return self.events.add("rebalance", group, ago=max(0.0, self.clock() - at), **fields)

    def _last(self, group: str) -> tuple[int | None, int]:
        """Return the last recorded generation, and how many rebalances without one were recorded since."""
        unnumbered = 0
        for event in self.events.latest(group=group, kinds=("rebalance",)):
            if event.generation is not None:
                return event.generation, unnumbered
            unnumbered += 1
        return None, unnumbered


def _is_as_before(last: GroupTraffic | None, group: GroupTraffic) -> bool:
    """Return whether no member joined, left or got a partition since the last poll, as far as polls show."""
    return last is not None and last.problem is group.problem and last.state == group.state
