"""What was appended to logs and where it was copied: equal to a plain sum, and never wrong where a log shrank."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from samerack.cluster.metadata import Placements
from samerack.traffic.log_growth import (
    UNKNOWN,
    Copied,
    Growth,
    Logs,
    carried,
    copied,
    first_growth,
    growth,
)

RACKS = {1: "a", 2: "b", 3: "c", 4: "a", 5: ""}


@dataclass(frozen=True, kw_only=True)
class Log:
    """One partition's log."""

    end: int = 0
    size: int = 0
    start: int = 0
    replicas: tuple[int, ...] = (1, 2, 3)


@dataclass(kw_only=True)
class _Interned:
    placements: dict[tuple[int, ...], int] = field(default_factory=dict)

    def of(self, replicas: tuple[int, ...]) -> int:
        return self.placements.setdefault(replicas, len(self.placements))


def logs(topics: Mapping[str, Sequence[Log]], internal: Sequence[str] = ()) -> Logs:
    """A poll of these logs."""
    all_logs: list[Log] = []
    rows, interned = {}, _Interned()
    for topic, some in topics.items():
        rows[topic] = range(len(all_logs), len(all_logs) + len(some))
        all_logs += some
    placement = [interned.of(one.replicas) for one in all_logs]
    return Logs(
        placed=Placements(
            rows=rows,
            internal=frozenset(internal),
            placement=array("i", placement),
            brokers=tuple(interned.placements),
        ),
        size=np.array([one.size for one in all_logs], dtype=np.int64),
        start=np.array([one.start for one in all_logs], dtype=np.int64),
        end=np.array([one.end for one in all_logs], dtype=np.int64),
    )


def appended(*polls: Log | None) -> list[float | None]:
    """What was appended to one log at each poll after the first; None where it is not known."""
    taken = [logs({"t": [one]} if one is not None else {}) for one in polls]
    known, found = first_growth(taken[0]), []
    for before, now in pairwise(taken):
        known = growth(before, known.density, now)
        found += [None if np.isnan(size) else float(size) for size in known.appended] or [None]
    return found


_BEFORE = (Log(end=100, size=10_000), Log(end=200, size=20_000))


@pytest.mark.parametrize(
    ("polls", "found"),
    [
        ((Log(end=10, size=1_000), Log(end=30, size=2_500), Log(end=30, size=2_500)), [1_500, 0]),
        ((Log(), Log(end=7, size=70)), [70]),
        ((*_BEFORE, Log(end=300, size=15_000, start=150)), [10_000, 10_000]),
        ((*_BEFORE, Log(end=300, size=900)), [10_000, 10_000]),
        ((*_BEFORE, Log(end=300, size=900_000, replicas=(2, 1, 3))), [10_000, 10_000]),
        (
            (Log(end=100, size=1_000_000), Log(end=200, size=1_010_000), Log(end=300, size=1_020_000)),
            [505_000, 10_000],
        ),
        ((*_BEFORE, Log(end=300, size=UNKNOWN)), [10_000, None]),
        ((*_BEFORE, Log(end=UNKNOWN, size=30_000, start=UNKNOWN)), [10_000, None]),
        ((*_BEFORE, Log(end=50, size=500)), [10_000, None]),
    ],
    ids=[
        "the difference of sizes; an idle log has none",
        "an empty log",
        "deleted segments: usual bytes",
        "compaction: usual bytes",
        "another leader has other segments: usual bytes",
        "smaller records are believed in the end",
        "no size is no zero",
        "nor are no offsets",
        "nor is a log that was created again",
    ],
)
def test_growth_of_a_log(polls: tuple[Log, ...], found: list[float | None]) -> None:
    """Each poll has the bytes since the one before; what a poll cannot show has the usual bytes, or is unknown."""
    assert appended(*polls) == found


def test_new_partitions_begin_at_the_next_poll() -> None:
    """A topic that was not there, or could not be seen, has not grown by its whole size."""
    assert appended(None, Log(end=100, size=1_000), Log(end=110, size=1_100)) == [None, 100]
    before, now = (
        logs({"u": [Log()], "t": [Log(end=1, size=10)]}),
        logs({"t": [Log(end=2, size=20), Log(end=9, size=9)]}),
    )
    found = growth(before, first_growth(before).density, now).appended
    assert found[0] == 10
    assert np.isnan(found[1])


