"""Whether a member of a group may be away: dead while its session lasts, or static and about to return.

Every rebalance waits for such a member until its session or the rebalance timeout ends, and meanwhile an eager group
reads nothing. Brokers do not show heartbeats. Two things show life: commits of partitions that a member owns, and that
the coordinator still has it after a whole session without any, as it removes the dead.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from samerack.cluster.group import GroupView
from samerack.protocol.values import to_pairs

_FRESH_SECONDS: Final = 8.0
"""A commit shows life for so long: by default clients commit every five seconds, and the agent asks every second."""
_GAPS: Final = 1.5
"""A member that commits more rarely is alive for so many of the longest time between two of its commits."""
_BREAK_SECONDS: Final = 10.0
"""After so long without a decision a rebalance that waits is another one, about which nothing is known yet."""
_ASK_SECONDS: Final = 1.0
_ASK_PART: Final = 0.1
"""Asking for commits takes no more than this part of the time: a group may have a hundred thousand partitions."""


@dataclass(slots=True, kw_only=True)
class _Life:
    """What is known of one member: since when it has this id, when it last showed life, the longest time between."""

    member_id: str
    since: float
    sign: float = float("-inf")
    gap: float = 0.0


class MemberLives:
    """The signs of life of one group's members while a rebalance is wanted; times are in seconds, monotonic."""

    def __init__(self, session_seconds: float) -> None:
        """Start without members; brokers do not show their session timeout, which is `session_seconds` at most."""
        self._session = session_seconds
        self._view: GroupView | None = None
        self._members: dict[str, _Life] = {}
        self._returned = float("-inf")
        self._coordinator: object = None
        self._coordinator_since = float("-inf")
        self._wanted = self._renewed = float("-inf")
        self._offsets: Mapping[tuple[str, int], int] | None = None
        self._asked_at = self._ask_at = float("-inf")

    def sees(self, others: GroupView, coordinator: object, now: float) -> None:
        """Record a description of the group without the agent; `coordinator` is another object after each move of it.

        A new coordinator starts every session anew. While static members return under new ids one by one, the next one
        may be about to stop.
        """
        if coordinator is not self._coordinator:
            self._coordinator, self._coordinator_since = coordinator, now
        if others is self._view:
            return
        before, self._members, self._view = self._members, {}, others
        for member in others.members:
            life = before.get(member.key)
            if life is None or life.member_id != member.id:
                self._returned = now if life is not None else self._returned
                life = _Life(member_id=member.id, since=now)
            self._members[member.key] = life

    def decided(self, now: float, *, waits: bool) -> None:
        """Record a decision: whether a rebalance `waits` for nothing but signs of life."""
        if waits and now - self._renewed > _BREAK_SECONDS:
            self._wanted, self._offsets = now, None
            for life in self._members.values():
                life.sign, life.gap = float("-inf"), 0.0
        self._renewed = now if waits else float("-inf")

    def awaits_commits(self, now: float) -> bool:
        """Return whether to ask for the group's commits now; never while no rebalance is wanted."""
        return now - self._renewed < _ASK_SECONDS and now >= self._ask_at

    def asked(self, at: float, now: float, offsets: Mapping[tuple[str, int], int] | None) -> None:
        """Record committed offsets that were asked for at a time; None if that failed."""
        self._ask_at = at + max(_ASK_SECONDS, (now - at) / _ASK_PART)
        if offsets is None:
            return
        before, before_at = self._offsets, self._asked_at
        self._offsets, self._asked_at = offsets, at
        if before is None or self._view is None:
            return
        moved = {partition for partition, offset in offsets.items() if offset > before.get(partition, -1)}
        for member in self._view.members if moved else ():
            if any(pair in moved for pair in to_pairs(member.assigned)):
                life = self._members[member.key]
                life.gap = max(life.gap, before_at - max(life.sign, self._wanted))
                life.sign = before_at

    def away_until(self, now: float) -> float:
        """Return until when a rebalance may have to wait for a member; a time that is over if all show life."""
        waits = now - self._renewed <= _BREAK_SECONDS
        wanted = self._wanted if waits else now
        silent = [
            max(life.sign, life.since, self._coordinator_since, wanted) + (self._grace(life) if waits else 0.0)
            for life in self._members.values()
            if not waits or now - life.sign > _fresh_seconds(life)
        ]
        return max(self._returned, *silent, float("-inf")) + self._session

    def _grace(self, life: _Life) -> float:
        """Return how long after its last sign a silent member may have died: until its next commit was to come.

        Where others commit and it never did, it may have died while the rebalance waited, at any time of a session.
        """
        if life.sign > float("-inf"):
            return _fresh_seconds(life)
        return self._session if any(one.sign > float("-inf") for one in self._members.values()) else 0.0


def _fresh_seconds(life: _Life) -> float:
    return max(_FRESH_SECONDS, _GAPS * life.gap)
