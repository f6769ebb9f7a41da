"""Judges whether anything grew in a soak run: pure functions of its samples.

The first minutes are warm-up. Of the rest the first tenth is compared with the last; for memory also a straight line
through all samples must stay within the limit, as the two tenths may differ by chance.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from typing import Any, Final

import numpy as np

from sandbox.history.harm import harm
from sandbox.soak.model import Process, Run, Sample

WARM_UP_SECONDS: Final = 600.0
"""Or a sixth of the run, if that is less."""
MEMORY_SHARE: Final = 0.05
MORE_DESCRIPTORS: Final = 3
"""Also for threads; a connection to each broker may be open or not when the sample is taken."""
LAG_SECONDS: Final = 2.0
_MIN_SAMPLES: Final = 2
_MIB: Final = 2**20
_HOUR: Final = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Trend:
    """One figure after the warm-up.

    Attributes:
        first: in the first tenth: the mean of memory, the maximum of descriptors and threads, the median of lag.
        last: the same in the last tenth.
        slope_per_hour: of the least-squares line.
        line_share: growth of that line from the first sample to the last, as a share of its start.
        most: the maximum of all samples.
    """

    first: float
    last: float
    slope_per_hour: float
    line_share: float
    most: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The result of a run.

    Attributes:
        processes: process to figure to trend.
        lag: group to trend.
        complaints: what is wrong, in words; empty if nothing is.
        run: the run.
    """

    processes: Mapping[str, Mapping[str, Trend]]
    lag: Mapping[str, Trend]
    complaints: tuple[str, ...]
    run: Run


_Level = Callable[[Sequence[float]], float]
_FIGURES: Final[Mapping[str, tuple[Callable[[Process], float], _Level]]] = {
    "rss_bytes": (lambda process: process.rss_bytes, statistics.fmean),
    "pss_bytes": (lambda process: process.pss_bytes, statistics.fmean),  # not judged: it depends on other processes
    "descriptors": (lambda process: process.descriptors, max),
    "threads": (lambda process: process.threads, max),
}


def judge(run: Run) -> Verdict:
    """Returns the verdict on a run."""
    warm = [one for one in run.samples if one.seconds >= min(WARM_UP_SECONDS, run.seconds / 6)]
    if len(warm) < _MIN_SAMPLES:
        complaint = f"{len(warm)} samples after the warm-up are too few: let it run for longer"
        return Verdict(processes={}, lag={}, complaints=(complaint, *_wrong(run)), run=run)
    names = sorted({name for sample in warm for name in sample.processes})
    processes = {name: _of_process(warm, name) for name in names}
    lag = {group: trend([(one.seconds, one.lag[group]) for one in warm], statistics.median) for group in run.per_second}
    complaints = chain(
        chain.from_iterable(_growing(name, found) for name, found in processes.items()),
        chain.from_iterable(_replaced(run.samples, name) for name in names),
        (
            f"group {group}: {found.last:.0f} records not read in the last tenth, {found.first:.0f} in the first; "
            f"{LAG_SECONDS:g} s of load are {LAG_SECONDS * run.per_second[group]:.0f}"
            for group, found in lag.items()
            if found.last > found.first + LAG_SECONDS * run.per_second[group]
        ),
        _wrong(run),
    )
    return Verdict(processes=processes, lag=lag, complaints=tuple(complaints), run=run)


def trend(points: Sequence[tuple[float, float]], level: _Level) -> Trend:
    """Returns the trend of a figure.

    Args:
        points: seconds and value, in order of time; at least two.
        level: the function that summarises a tenth of the values.
    """
    seconds, values = [at for at, _ in points], [value for _, value in points]
    tenth = max(1, round(len(values) / 10))
    slope, begin = np.polyfit(np.array(seconds) - seconds[0], np.array(values, dtype=float), 1)
    gained = float(slope) * (seconds[-1] - seconds[0])
    return Trend(
        first=float(level(values[:tenth])),
        last=float(level(values[-tenth:])),
        slope_per_hour=float(slope) * _HOUR,
        line_share=gained / float(begin) if begin else 0.0,
        most=max(values),
    )


