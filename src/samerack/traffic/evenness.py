"""How evenly a group's members read: the topic of which one member has most, and the member that reads most bytes.

Even if all members have the same number of partitions, one member may read all of the busiest topic or most bytes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from samerack.common import words

_SEVERAL: Final = 2
"""A topic needs at least this many partitions and readers to be shared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicShare:
    """The topic of which one member has most beyond what it must have.

    `share` is the member's part of the topic's partitions that have an owner, between 0 and 1; `least` is what some
    member must have, as partitions cannot be divided.
    """

    topic: str
    member: str
    share: float
    least: float


@dataclass(frozen=True, slots=True, kw_only=True)
class BusiestMember:
    """The member that reads most, and what all members read on average, in the same unit."""

    member: str
    bytes_per_second: float
    mean: float

    @property
    def times_mean(self) -> float:
        """How many times the average that is."""
        return self.bytes_per_second / self.mean


def share_in_words(share: TopicShare | None) -> str:
    """Return a text for users."""
    if share is None:
        return words.UNKNOWN
    return f"{words.percent(share.share)} of {share.topic} ({words.percent(share.least)} must be)"


def busiest_in_words(busiest: BusiestMember | None) -> str:
    """Return a text for users."""
    return words.UNKNOWN if busiest is None else f"{busiest.times_mean:.1f} times the mean"


def topic_share(owned: Iterable[tuple[str, str]], subscriptions: Mapping[str, Iterable[str]]) -> TopicShare | None:
    """Return the most unevenly read topic of a group, from member and topic of each partition that has an owner.

    None if no topic has several partitions and several members that may read it.
    Complexity: O(partitions + members * topics).
    """
    cells = Counter(owned)
    sizes: Counter[str] = Counter()
    fullest: dict[str, tuple[int, str]] = {}
    for (member, topic), count in sorted(cells.items()):
        sizes[topic] += count
        if count > fullest.get(topic, (0, ""))[0]:
            fullest[topic] = (count, member)
    readers = Counter(topic for topics in subscriptions.values() for topic in topics)
    shared = (topic for topic in sorted(sizes) if sizes[topic] >= _SEVERAL and readers[topic] >= _SEVERAL)
    shares = (
        TopicShare(
            topic=topic,
            member=fullest[topic][1],
            share=fullest[topic][0] / sizes[topic],
            least=-(-sizes[topic] // readers[topic]) / sizes[topic],
        )
        for topic in shared
    )
    return max(shares, key=lambda one: (one.share - one.least, one.share), default=None)


def busiest(rates: Iterable[tuple[str, float | None]], members: Iterable[str]) -> BusiestMember | None:
    """Return the member that reads most bytes, from owner and bytes per second of each partition that has an owner.

    None with fewer than two members, if a rate is not known, or while nothing is read.
    """
    sums = dict.fromkeys(members, 0.0)
    for member, rate in rates:
        if rate is None or member not in sums:
            return None
        sums[member] += rate
    total = sum(sums.values())
    if len(sums) < _SEVERAL or not total:
        return None
    most = max(sorted(sums), key=lambda member: sums[member])
    return BusiestMember(member=most, bytes_per_second=sums[most], mean=total / len(sums))