def test_what_was_late_once_is_in_the_next_growth() -> None:
    """Of a broker that answered late two steps were lost, and the usual bytes per offset with them."""
    last, total = logs({"t": [_BEFORE[0]]}), 0.0
    density = first_growth(last).density
    for late in (
        _BEFORE[1],
        Log(end=UNKNOWN, size=UNKNOWN, start=UNKNOWN),
        Log(end=UNKNOWN, size=40_000),
        Log(end=500, size=50_000),
        Log(end=UNKNOWN, size=UNKNOWN, start=UNKNOWN),
        Log(end=600, size=900),
    ):
        now = logs({"u": [Log()], "t": [late]})
        found = growth(last, density, now)
        last, density = carried(last, now), found.density
        total += float(np.nansum(found.appended))
    assert total == 10_000 + 30_000 + 10_000, "the last one is compacted, and has the usual bytes"


def naive(topics: Mapping[str, Sequence[Log]], internal: Sequence[str], sizes: Sequence[float]) -> Copied:
    """The same sums, one partition and one follower after the other."""
    carried: dict[tuple[str, str], float] = {}
    produced: dict[str, float] = {}
    partitions = [(topic, one) for topic, some in topics.items() for one in some]
    for (topic, one), size in zip(partitions, sizes, strict=True):
        if np.isnan(size):
            continue
        leader, *followers = (RACKS.get(broker, "") for broker in one.replicas)
        if topic not in internal:
            produced[leader] = produced.get(leader, 0.0) + size
        for follower in followers:
            carried[leader, follower] = carried.get((leader, follower), 0.0) + size
    return Copied(carried=carried, produced=produced)


def _but_zeros(some: Copied) -> tuple[dict[tuple[str, str], float], dict[str, float]]:
    return (
        {pair: size for pair, size in some.carried.items() if size},
        {rack: size for rack, size in some.produced.items() if size},
    )


_REPLICAS = st.lists(st.sampled_from([1, 2, 3, 4, 5, 9]), min_size=1, max_size=4, unique=True).map(tuple)
_TOPICS = st.dictionaries(
    st.sampled_from(["clicks", "orders", "__consumer_offsets"]),
    st.lists(st.builds(Log, replicas=_REPLICAS), max_size=6),
)


@given(_TOPICS, st.data())
def test_arrays_give_the_plain_sum(topics: dict[str, list[Log]], data: st.DataObject) -> None:
    """Whatever the placement of replicas, the pairs of racks have the sums of their partitions."""
    count = sum(map(len, topics.values()))
    some = st.one_of(st.integers(min_value=0, max_value=10**9).map(float), st.just(float("nan")))
    sizes = data.draw(st.lists(some, min_size=count, max_size=count))
    internal = ("__consumer_offsets",)
    found = copied(logs(topics, internal), np.array(sizes, dtype=np.float64), lambda broker: RACKS.get(broker, ""))
    assert _but_zeros(found) == _but_zeros(naive(topics, internal, sizes))


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(1, 2_000)), min_size=2, max_size=8))
def test_what_grows_is_measured_in_full(steps: list[tuple[int, int]]) -> None:
    """The growths of a log that never shrinks add up to its size, if its records are of similar sizes."""
    end = size = 0
    polls = [Log()]
    for records, record_bytes in steps:
        end, size = end + records, size + records * (2_000 + record_bytes)
        polls.append(Log(end=end, size=size))
    assert sum(one or 0 for one in appended(*polls)) == size


@given(st.lists(st.tuples(_REPLICAS, st.integers(0, 10**6), st.integers(0, 10**6)), min_size=1, max_size=12))
def test_rows_may_come_in_any_order(some: list[tuple[tuple[int, ...], int, int]]) -> None:
    """A broker may list topics in another order at each poll."""
    first = {f"t{n}": [Log(end=10, size=size, replicas=replicas)] for n, (replicas, size, _) in enumerate(some)}
    then = {f"t{n}": [Log(end=20, size=a + b, replicas=replicas)] for n, (replicas, a, b) in enumerate(some)}
    turned = dict(reversed(then.items()))
    before = logs(first)

    def grown(now: Logs) -> Growth:
        return growth(before, first_growth(before).density, now)

    assert grown(logs(then)).appended.tolist() == grown(logs(turned)).appended.tolist()[::-1]