def _of_process(samples: Sequence[Sample], name: str) -> dict[str, Trend]:
    found = [(one.seconds, one.processes[name]) for one in samples if name in one.processes]
    if len(found) < _MIN_SAMPLES:
        return {}
    return {
        figure: trend([(at, of(process)) for at, process in found], level) for figure, (of, level) in _FIGURES.items()
    }


def _growing(name: str, found: Mapping[str, Trend]) -> Iterator[str]:
    if not found:
        return
    memory = found["rss_bytes"]
    change = memory.last / memory.first - 1
    if max(abs(change), abs(memory.line_share)) > MEMORY_SHARE:
        yield (
            f"agent {name}: {memory.first / _MIB:.1f} MiB in the first tenth, {memory.last / _MIB:.1f} MiB in the last "
            f"({change:+.1%}; the straight line {memory.line_share:+.1%}), beyond ±{MEMORY_SHARE:.0%}"
        )
    for figure in ("descriptors", "threads"):
        first, last = found[figure].first, found[figure].last
        if last > first + MORE_DESCRIPTORS:
            yield (
                f"agent {name}: up to {last:.0f} {figure} in the last tenth, {first:.0f} in the first; "
                f"{MORE_DESCRIPTORS} more are allowed"
            )


def _replaced(samples: Sequence[Sample], name: str) -> Iterator[str]:
    pids = {one.processes[name].pid: one.seconds for one in reversed(samples) if name in one.processes}
    if len(pids) > 1:
        since = ", ".join(f"{pid} from {at:.0f} s" for pid, at in sorted(pids.items(), key=lambda found: found[1]))
        yield f"agent {name}: the process was replaced: {since}"
    begun = min(pids.values())
    missing = [one.seconds for one in samples if one.seconds > begun and name not in one.processes]
    if missing:
        yield f"agent {name}: not there in {len(missing)} samples, first at {missing[0]:.0f} s"


def _wrong(run: Run) -> Iterator[str]:
    for move in run.moves:
        if move.followed_seconds is None:
            yield f"move {move.number}, at {move.seconds:.0f} s, was not followed"
    alone = [one.seconds for one in run.samples if one.led < len(run.per_second)]
    if alone:
        yield f"not all groups were led in {len(alone)} of {len(run.samples)} samples, first at {alone[0]:.0f} s"
    yield from (f"a worker ended: {reason}" for reason in run.worker_ends)
    for group, findings in run.findings.items():
        yield from (f"{group}: {finding}" for finding in findings)


def as_json(verdict: Verdict) -> dict[str, Any]:
    """Returns the verdict as JSON values."""
    run = verdict.run
    followed = [move.followed_seconds for move in run.moves if move.followed_seconds is not None]
    return {
        "complaints": list(verdict.complaints),
        "seconds": round(run.seconds, 1),
        "samples": len(run.samples),
        "records": run.records,
        **asdict(harm(run.findings)),
        "rebalances": run.samples[-1].rebalances if run.samples else 0,
        "median_load": round(statistics.median(one.load for one in run.samples), 1) if run.samples else None,
        "longest_stop_seconds": round(run.longest_stop, 3),
        "moves": {
            "done": len(run.moves),
            "followed": len(followed),
            "median_seconds": round(statistics.median(followed), 2) if followed else None,
            "longest_seconds": round(max(followed), 2) if followed else None,
            "each": [None if move.followed_seconds is None else round(move.followed_seconds, 2) for move in run.moves],
        },
        "processes": {
            name: {figure: _rounded(found) for figure, found in figures.items()}
            for name, figures in verdict.processes.items()
        },
        "worker_ends": list(run.worker_ends),
        "lag": {group: _rounded(found) for group, found in verdict.lag.items()},
    }


def _rounded(found: Trend) -> dict[str, float]:
    return {key: round(value, 4) for key, value in asdict(found).items()}
