"""What a client reports is bounded by the logs as brokers show them, whatever it reports and how often."""

from __future__ import annotations

from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samerack.cluster.wire import BrokerClient
from samerack.traffic import exact as exact_module
from samerack.traffic.board import TrafficBoard
from samerack.traffic.broker_poller import Poll
from samerack.traffic.collect import Partition
from samerack.traffic.curve import Curve, LogExtent, begin, extend
from samerack.traffic.cycle import Cycle
from samerack.traffic.exact import MAX_CLIENTS, ExactReads
from samerack.traffic.snapshot import Family
from samerack.traffic.statistics import Counters, StatisticsError
from samerack.traffic.weights import WeightBook
from tests.unit.agent.values import partition, view_of
from tests.unit.traffic.test_cycle import SETTINGS, Seeing
from tests.unit.traffic.test_exact import collected, counters, group, member

MB: Final = 1_000_000
T0: Final = ("t", 0)
FREE_BYTES: Final = 4 << 20


def log(size_bytes: int, records: int, *, start: int = 0, before: Curve | None = None) -> Curve:
    """A log of this size that ends at this offset."""
    extent = LogExtent(start=start, end=records, size_bytes=size_bytes, leader=1)
    return begin(extent) if before is None else extend(before, extent)


def sent(wire_bytes: int, records: int = 0, *, client: str = "c#1", age: float = 5) -> Counters:
    """The counters of a client that reads t-0 from broker 1."""
    return Counters(
        client=client,
        client_id="c",
        age_seconds=age,
        received={1: wire_bytes},
        served_by={T0: 1},
        messages={T0: records},
    )


class Watched:
    """An agent that sees one member that owns t-0, and the log of t-0; the member's client starts with the agent."""

    def __init__(self) -> None:
        self.exact = ExactReads()
        self.now = 100.0
        self.exact.see({"g": group(member("m1", "c", 0))}, {"t": 1}, {}, since={"g": 100.0})

    def poll(self, curve: Curve, *, seconds: float = 5.0, rewound: bool = False) -> float:
        """Poll once and return the bytes counted for the member."""
        self.now += seconds
        back: dict[str, frozenset[Partition]] = {"g": frozenset({T0})} if rewound else {}
        return sum(collected(self.exact, {T0: curve}, now=self.now, rewound=back).values())

    def post(self, counters: Counters) -> None:
        """Post counters between two polls."""
        self.exact.post("g", counters, now=self.now + 5.0)


def test_what_the_logs_can_explain_counts() -> None:
    """A client's reads count if they fit the log at its start and what is written since."""
    curve = log(50 * MB, 50_000)
    watched = Watched()
    watched.post(sent(51 * MB, 50_000))
    assert watched.poll(curve) == 51 * MB
    for turn in range(1, 20):
        curve = log(50 * MB + turn * 10 * MB, 50_000 + turn * 10_000, before=curve)
        watched.post(sent(51 * MB + turn * 11 * MB, 50_000 + turn * 10_000))
        assert watched.poll(curve) == pytest.approx(11 * MB)
        assert watched.exact.gaps == []


@pytest.mark.parametrize("lie", [sent(2**62, 10), sent(500 * MB, 10)], ids=["EB", "MB"])
def test_what_no_log_can_explain_is_cut_and_named(lie: Counters) -> None:
    """The rest of the report counts; what follows counts as if nothing had been."""
    curve = log(50 * MB, 50_000)
    watched = Watched()
    watched.post(lie)
    assert 100 * MB <= watched.poll(curve) < 105 * MB
    (gap,) = watched.exact.gaps
    assert (gap.what, gap.where, gap.refused) == (Family.STATISTICS, "g", False)
    assert gap.reason == "member m1: its client reports more than the logs of its partitions had"
    curve = log(60 * MB, 60_000, before=curve)
    watched.post(sent(lie.received[1] + 10 * MB, 10_010))
    assert watched.poll(curve) == 10 * MB
    assert watched.exact.gaps == []


def test_records_are_cut_as_bytes_are() -> None:
    """A log has no more records than offsets."""
    watched = Watched()
    watched.post(sent(MB, 10**12))
    counted = watched.exact.collect({T0: log(50 * MB, 50_000)}, now=105.0)
    (read,) = counted["g"]["m1"]
    assert read.wire_bytes == MB
    assert read.records is not None
    assert 100_000 <= read.records < 111_000


def test_partitions_of_a_report_are_cut_together() -> None:
    """Bytes are split over partitions by messages: those of many small ones get too much, and none is lost for it."""
    exact = ExactReads()
    exact.see({"g": group(member("m1", "c", 0, 1))}, {"t": 2}, {}, since={"g": 100.0})
    both = {T0: 1_000_000, ("t", 1): 10_000}
    exact.post(
        "g",
        Counters(
            client="c",
            client_id="c",
            age_seconds=1,
            received={1: 100 * MB},
            served_by=dict.fromkeys(both, 1),
            messages=both,
        ),
        now=105.0,
    )
    curves = {T0: log(10 * MB, 1_000_000), ("t", 1): log(90 * MB, 10_000)}
    assert collected(exact, curves, now=105.0) == {"m1": pytest.approx(100 * MB)}
    assert exact.gaps == []


