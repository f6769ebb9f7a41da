"""Bounds the series of metrics: keys that are seen first have their own, later ones are added up in a common one.

A key that is gone leaves its place to a key that comes later. Counters never go down, and never move: a key that was
added up with others stays so as long as it is seen.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Generic, Self, TypeAlias, TypeVar

from samerack.common.patterns import EVERY, selects

Key = TypeVar("Key")

OTHER: Final = "(other)"
"""The name under which series beyond the bound are added up; no topic, group or rack can have it."""

_NAMES: Final = 10_000
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


TopicNames: TypeAlias = Callable[[str], str]
"""Returns the topic that a metric names: the topic itself, or `(other)` where the settings leave it out."""


def topic_names(entries: Sequence[str] = (EVERY,)) -> TopicNames:
    """Return the names by the entries of `traffic.topics`."""
    return lru_cache(maxsize=_NAMES)(lambda topic: topic if selects(entries, topic) else OTHER)


class Places(Generic[Key]):
    """Which keys have series of their own: those that were seen first, as long as they are seen."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._known: dict[Key, bool] = {}
        """Whether a key has a place."""

    def seen(self, keys: Iterable[Key]) -> Mapping[Key, bool]:
        """Take all keys that there are now; return which have a place, in their order."""
        found = {key: self._known.get(key) for key in keys}
        taken = sum(map(bool, found.values()))
        for key, has in found.items():
            if has is None:
                found[key] = taken < self._most
                taken += taken < self._most
        self._known = {key: bool(has) for key, has in found.items()}
        return self._known


class BoundedCounters(Generic[Key]):
    """Counters by key, each of several numbers, with common ones for keys beyond the bound."""

    def __init__(self, most: int, other: Callable[[Key], Key]) -> None:
        """Prepare: `most` keys have series of their own; `other` returns the common series of a further one."""
        self._places: Places[Key] = Places(most)
        self._other = other
        self._added: dict[Key, tuple[float, ...]] = {}
        """What has been added to a common series of each key that has no own."""
        self._common: dict[Key, tuple[float, ...]] = {}
        self._lock = threading.Lock()

    def series(self, values: Mapping[Key, tuple[float, ...]]) -> dict[Key, tuple[float, ...]]:
        """Take all counters that there are now; return those of each series.

        The common ones keep what keys that are gone had added.
        """
        with self._lock:
            places = self._places.seen(values)
            added: dict[Key, tuple[float, ...]] = {}
            for key, now in values.items():
                if not places[key]:
                    before, name = self._added.get(key), self._other(key)
                    step = now if before is None else tuple(one - other for one, other in zip(now, before, strict=True))
                    common = self._common.get(name)
                    self._common[name] = step if common is None else tuple(map(sum, zip(common, step, strict=True)))
                    added[key] = now
            self._added = added
            own = {key: now for key, now in values.items() if places[key]}
            return own | self._common
