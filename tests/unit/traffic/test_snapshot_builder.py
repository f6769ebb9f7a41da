"""What the view of a group reports as missing in its figures."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from samerack.cluster.racks import MemberRack
from samerack.cluster.view import ClusterView, NoRack, Rack
from samerack.cluster.wire import BrokerClient
from samerack.common.money import shipped
from samerack.reporting import costs
from samerack.settings.loading import load
from samerack.traffic import shares
from samerack.traffic.board import TrafficBoard
from samerack.traffic.broker_poller import BrokerPoller, CycleState, GroupReading
from samerack.traffic.collect import Offsets, Partition, Served
from samerack.traffic.curve import LogExtent, begin
from samerack.traffic.describe import Commits
from samerack.traffic.metrics import SeriesLimits, TrafficCollector
from samerack.traffic.positions import CommitSpans
from samerack.traffic.snapshot import BlindSpot, Flow, FlowKey, GroupTraffic, LowerBound, TrafficSnapshot, Volume
from samerack.traffic.snapshot_builder import SnapshotBuilder
from samerack.traffic.streams_members import StreamsClient
from samerack.traffic.throughput import Production, Rate, ReadRates
from samerack.traffic.weights import WeightBook
from tests.unit.agent.values import partition, view_of
from tests.unit.traffic.test_exact import group, member

NOWHERE = MemberRack(rack=None, source="none", fetches_with_rack=False)
CLIENT = StreamsClient(process_id="p", endpoint="", tags=(), active=("0_0",), standby=())
VIEW = view_of(t=[partition(1)])
SERVED = Served(broker=1, view=partition(1), at=0.0, seconds=60.0)
STATE = CycleState(
    cluster=VIEW,
    curves={("t", 0): begin(LogExtent(start=0, end=0, size_bytes=0, leader=1))},
    served={"a": {("t", 0): SERVED}},
)
NOTHING = CommitSpans()
SETTINGS = load(flags={"kafka": {"bootstrap.servers": "b:1"}, "groups": ["g"]}, environment={})


def seen(spans: CommitSpans = NOTHING, *, exact: bool = True, **changed: object) -> GroupReading:
    """A group of one member, which owns one partition and has exact figures."""
    one = replace(member("m", "c", 0), **changed)  # type: ignore[arg-type]  # fields by name
    return GroupReading(
        group=group(one),
        owners={("t", 0): one},
        committed={("t", 0): 5},
        commits=Commits(offsets={("t", 0): 5}),
        spans=spans,
        is_whole=True,
        exact_members=frozenset({"m"} if exact else ()),
    )


class Built:
    """A builder, and a poller that has polled."""

    def __init__(self, state: CycleState = STATE, weights: WeightBook | None = None) -> None:
        self.builder = SnapshotBuilder(SETTINGS, weights or WeightBook(), ReadRates())
        self.poller = BrokerPoller(SETTINGS, BrokerClient({}))
        self.poller.state, self.poller.rack_aware = state, True

    def group(self, what: GroupReading, *, now: float = 0.0) -> GroupTraffic:
        """The snapshot of the group."""
        return self.builder.build(what, self.poller, now=now, window_seconds=60.0)


def spots(what: GroupReading, state: CycleState = STATE) -> set[BlindSpot]:
    """The blind spots of one view."""
    return set(Built(state).group(what).blind_spots)


def test_an_exact_group_with_racks_has_none() -> None:
    """An exact group with racks has no blind spots."""
    assert spots(seen()) == set()
    assert spots(seen(streams=CLIENT)) == set()


def test_each_cause_has_its_sentence() -> None:
    """The causes are estimates, missing racks, commits, sizes, probes, and state of Streams."""
    assert spots(seen(exact=False)) == {BlindSpot.PREFETCHED}
    assert spots(seen(rack=NOWHERE)) == {BlindSpot.RACKS_UNKNOWN}
    assert spots(seen(rack=replace(NOWHERE, foreign="cellar", fetches_with_rack=True))) == {BlindSpot.RACKS_UNKNOWN}
    assert spots(seen(replace(NOTHING, uncommitted=frozenset({("t", 0)})))) == {BlindSpot.NO_COMMITS}
    assert spots(seen(), replace(STATE, curves={})) == {BlindSpot.SIZES_UNKNOWN}
    assert spots(seen(), replace(STATE, served={})) == {BlindSpot.SERVING_GUESSED}
    assert spots(seen(), replace(STATE, cluster=view_of(t=[partition(2)]))) == {BlindSpot.SERVING_GUESSED}
    assert spots(seen(streams=replace(CLIENT, standby=("0_1",)))) == {BlindSpot.STATE}


def test_the_age_of_what_is_not_read_is_that_of_the_timeline() -> None:
    """Partition and topic have it; without a timeline or an end it is not known."""
    state = replace(STATE, logs={("t", 0): Offsets(start=0, end=20)})
    for known, lag in ((state, LowerBound(value=3.75)), (STATE, LowerBound(unknown=1))):
        built = Built(known)
        for at, end in ((100.0, 0), (105.0, 20)):
            built.poller.timelines.polled({("t", 0): Offsets(start=0, end=end)}, now=at)
        assert built.group(seen(), now=105.0).lag_seconds == {"t": lag}
        (shown,) = built.group(seen(), now=105.0).partitions
        assert (shown.lag_records, shown.lag_seconds) == ((15, 3.75) if known is state else (None, None))
    assert Built(state).group(seen(), now=105.0).lag_seconds == {"t": LowerBound(unknown=1)}


def test_what_can_be_read_ends_where_brokers_say() -> None:
    """Not behind an open transaction, and not before the log's start; without an end it is not known."""
    for log, stable, found in (
        (Offsets(start=0, end=20), {}, 15),
        (Offsets(start=0, end=20), {("t", 0): 7}, 2),
        (Offsets(start=18, end=20), {}, 2),
        (Offsets(start=20, end=20), {}, 0),
        (None, {}, None),
    ):
        logs = {} if log is None else {("t", 0): log}
        (built,) = Built(replace(STATE, logs=logs, stable=stable)).group(seen()).partitions
        assert built.readable_records == found


