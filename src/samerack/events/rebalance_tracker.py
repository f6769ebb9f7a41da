"""Tracks the rebalances of every group: gives each group its record, and feeds the groups the agent is not a member of.

Measuring polls all observed groups anyway; a membership in a group is more precise than that.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from samerack.cluster.group import EMPTY_STATES, STABLE, member_key
from samerack.events.commits import GroupCommits
from samerack.events.event import Event
from samerack.events.event_log import EventLog
from samerack.events.group_snapshots import of_traffic, share_of
from samerack.events.rebalances import Rebalances
from samerack.traffic.board import Published
from samerack.traffic.snapshot import UNPLANNED_KINDS, GroupTraffic

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

    `cooperative` are names of protocols whose members keep partitions in a rebalance; `clock` is monotonic.
    """

    events: EventLog
    cooperative: Collection[str]
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
            clients = {member_key(one.id, one.instance_id): one.client_id for one in group.members}
            followed.rebalances.moving(clients, at, measured=True)
            return
        if group.kind in UNPLANNED_KINDS or (group.state == STABLE and group.problem is None and group.members):
            return  # what its members own is not known
        same = _is_as_before(followed.last, group)
        if same and not followed.rebalances.awaits_poll:
            return
        snapshot = of_traffic(group, cooperative=self.cooperative, partitions=counts)
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