def test_a_rewind_allows_what_was_read_once_more() -> None:
    """A rewind of the group's commits allows another read; without it a log counts at most twice."""
    curve = log(50 * MB, 50_000)
    for rewound, passes in ((True, 10), (False, 2)):
        watched = Watched()
        counted = 0.0
        for turn in range(1, 11):
            watched.post(sent(turn * 50 * MB, turn * 50_000))
            counted += watched.poll(curve, rewound=rewound)
        assert passes * 50 * MB <= counted < passes * 50 * MB + 2 * FREE_BYTES


def test_a_log_in_tiers_counts_by_its_records() -> None:
    """Tiered logs are bounded by records, since brokers give the size of local segments only."""
    curve = log(10 * MB, 1_000_000, start=0)
    curve = log(11 * MB, 1_001_000, before=curve)
    watched = Watched()
    watched.post(sent(900 * MB, 900_000))
    assert watched.poll(curve) == 900 * MB


@given(
    st.lists(
        st.tuples(
            st.integers(0, 200 * MB),
            st.integers(0, 200_000),
            st.sampled_from(["c#1", "c#2", "c#3"]),
            st.integers(0, 20_000),
        ),
        max_size=12,
    )
)
def test_no_posts_count_beyond_the_logs(posts: list[tuple[int, int, str, int]]) -> None:
    """Posts under any names and in any order never exceed twice the log, twice what is written, and envelopes."""
    size = 20 * MB
    curve = log(size, size // 1000)
    watched = Watched()
    counted = 0.0
    for wire_bytes, records, client, written in posts:
        watched.post(sent(wire_bytes, records, client=client))
        size += written * 1000
        curve = log(size, size // 1000, before=curve)
        counted += watched.poll(curve)
    counted += watched.poll(curve)
    envelopes = 0.1 * MB * 5.0 * (len(posts) + 2)
    assert counted <= 2.1 * size + FREE_BYTES + envelopes


def test_one_member_has_few_clients() -> None:
    """A member has a bounded number of clients, because each new name is stored."""
    watched = Watched()
    for number in range(MAX_CLIENTS):
        watched.post(sent(1, client=f"c#{number}"))
    with pytest.raises(StatisticsError, match=f"{MAX_CLIENTS} clients report member 'm1' already"):
        watched.post(sent(1, client="c#more"))
    watched.post(sent(2, client="c#0"))


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of stored partitions is bounded over all clients."""
    monkeypatch.setattr(exact_module, "MAX_PARTITIONS", 3)
    exact = ExactReads()
    exact.see({"g": group(member("m1", "c", 0), member("m2", "d", 1))}, {"t": 4}, {}, since={"g": 0.0})
    many = {("t", number): 1 for number in range(3)}
    exact.post("g", Counters(client="a", client_id="c", age_seconds=1, received={}, served_by={}, messages=many), now=1)
    with pytest.raises(StatisticsError, match="more than 3 partitions"):
        exact.post("g", counters(1, client="b", client_id="d", number=1), now=1.0)


class Logs(Seeing):
    """The same group, with the logs of its partitions."""

    def __init__(self) -> None:
        super().__init__()
        self.state.cluster = view_of(t=[partition(1), partition(2)])

    def poll(self, *, now: float, rack_aware: bool) -> Poll:
        """Poll the group and add ten records of 1000 bytes to each partition."""
        seen = super().poll(now=now, rack_aware=rack_aware)
        both = (T0, ("t", 1))
        self.production.polled(both, [10_000.0] * len(both), 5.0)
        for key in both:
            before = self.state.curves.get(key)
            self.state.curves[key] = log(self.offset * 1000, self.offset, before=before)
        return seen


@pytest.mark.parametrize("lie", [0, 10**15])
def test_a_lie_counts_what_the_logs_had_and_changes_no_plan(lie: int) -> None:
    """Posts with false bytes, which once made a month's bytes and a group's share, change no plan and are named."""
    board, weights, exact = TrafficBoard(), WeightBook(), ExactReads()
    cycle = Cycle(SETTINGS, wire=BrokerClient({}), board=board, exact=exact, weights=weights)
    cycle._poller = Logs()
    for number in range(1, 12):
        cycle.turn(now=5.0 * number, wall=5.0 * number, rack_aware=False)
        if lie:
            exact.post("g", sent(lie * number, 10 * number, age=1), now=5.0 * number + 1)
    assert bool(board.latest().gaps) is bool(lie)
    written, envelopes = 2 * 12 * 10_000, 0.02 * MB * 5.0 * 12
    counted = sum(volume.wire_bytes for volume in board.totals().values())
    assert counted < (2 * written + FREE_BYTES + envelopes if lie else MB)
    known = weights.rates("g")
    assert known is not None
    assert known[T0].value == known["t", 1].value == pytest.approx(2000.0)
