"""From parts to flows: exact replaces estimated, calibration, and rounding without loss."""

from __future__ import annotations

import pytest

from samerack.traffic.attribute import AttributedBytes
from samerack.traffic.flows import Calibration, Tally, count
from samerack.traffic.snapshot import FlowKey, ObservedMember, Volume
from samerack.traffic.statistics import Read
from tests.unit.traffic.test_exact import member

RACKS = {1: "a", 2: "b"}


def rack_of(broker: int | None) -> str:
    """Racks of two brokers."""
    return RACKS.get(broker, "") if broker is not None else ""


def part(owner: ObservedMember | None, wire_bytes: float, broker: int | None = 1) -> AttributedBytes:
    """Bytes of partition 0."""
    return AttributedBytes(partition=("t", 0), member=owner, broker=broker, wire_bytes=wire_bytes, records=3)


def key(replica_rack: str = "a", client_rack: str = "a", method: str = "estimated") -> FlowKey:
    """A key of group g and topic t."""
    return FlowKey(
        group="g",
        topic="t",
        client_rack=client_rack,
        replica_rack=replica_rack,
        method=method,  # type: ignore[arg-type]  # tests name it
    )


def test_parts_are_summed_by_racks() -> None:
    """Unknown racks and partitions without a reader are counted separately."""
    one = count(
        Tally(),
        "g",
        [part(member("m", "c"), 10), part(member("m", "c"), 5), part(member("m", "c"), 7, 2), part(None, 2, None)],
        {},
        exact_members={},
        rack_of=rack_of,
    )
    flows = one.flows
    assert {flow.key: flow.volume.wire_bytes for flow in flows} == {key(): 15, key("b"): 7, key("", ""): 2}
    assert one.estimated == {"m": 22.0}
    assert [flow.key.cross_rack for flow in flows] == [False, True, None]


def test_exact_replaces_the_estimate_of_that_member() -> None:
    """The estimate of a member that posts does not count; those of the others do."""
    one, other = member("m1", "c"), member("m2", "d")
    read = Read(partition=("t", 0), broker=2, wire_bytes=90.0, records=4)
    counted = count(
        Tally(), "g", [part(one, 100), part(other, 50)], {"m1": [read]}, exact_members={"m1": one}, rack_of=rack_of
    )
    assert {flow.key: flow.volume for flow in counted.flows} == {
        key(): Volume(wire_bytes=50, records=3),
        key("b", method="exact"): Volume(wire_bytes=90, records=4),
    }
    assert counted.estimated == {"m2": 50.0}


def test_exact_members_calibrate_the_rest() -> None:
    """Once enough bytes are both exact and estimated, the others' estimates are corrected by the ratio."""
    tally, one, other = Tally(), member("m1", "c"), member("m2", "d")
    read = Read(partition=("t", 0), broker=1, wire_bytes=11e6, records=4)
    estimates = []
    for _ in range(60):
        flows = count(
            tally, "g", [part(one, 10e6), part(other, 1e6)], {"m1": [read]}, exact_members={"m1": one}, rack_of=rack_of
        ).flows
        estimates.append({flow.key: flow.volume.wire_bytes for flow in flows}[key()])
    assert estimates[:20] == [1_000_000] * 20
    assert estimates[-1] == pytest.approx(1.1e6, rel=1e-6)


def test_few_commits_do_not_calibrate() -> None:
    """While the latest bytes are a large part of all bytes, their ratio could be wrong, and is not used."""
    calibration = Calibration()
    calibration.add(0.0, 20e3, committed=True)
    calibration.add(1.1e6, 1.0e6, committed=True)
    for _ in range(10):
        calibration.add(0.41e6, 0.41e6, committed=True)
        assert calibration.exact < 0.99 * calibration.estimated
        assert calibration.factor == 1.0
    for _ in range(20):
        calibration.add(0.41e6, 0.41e6, committed=True)
    assert calibration.factor == pytest.approx(1.0, abs=0.02)
    assert calibration.factor != 1.0


def test_a_burst_leaves_the_calibration_as_it_was() -> None:
    """A burst makes the ratio uncertain, but does not remove the calibration."""
    calibration = Calibration()
    for _ in range(60):
        calibration.add(1.1e6, 1e6, committed=True)
    known = calibration.factor
    calibration.add(22e6, 20e6, committed=True)
    assert calibration.factor == known == pytest.approx(1.1)


def test_a_ratio_that_cannot_be_is_not_believed() -> None:
    """A ratio far from 1 has another cause than the estimate's error, and is not used."""
    calibration = Calibration()
    for _ in range(3):
        calibration.add(100e6, 10e6, committed=True)
    assert calibration.factor == 1.0


def test_exact_bytes_wait_for_the_commit() -> None:
    """Bytes are exact at once and estimated at the commit: the ratio is of the same bytes, not of the same time."""
    calibration = Calibration()
    for number in range(20):  # 10 MB a poll; each third poll finds a commit of what came until the middle of it
        calibration.add(10e6, 0.0, committed=False)
        calibration.add(10e6, 0.0, committed=False)
        calibration.add(10e6, 30e6 / 1.1, committed=True)
        assert calibration.factor == pytest.approx(1.1 if number > 7 else 1.0)


def test_rounding_loses_nothing() -> None:
    """A third of a byte per cycle is a byte after three cycles."""
    tally = Tally()
    sums = 0
    for _ in range(300):
        flows = count(tally, "g", [part(None, 1 / 3, None)], {}, exact_members={}, rack_of=rack_of).flows
        sums += sum(flow.volume.wire_bytes for flow in flows)
    assert sums in (99, 100)