def test_what_a_silent_coordinator_hides_is_unknown() -> None:
    """After a minute of silence a group that read 10 MB/s had 0, and a lag that grew by all that was written."""
    key = FlowKey(group="g", topic="t", client_rack="a", replica_rack="a", method="estimated")
    flows = (Flow(key=key, volume=Volume(wire_bytes=600, records=6)),)
    built = Built(replace(STATE, logs={("t", 0): Offsets(start=0, end=20)}))
    built.poller.timelines.polled({("t", 0): Offsets(start=0, end=20)}, now=0.0)
    answered = built.group(replace(seen(), flows=flows))
    silent = built.group(replace(seen(), flows=flows, commits=None))
    assert (answered.bytes_per_second, answered.shares.present_bytes) == (10.0, 0.0)
    assert (silent.bytes_per_second, silent.shares.present_bytes, silent.flows) == (None, None, ())
    assert silent.lag == silent.lag_seconds == {"t": LowerBound(unknown=1)}
    (one,) = silent.partitions
    assert (one.committed, one.lag_records, one.lag_seconds, one.readable_records, one.bytes_per_second) == (
        (5, None, None, None, None)
    )


def test_a_rewind_is_remembered() -> None:
    """Bytes that were read twice are unknown as long as the figures are shown."""
    one = Built()
    assert one.group(seen(replace(NOTHING, rewound=frozenset({("t", 0)})))).blind_spots == (BlindSpot.REWOUND,)
    assert one.group(seen()).blind_spots == (BlindSpot.REWOUND,)
    one.builder.forget(["g"])
    assert one.group(seen()).blind_spots == ()


@pytest.mark.parametrize(
    ("brokers", "share"),
    [
        ({1: "a", 2: "b", 3: "c"}, 2 / 3),
        ({1: "a", 2: "a"}, 0.0),
        ({1: "a", 2: NoRack.UNSET, 3: NoRack.UNSET}, None),
        ({1: NoRack.UNSET}, None),
        ({}, None),
    ],
)
def test_the_share_at_random_is_unknown_while_a_broker_has_no_rack(
    brokers: dict[int, Rack], share: float | None
) -> None:
    """One rack of three brokers is no single rack, of which nothing would cross."""
    assert shares.random_share(ClusterView(brokers=brokers, topics={})) == (
        None if share is None else pytest.approx(share)
    )


@pytest.mark.parametrize(("rack", "optimal"), [(member("m", "c", 0).rack, 1.0), (NOWHERE, None)])
def test_the_best_share_of_a_group_without_racks_is_unknown(rack: MemberRack, optimal: float | None) -> None:
    """No series of the optimum, and none in `cost`; with a rack, which is not that of the replica, there is one."""
    view = view_of({1: "b"}, t=[partition(1)])
    snapshot = TrafficSnapshot(groups=(Built(replace(STATE, cluster=view)).group(seen(rack=rack)),), cluster=view)
    (cost,) = costs.report(snapshot, shipped("aws"), roles={}).groups
    assert cost.optimal_share == optimal
    board, registry = TrafficBoard(), CollectorRegistry()
    board.publish(snapshot, [])
    limits = SeriesLimits(flows=9, topics=9, groups=9, pairs=9)
    registry.register(TrafficCollector(board, limits=limits))
    series = [line for line in generate_latest(registry).decode().splitlines() if not line.startswith("#")]
    found = [line for line in series if line.startswith("samerack_optimal_ratio")]
    assert found == ([] if optimal is None else [f'samerack_optimal_ratio{{group="g"}} {optimal}'])


class Written(Production):
    """So many bytes per second are written to the partitions of a topic."""

    def __init__(self, *rates: float) -> None:
        super().__init__()
        self.written = rates

    def rates(self, partitions: Iterable[Partition]) -> dict[Partition, Rate]:
        """What is written."""
        return {one: Rate(value=self.written[one[1]], error=0.0, seconds=60.0) for one in partitions}


def test_the_best_share_is_of_what_is_written_now(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is by rates and not by weights, which are alike here, and no other plan is made while these stay."""
    view = view_of({1: "a", 2: "b"}, t=[partition(1), partition(2)])
    both = {("t", 0): 5, ("t", 1): 5}
    one = member("m", "c", 0, 1)
    observed = replace(seen(), group=group(one), owners=dict.fromkeys(both, one), committed=both)
    written, book = Written(100.0, 130.0), WeightBook()
    book.measured("g", written.rates(both))
    weights = book.weights("g")
    assert weights is not None
    assert weights["t"][0] == weights["t"][1]
    made = Built(replace(STATE, cluster=view), book)
    made.poller.production = written
    assert made.group(observed).shares.optimal == pytest.approx(130 / 230)
    monkeypatch.delattr(shares, "solve")
    written.written = (100.0, 300.0)
    assert made.group(observed).shares.optimal == pytest.approx(3 / 4)
