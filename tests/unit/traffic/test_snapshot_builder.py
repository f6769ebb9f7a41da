"""What the view of a group reports as missing in its figures."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from samerack.cluster.racks import MemberRack
from samerack.cluster.view import ClusterView, NoRack, Rack
from samerack.common.money import shipped
from samerack.reporting import costs
from samerack.settings.loading import load
from samerack.traffic import shares
from samerack.traffic.board import TrafficBoard
from samerack.traffic.collect import Offsets, Partition
from samerack.traffic.lower_bound import LowerBound
from samerack.traffic.metrics import TrafficCollector
from samerack.traffic.positions import CommitSpans
from samerack.traffic.production import Production, Rate
from samerack.traffic.read_rates import ReadRates
from samerack.traffic.series import SeriesLimits
from samerack.traffic.snapshot import BlindSpot, TrafficSnapshot
from samerack.traffic.snapshot_builder import ClusterContext, GroupObservation, SnapshotBuilder
from samerack.traffic.streams_client import StreamsClient
from samerack.traffic.timeline import extend
from samerack.traffic.weights import WeightBook
from tests.unit.agent.values import partition, view_of
from tests.unit.traffic.test_exact import group, member

NOWHERE = MemberRack(rack=None, source="none", fetches_with_rack=False)
CLIENT = StreamsClient(process_id="p", endpoint="", tags=(), active=("0_0",), standby=())
CONTEXT = ClusterContext(
    view=view_of(t=[partition(1)]),
    logs={},
    timelines={},
    polled_at=0.0,
    serving=lambda *_: 1,
    rack_of=lambda _: "a",
    served={"a": [("t", 0)]},
    sampled=frozenset(),
    sizes_known=True,
    rack_aware=True,
    window_seconds=60.0,
)
NOTHING = CommitSpans()


def seen(spans: CommitSpans = NOTHING, *, exact: bool = True, **changed: object) -> GroupObservation:
    """A group of one member, which owns one partition and has exact figures."""
    one = replace(member("m", "c", 0), **changed)  # type: ignore[arg-type]  # fields by name
    return GroupObservation(
        group=group(one),
        owners={("t", 0): one},
        committed={("t", 0): 5},
        spans=spans,
        flows=(),
        is_whole=True,
        exact_members=frozenset({"m"} if exact else ()),
    )


def builder(weights: WeightBook | None = None, production: Production | None = None) -> SnapshotBuilder:
    """A new builder."""
    return SnapshotBuilder(
        load(flags={"kafka": {"bootstrap.servers": "b:1"}, "groups": ["g"]}, environment={}),
        weights or WeightBook(),
        ReadRates(),
        production or Production(),
    )


def spots(what: GroupObservation, context: ClusterContext = CONTEXT) -> set[BlindSpot]:
    """The blind spots of one view."""
    return set(builder().build(what, context).blind_spots)


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
    assert spots(seen(), replace(CONTEXT, sizes_known=False)) == {BlindSpot.SIZES_UNKNOWN}
    assert spots(seen(), replace(CONTEXT, served={})) == {BlindSpot.SERVING_GUESSED}
    assert spots(seen(streams=replace(CLIENT, standby=("0_1",)))) == {BlindSpot.STATE}


def test_the_age_of_what_is_not_read_is_that_of_the_timeline() -> None:
    """Partition and topic have it; without a timeline or an end it is not known."""
    context = replace(CONTEXT, logs={("t", 0): Offsets(start=0, end=20)}, polled_at=105.0)
    timeline = extend(extend(None, at=100, end=0), at=105, end=20)
    built = builder().build(seen(), replace(context, timelines={("t", 0): timeline}))
    (shown,) = built.partitions
    assert (shown.lag_records, shown.lag_seconds) == (15, 3.75)
    assert built.lag_seconds == {"t": LowerBound(value=3.75)}
    for unknown in (context, replace(CONTEXT, timelines={("t", 0): timeline})):
        assert builder().build(seen(), unknown).lag_seconds == {"t": LowerBound(unknown=1)}


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
        (built,) = builder().build(seen(), replace(CONTEXT, logs=logs, stable=stable)).partitions
        assert built.readable_records == found


def test_a_rewind_is_remembered() -> None:
    """Bytes that were read twice are unknown as long as the figures are shown."""
    one = builder()
    assert one.build(seen(replace(NOTHING, rewound=frozenset({("t", 0)}))), CONTEXT).blind_spots == (BlindSpot.REWOUND,)
    assert one.build(seen(), CONTEXT).blind_spots == (BlindSpot.REWOUND,)
    one.forget(["g"])
    assert one.build(seen(), CONTEXT).blind_spots == ()


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
    context = replace(CONTEXT, view=view)
    snapshot = TrafficSnapshot(groups=(builder().build(seen(rack=rack), context),), cluster=view)
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
    context = replace(CONTEXT, view=view)
    both = {("t", 0): 5, ("t", 1): 5}
    one = member("m", "c", 0, 1)
    observed = replace(seen(), group=group(one), owners=dict.fromkeys(both, one), committed=both)
    written, book = Written(100.0, 130.0), WeightBook()
    book.measured("g", written.rates(both))
    weights = book.weights("g")
    assert weights is not None
    assert weights["t"][0] == weights["t"][1]
    made = builder(book, written)
    assert made.build(observed, context).shares.optimal == pytest.approx(130 / 230)
    monkeypatch.delattr(shares, "solve")
    written.written = (100.0, 300.0)
    assert made.build(observed, context).shares.optimal == pytest.approx(3 / 4)
