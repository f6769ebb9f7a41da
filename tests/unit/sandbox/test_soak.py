"""The verdict on a soak run, and how replicas move in it: constant figures pass, growing ones are named."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from sandbox.history.model import Finding, Kind
from sandbox.soak.judging import as_json, judge
from sandbox.soak.model import Move, Process, Run, Sample
from sandbox.soak.run import swapped

_HOUR = 3600.0
_MIB = 2**20
_NAMES = ("one supervisor", "one worker", "two worker")

Change = Callable[[float, Process], Process]


def _process(seconds: float, pid: int) -> Process:
    """A process of 150 MiB with some noise."""
    noise = round(seconds) // 10 % 7
    return Process(
        pid=pid,
        rss_bytes=150 * _MIB + noise * 100_000,
        pss_bytes=140 * _MIB,
        descriptors=40 + noise % 3,
        threads=12,
    )


def _sample(seconds: float) -> Sample:
    return Sample(
        seconds=seconds,
        processes={name: _process(seconds, pid) for pid, name in enumerate(_NAMES, 10)},
        lag={"g": round(seconds) // 10 % 5},
        led=1,
        rebalances=round(seconds / 30),
        load=2.0,
    )


def _run(*samples: Sample, seconds: float = _HOUR) -> Run:
    return Run(
        seconds=seconds,
        samples=samples or tuple(_sample(10.0 * turn) for turn in range(360)),
        moves=(Move(number=1, seconds=30.0, followed_seconds=2.0), Move(number=2, seconds=90.0, followed_seconds=3.0)),
        per_second={"g": 150.0},
        records=1000,
        findings={"g": ()},
        longest_stop=1.5,
    )


def _with_worker(run: Run, change: Change) -> Run:
    """The run, with `one worker` changed."""
    return replace(
        run,
        samples=tuple(
            replace(one, processes={**one.processes, "one worker": change(one.seconds, one.processes["one worker"])})
            for one in run.samples
        ),
    )


def _growing(bytes_per_hour: float, *, since: float = 0.0) -> Change:
    def change(seconds: float, process: Process) -> Process:
        return replace(process, rss_bytes=process.rss_bytes + round(max(0.0, seconds - since) / _HOUR * bytes_per_hour))

    return change


def test_an_hour_in_which_nothing_grows_is_fine() -> None:
    """Noise is no growth, and the document has the figures of each process, the moves and the lag."""
    verdict = judge(_run())
    assert verdict.complaints == ()
    told = as_json(verdict)
    assert told["moves"] == {
        "done": 2,
        "followed": 2,
        "median_seconds": 2.5,
        "longest_seconds": 3.0,
        "each": [2.0, 3.0],
    }
    assert set(told["processes"]) == set(_NAMES)
    memory = told["processes"]["one worker"]["rss_bytes"]
    assert memory["first"] == pytest.approx(150 * _MIB, rel=0.01)
    assert abs(memory["slope_per_hour"]) < _MIB
    assert told["lag"]["g"]["most"] == 4
    assert (told["lost"], told["owned_twice"], told["read_again"], told["samples"]) == (0, 0, 0, 360)
    assert told["median_load"] == 2.0


@pytest.mark.parametrize(("mib", "is_fine"), [(8, True), (12, False), (-12, False)])
def test_memory_that_grows_by_more_than_a_twentieth_is_named(mib: int, is_fine: bool) -> None:  # noqa: FBT001 - a case
    """After the warm-up, 50 minutes at 12 MiB an hour of 150 are too much, up or down; at 8 they are not."""
    complaints = judge(_with_worker(_run(), _growing(mib * _MIB))).complaints
    assert [one.startswith("agent one worker: ") and "MiB" in one for one in complaints] == ([] if is_fine else [True])


def test_growth_in_the_warm_up_does_not_count() -> None:
    """Memory that a process takes in its first ten minutes is no growth."""

    def change(seconds: float, process: Process) -> Process:
        return replace(process, rss_bytes=round(process.rss_bytes * min(1.0, 0.5 + seconds / 1200)))

    assert judge(_with_worker(_run(), change)).complaints == ()


def test_a_line_that_climbs_is_named_though_the_last_tenth_is_as_the_first() -> None:
    """Memory that is freed at the very end does not hide the growth before."""

    def change(seconds: float, process: Process) -> Process:
        grown = 0.0 if seconds > 0.9 * _HOUR else 60 * _MIB * seconds / _HOUR
        return replace(process, rss_bytes=process.rss_bytes + round(grown))

    (complaint,) = judge(_with_worker(_run(), change)).complaints
    assert "the straight line" in complaint


@pytest.mark.parametrize("figure", ["descriptors", "threads"])
def test_more_descriptors_or_threads_are_named(figure: str) -> None:
    """One more every five minutes is a leak; three more in total may be connections."""

    def leaking(most: int) -> Change:
        return lambda seconds, process: replace(
            process, **{figure: getattr(process, figure) + min(most, round(seconds) // 300)}
        )

    (complaint,) = judge(_with_worker(_run(), leaking(12))).complaints
    assert figure in complaint
    assert judge(_with_worker(_run(), leaking(3))).complaints == ()


def test_growing_lag_is_named() -> None:
    """The limit is two seconds of load, here 300 records."""
    run = _run()

    def with_lag(per_hour: float) -> Run:
        return replace(
            run, samples=tuple(replace(one, lag={"g": round(per_hour * one.seconds / _HOUR)}) for one in run.samples)
        )

    assert judge(with_lag(350)).complaints == ()
    (complaint,) = judge(with_lag(500)).complaints
    assert complaint.startswith("group g: ")


def test_a_process_that_was_replaced_or_is_gone_is_named() -> None:
    """It is named even if its memory is constant, because a new process starts from zero."""
    (complaint,) = judge(
        _with_worker(_run(), lambda seconds, process: replace(process, pid=99 if seconds > 1800 else process.pid))
    ).complaints
    assert complaint == "agent one worker: the process was replaced: 11 from 0 s, 99 from 1810 s"
    run = _run()
    gone = tuple(
        replace(one, processes={k: v for k, v in one.processes.items() if k != "two worker"})
        if one.seconds > 3000
        else one
        for one in run.samples
    )
    (complaint,) = judge(replace(run, samples=gone)).complaints
    assert complaint == "agent two worker: not there in 59 samples, first at 3010 s"


def test_a_move_that_nobody_followed_a_group_without_a_leader_and_lost_records_are_named() -> None:
    """Each is one complaint."""
    run = _run()
    samples = tuple(replace(one, led=0) if one.seconds == 1000 else one for one in run.samples)
    lost = Finding(kind=Kind.SKIPPED, partition=("g", 0), since_ns=0, until_ns=0, offsets=(5, 9))
    moves = (*run.moves, Move(number=3, seconds=150.0, followed_seconds=None))
    verdict = judge(replace(run, samples=samples, moves=moves, findings={"g": (lost,)}))
    assert verdict.complaints == (
        "move 3, at 150 s, was not followed",
        "not all groups were led in 1 of 360 samples, first at 1000 s",
        "g: skipped: g-0, offsets 5 to 9, 0.000 s from 0.000 s",
    )
    told = as_json(verdict)
    assert (told["lost"], told["moves"]["done"], told["moves"]["followed"]) == (5, 3, 2)


def test_a_run_without_enough_samples_proves_nothing() -> None:
    """Too few samples are a complaint."""
    (complaint,) = judge(_run(_sample(0.0), _sample(50.0), seconds=60.0)).complaints
    assert "too few" in complaint


def test_each_move_swaps_two_partitions_of_different_brokers() -> None:
    """Each turn two partitions swap brokers, and each broker keeps its number of partitions."""
    placed: tuple[int, ...] = (1, 2, 3, 1, 2, 3)
    seen = {placed}
    for turn in range(60):
        after = swapped(placed, turn)
        assert sum(old != new for old, new in zip(placed, after, strict=True)) == 2
        assert sorted(after) == sorted(placed)
        placed = after
        seen.add(placed)
    assert len(seen) > 6
    with pytest.raises(ValueError, match="nothing to swap"):
        swapped((1, 1), 0)
