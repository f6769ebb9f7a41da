"""From parts to flows: calibration, rounding without loss, and a window that counts from commit to commit."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samerack.traffic.flows import Calibration, Tally, Window, count
from samerack.traffic.sizes import AttributedBytes
from samerack.traffic.snapshot import Flow, FlowKey, ObservedMember, Volume
from samerack.traffic.statistics import Read
from tests.unit.traffic.test_exact import member

RACKS = {1: "a", 2: "b"}


def rack_of(broker: int | None) -> str:
    """Racks of two brokers."""
    return RACKS.get(broker, "") if broker is not None else ""


def part(owner: ObservedMember | None, wire_bytes: float, broker: int | None = 1) -> AttributedBytes:
    """Bytes of partition 0."""
    return AttributedBytes(partition=("t", 0), member=owner, broker=broker, wire_bytes=wire_bytes, records=3)


def flow_key(replica_rack: str = "a", client_rack: str = "a", method: str = "estimated") -> FlowKey:
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
    assert {flow.key: flow.volume.wire_bytes for flow in flows} == {
        flow_key(): 15,
        flow_key("b"): 7,
        flow_key("", ""): 2,
    }
    assert one.estimated == {"m": Volume(wire_bytes=22, records=9)}
    assert [flow.key.cross_rack for flow in flows] == [False, True, None]


def test_exact_replaces_the_estimate_of_that_member() -> None:
    """The estimate of a member that posts does not count; those of the others do."""
    one, other = member("m1", "c"), member("m2", "d")
    read = Read(partition=("t", 0), broker=2, wire_bytes=90.0, records=4)
    counted = count(
        Tally(), "g", [part(one, 100), part(other, 50)], {"m1": [read]}, exact_members={"m1": one}, rack_of=rack_of
    )
    assert {flow.key: flow.volume for flow in counted.flows} == {
        flow_key(): Volume(wire_bytes=50, records=3),
        flow_key("b", method="exact"): Volume(wire_bytes=90, records=4),
    }
    assert counted.estimated == {"m2": Volume(wire_bytes=50, records=3)}


def test_records_that_a_client_does_not_count_are_those_of_its_commits() -> None:
    """Java's metrics have bytes only: the records of its commits count, also in a cycle in which no bytes came."""
    tally, one = Tally(), member("m1", "c")
    read = Read(partition=("t", 0), broker=2, wire_bytes=90.0, records=None)
    reports: list[dict[str, list[Read]]] = [{"m1": [read]}, {}, {"m1": []}, {"m1": [read]}]
    found = [
        count(tally, "g", [part(one, 100, 2)], reported, exact_members={"m1": one}, rack_of=rack_of)
        for reported in reports
    ]
    exact = flow_key("b", method="exact")
    assert [{flow.key: flow.volume for flow in counted.flows} for counted in found] == [
        {exact: Volume(wire_bytes=wire_bytes, records=3)} for wire_bytes in (90, 0, 0, 90)
    ]
    assert [counted.estimated for counted in found] == [{}] * 4


def test_records_that_a_client_counts_do_not_count_twice() -> None:
    """The commits of a client that counts records follow later, and are of the same records."""
    tally, one = Tally(), member("m1", "c")
    read = Read(partition=("t", 0), broker=2, wire_bytes=90.0, records=4)
    silent = replace(read, records=None)
    reports: list[list[Read]] = [[silent], [read], []]
    for reported in reports:
        flows = count(
            tally, "g", [part(one, 100, 2)], {"m1": reported}, exact_members={"m1": one}, rack_of=rack_of
        ).flows
    assert flows == ()


def test_exact_members_calibrate_the_rest() -> None:
    """Once enough bytes are both exact and estimated, the others' estimates are corrected by the ratio."""
    tally, one, other = Tally(), member("m1", "c"), member("m2", "d")
    read = Read(partition=("t", 0), broker=1, wire_bytes=11e6, records=4)
    estimates = []
    for _ in range(60):
        flows = count(
            tally, "g", [part(one, 10e6), part(other, 1e6)], {"m1": [read]}, exact_members={"m1": one}, rack_of=rack_of
        ).flows
        estimates.append({flow.key: flow.volume.wire_bytes for flow in flows}[flow_key()])
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


POLL = 5.0
RATE = 1000
"""Bytes a second that each member reads."""


def key(rack: str = "a", topic: str = "t") -> FlowKey:
    """What members in a rack read from rack a."""
    return FlowKey(group="g", topic=topic, client_rack=rack, replica_rack="a", method="estimated")


def read(wire_bytes: int, rack: str = "a", records: int = 1, topic: str = "t") -> Flow:
    """What one poll has seen."""
    return Flow(key=key(rack, topic), volume=Volume(wire_bytes=wire_bytes, records=records))


def step(window: Window, number: int, flows: Iterable[Flow], *, changed: bool = False, caught_up: str = "") -> None:
    """One poll of group g."""
    begin = POLL * number
    window.add(begin, begin + POLL, {"g": flows}, changed={"g"} if changed else ())
    window.caught_up({"g": {caught_up} if caught_up else set()})


def seen(window: Window) -> dict[str, int]:
    """Bytes by the rack of members."""
    return {flow.key.client_rack: flow.volume.wire_bytes for flow in window.by_group().get("g", ())}


