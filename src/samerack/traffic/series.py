"""Bounds the series of metrics: so many keys have their own, the largest first, others are added up in a common one.

A key that is gone leaves its place to another one. Counters never go down: a key that gets a place later begins at 0
there, and what it had been before stays in the common series.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from operator import add, sub
from typing import Final, Generic, Self, TypeVar

Key = TypeVar("Key")

OTHER: Final = "(other)"
"""The name under which series beyond the bound are added up; no topic, group or rack can have it."""

_PER_FLOW: Final = 3
"""Bytes, records and dollars."""
_PER_TOPIC: Final = 4
"""Lag in records and in seconds, and the partitions that each lacks."""
_PER_GROUP: Final = 11
"""Shares, what is not counted by reason, and two of money."""
_PER_PAIR: Final = 2
"""Bytes and dollars of replication."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesLimits:
    """How many flows (groups with topic, racks and method), topics of groups, groups and pairs of racks have series.

    All metrics together stay below a bound.
    """

    flows: int
    topics: int
    groups: int
    pairs: int

    @classmethod
    def of(cls, most: int) -> Self:
        """Divide a number of series: 55 of 100 are for flows, 25 for topics, the rest for groups and racks."""
        return cls(
            flows=max(1, most * 55 // 100 // _PER_FLOW),
            topics=max(1, most * 25 // 100 // _PER_TOPIC),
            groups=max(1, most * 16 // 100 // _PER_GROUP),
            pairs=max(1, most * 4 // 100 // _PER_PAIR),
        )


class Places(Generic[Key]):
    """Which keys have series of their own: the largest of those that come first, as long as they are there."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.known: Mapping[Key, bool] = {}
        """Whether a key has a place."""

    def seen(self, sizes: Mapping[Key, float], gone: Callable[[Key], bool] = lambda _: False) -> Mapping[Key, bool]:
        """Take all keys that there are now, with their sizes; return which have a place, in their order.

        A key that is `gone`, and only counted still, has no place any more once another one needs it.
        """
        held = [key for key in sizes if self.known.get(key)]
        waiting = [key for key in sizes if not self.known.get(key) and not gone(key)]
        over = len(held) + len(waiting) - self._most
        if over > 0:
            left = set(sorted(filter(gone, held), key=lambda key: sizes[key])[:over])
            held = [key for key in held if key not in left]
            waiting = sorted(waiting, key=lambda key: -sizes[key])[: self._most - len(held)]
        places = {*held, *waiting}
        self.known = {key: key in places for key in sizes}
        return self.known


class BoundedCounters(Generic[Key]):
    """Counters by key, each of several numbers, with common ones for keys beyond the bound.

    A key that gets a place later begins at 0 there; what it had added to a common series stays in that.
    """

    def __init__(self, most: int, other: Callable[[Key], Key]) -> None:
        """Prepare: `most` keys have series of their own; `other` returns the common series of a further one."""
        self._places: Places[Key] = Places(most)
        self._other = other
        self._last: dict[Key, tuple[float, ...]] = {}
        self._added: dict[Key, tuple[float, ...]] = {}
        """What each key has added to a common series."""
        self._common: dict[Key, tuple[float, ...]] = {}
        self._lock = threading.Lock()

    def series(
        self, values: Mapping[Key, tuple[float, ...]], gone: Callable[[Key], bool] = lambda _: False
    ) -> dict[Key, tuple[float, ...]]:
        """Take all counters that there are now; return those of each series.

        The common ones keep what keys that are gone had added.
        """
        with self._lock:
            before = {key for key, has in self._places.known.items() if has}
            places = self._places.seen({key: now[0] for key, now in values.items()}, gone)
            added: dict[Key, tuple[float, ...]] = {}
            own: dict[Key, tuple[float, ...]] = {}
            for key, now in values.items():
                nothing = (0.0,) * len(now)
                last, shared = self._last.get(key, nothing), self._added.get(key, nothing)
                if not places[key] or (key in self._last and key not in before):
                    step, name = _less(now, last), self._other(key)
                    shared = _more(shared, step)
                    self._common[name] = _more(self._common.get(name, nothing), step)
                added[key] = shared
                if places[key]:
                    own[key] = _less(now, shared)
            self._added, self._last = added, dict(values)
            return own | self._common


def _more(one: tuple[float, ...], other: tuple[float, ...]) -> tuple[float, ...]:
    return tuple(map(add, one, other))


def _less(one: tuple[float, ...], other: tuple[float, ...]) -> tuple[float, ...]:
    return tuple(map(sub, one, other))
