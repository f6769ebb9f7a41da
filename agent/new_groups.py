"""Which listed groups are certainly being born, so that no member of theirs owns partitions yet.

A birth stays in PreparingRebalance for `group.initial.rebalance.delay.ms` at least. Complete lists of the groups in
that state that follow each other sooner show every birth, so a group that no list has shown before did not exist.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupList:
    """What brokers answered to one question for their groups.

    Attributes:
        groups: the names.
        brokers: who was asked.
        complete: whether each of them answered without an error; one that loads groups answers with an error.
        full: whether all groups were asked for, and not only those that rebalance.
        asked_at, answered_at: monotonic seconds.
    """

    groups: AbstractSet[str]
    brokers: AbstractSet[int]
    complete: bool
    full: bool
    asked_at: float
    answered_at: float


class NewGroups:
    """What the lists so far prove; not thread-safe."""

    def __init__(self) -> None:
        """Start without any list: nothing is proved."""
        self._brokers: AbstractSet[int] = frozenset()
        self._recent: AbstractSet[str] = frozenset()
        """The groups that were listed since the last complete list of all."""
        self._earlier: AbstractSet[str] = frozenset()
        """The same of the time before: groups are in no broker's list for a moment while their coordinator moves."""
        self._asked_at: float | None = None
        """When the last complete list was asked for; None if a birth since the last list of all may be missing."""

    @property
    def are_seen(self) -> bool:
        """Whether the lists so far show every birth since the last list of all groups."""
        return self._asked_at is not None

    def add(self, listed: GroupList, delay_seconds: float | None) -> dict[str, float]:
        """Add a list; return the groups that certainly did not exist before, with a time when they did not.

        `delay_seconds` is `group.initial.rebalance.delay.ms`, None if births are not to be proved. Times are monotonic
        seconds.
        """
        before = self._asked_at
        if before is not None and (
            delay_seconds is None or listed.answered_at - before >= delay_seconds or listed.brokers != self._brokers
        ):
            before = self._asked_at = None
        empty_at = dict.fromkeys(listed.groups - self._recent - self._earlier, before) if before is not None else {}
        if listed.complete and listed.full:
            self._recent, self._earlier = frozenset(listed.groups), self._recent
            self._brokers, self._asked_at = listed.brokers, listed.asked_at if delay_seconds is not None else None
        else:
            self._recent |= listed.groups
            if listed.complete and before is not None:
                self._asked_at = listed.asked_at
        return empty_at