def committing(every: float, phase: float, rate: int = RATE) -> Callable[[int], int]:
    """What a poll sees of a member that reads steadily and commits so often."""

    def bytes_at(number: int) -> int:
        commits = [int((POLL * at - phase) // every) for at in (number, number + 1)]
        return round((commits[1] - commits[0]) * every * rate)

    return bytes_at


def test_a_tally_forgets_groups_that_are_gone() -> None:
    """Each run of a console consumer is a group of its own, and left its keys in memory."""
    tally = Tally()
    for name in ("gone", "g"):
        count(tally, name, [part(None, 0.5, None)], {}, exact_members={}, rack_of=rack_of)
    tally.forget(["gone", "never there"])
    known = [{key.group for key in tally.keys}, {key.group for key in tally.left_over}]
    assert [*known, set(tally.calibrations), set(tally.uncounted)] == [{"g"}] * 4


def test_a_window_forgets() -> None:
    """What was read before it is in no figure, and a group that is gone is forgotten."""
    window = Window(60.0)
    for number in range(40):
        step(window, number, [read(10)])
    assert window.seconds == 60.0
    assert seen(window) == {"a": 120}
    window.forget(["g"])
    assert window.by_group() == {}


@given(
    every=st.floats(5.0, 400.0),
    phases=st.tuples(*[st.floats(0.0, 1.0)] * 3),
    length=st.floats(20.0, 300.0),
)
def test_figures_do_not_move_with_the_time_of_commits(
    every: float, phases: tuple[float, float, float], length: float
) -> None:
    """Members of three racks, each with commits of its own: the figure is at most a poll in a commit interval off."""
    window = Window(length)
    members = {rack: committing(every, phase * every) for rack, phase in zip("abc", phases, strict=True)}
    for number in range(int((length + 5 * every) / POLL)):
        flows = [read(size, rack) for rack, member in members.items() if (size := member(number))]
        step(window, number, flows)
        if POLL * number < length + 2 * every + 2 * POLL:
            continue
        off = 2 * POLL / max(every, length)
        for rack in "abc":
            assert seen(window)[rack] == pytest.approx(RATE * window.seconds, rel=off + 0.01)
        assert window.is_whole("g")


def test_a_first_commit_counts_as_it_is() -> None:
    """It may be of more than was seen: until the second one the group is young, and then the first does not count."""
    window = Window(60.0)
    member = committing(60.0, 10.0)
    for number in range(2):
        step(window, number, [read(9_000_000)] if number == 1 else [])
    assert (seen(window), window.is_whole("g")) == ({"a": 9_000_000}, False)
    for number in range(2, 16):
        step(window, number, [read(size)] if (size := member(number)) else [])
    assert (seen(window), window.is_whole("g")) == ({"a": 60 * RATE}, True)


def test_what_was_read_before_a_first_commit_is_no_more_than_it_had() -> None:
    """A group that begins to read while it is watched has read nothing before."""
    window = Window(60.0)
    for number in range(10):
        step(window, number, [read(100, records=0)] if number < 6 else [read(5000)])
    assert seen(window) == {"a": 4 * 5000 + 6 * 100}


def test_a_burst_after_an_idle_time_counts_now() -> None:
    """Where nothing was left to read, the time in which nothing was read is known."""
    window = Window(60.0)
    for number in range(1000):
        step(window, number, [read(size)] if (size := 5000 if number < 10 else 0) else [], caught_up="t")
    assert seen(window) == {}
    step(window, 1000, [read(1_000_000)])
    assert seen(window) == {"a": 1_000_000}


def test_a_backlog_is_read_after_a_restart() -> None:
    """Nobody read for hours; the members that come do not share their bytes with that time."""
    window = Window(60.0)
    for number in range(10):
        step(window, number, [read(5000)])
    for number in range(10, 1000):
        step(window, number, [])
    step(window, 1000, [], changed=True)
    for number in range(1001, 1004):
        step(window, number, [read(1_000_000)])
    assert seen(window) == {"a": 3_000_000}


@pytest.mark.parametrize("every", [5.0, 60.0])
def test_partitions_that_move_do_not_count_twice(every: float) -> None:
    """Read in rack b from then on: together no more than was committed in the window, or was read in its time."""
    window = Window(60.0)
    member = committing(every, 0.0)
    total = []
    for number in range(100):
        moved = number >= 50
        size = member(number)
        step(window, number, [read(size, "b" if moved else "a")] if size else [], changed=number == 50)
        total.append(sum(seen(window).values()))
    assert max(total[30:]) <= RATE * (60 + every)
    assert total[-1] == pytest.approx(RATE * 60, rel=0.1)


def test_members_that_stop_reading_are_seen_to() -> None:
    """Commits that fail to come are waited for half as long again as they ever took; then nothing was read."""
    window = Window(60.0)
    member = committing(120.0, 0.0)
    figures = []
    for number in range(200):
        step(window, number, [read(size)] if number < 100 and (size := member(number)) else [])
        figures.append(seen(window).get("a", 0))
    assert figures[100] == 60 * RATE
    assert figures[100 + 48] == 0


def test_envelopes_of_empty_fetches_count_as_they_come() -> None:
    """They are no commits: a group that only polls has them, and is young."""
    window = Window(60.0)
    for number in range(100):
        step(window, number, [read(50, records=0)])
    assert seen(window) == {"a": 600}
    assert not window.is_whole("g")


def test_exact_bytes_without_records_are_those_of_the_last_minute() -> None:
    """A client that counts no records is read at each poll: no bytes of hours ago are in the window."""
    window = Window(60.0)
    exact = flow_key(method="exact")
    for number in range(120):
        volume = Volume(wire_bytes=50 if number < 100 else 500)
        step(window, number, [Flow(key=exact, volume=volume)])
    assert window.by_group() == {"g": (Flow(key=exact, volume=Volume(wire_bytes=12 * 500)),)}
    assert window.is_whole("g")
