"""Groups whose partitions weigh unequally, and what a plan makes of them: the most loaded member, and bytes across."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from lab.benchmarks.live_groups import RACKS, Group
from lab.benchmarks.shared import Found, measured_on, show_progress, table
from samerack.assignors.consumer import optimal
from samerack.assignors.consumer.load.bound import lower_bound
from samerack.assignors.consumer.load.plan import loads_above_least, loads_of, place_by_load, units_of
from samerack.assignors.consumer.load.units import greatest
from samerack.assignors.evaluate import cross_rack_mask

if TYPE_CHECKING:
    from collections.abc import Callable

    from samerack.assignors.problem import FloatArray, Int32Array, Problem

SHAPES: Final = ("Zipf 1.0", "Zipf 1.5", "one hot", "two classes", "log-normal")
_CLOSE: Final = 0.02
_COMPARED: Final = 10_000
"""Up to this number of partitions the others plan the group too."""
_RUNS: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """A group with the load of each partition, and how it is made."""

    shape: str
    group: Group
    problem: Problem


def loaded(seed: int) -> Loaded:
    """Return a group of 1,000 to 100,000 partitions on three members or more; each third has owners by counts."""
    draw = np.random.default_rng(seed)
    partitions = int(10 ** draw.uniform(3, 5))
    members = int(min(partitions // 3, 10 ** draw.uniform(1, 3)))
    shape = SHAPES[seed % len(SHAPES)]
    loads = np.maximum(_loads(draw, shape, partitions, members), 1).astype(np.int64)
    topics = int(draw.integers(1, 50))
    bounds = np.linspace(0, partitions, topics + 1).astype(int).tolist()
    leaders, apart = draw.integers(0, 3, partitions), draw.integers(0, 2, partitions)
    racks = [(RACKS[one], RACKS[(one + more) % 3]) for one, more in zip(leaders.tolist(), apart.tolist(), strict=True)]
    names = [f"t{number:03}" for number in range(topics)]
    group = Group(
        topics={name: list(racks[a:b]) for name, a, b in zip(names, bounds, bounds[1:], strict=False)},
        subscriptions=[tuple(names)] * members,
        racks=[RACKS[one] for one in draw.integers(0, 3, members).tolist()],
        owned=[{}] * members,
    )
    problem = group.problem()
    problem = replace(problem, weights=2 ** np.rint(np.log2(loads)).astype(np.int64))
    if seed % 3 == 0:
        problem = replace(problem, owner=optimal.assign(problem))
    return Loaded(shape=shape, group=group, problem=replace(problem, loads=loads))


def _loads(draw: np.random.Generator, shape: str, partitions: int, members: int) -> FloatArray:
    ranks = np.arange(1, partitions + 1)
    if shape.startswith("Zipf"):
        found: FloatArray = draw.permutation(1e7 / ranks ** float(shape.split()[1]))
        return found
    if shape == "one hot":
        return np.where(ranks == draw.integers(1, partitions + 1), 800.0 * partitions / members, 1_000.0)
    if shape == "two classes":
        return np.where(draw.random(partitions) < 0.1, 10_000.0, 500.0)
    return draw.lognormal(8, 1.5, partitions)


def measure(count: int, others: dict[str, Callable[[Group], Int32Array | None]]) -> Found:
    """Plan this many groups by load and by counts; the `others` plan those that are not too large for them."""
    rows = []
    for seed in range(count):
        one = loaded(seed)
        rows.append(_measured(one, others))
        show_progress(f"{seed + 1} of {count}: {rows[-1]['shape']}, {rows[-1]['partitions']} partitions")
    return {"groups": rows}


def _measured(one: Loaded, others: dict[str, Callable[[Group], Int32Array | None]]) -> Found:
    problem = one.problem
    counts = replace(problem, loads=None)
    units, _, _ = units_of(problem, keep_copartitioned=False)
    bound = lower_bound(units)
    plans = {"by load": optimal.assign(problem), "by counts": optimal.assign(counts)}
    if len(problem.owner) <= _COMPARED:
        plans |= {name: plan for name, ask in others.items() if (plan := ask(one.group)) is not None}
    above = loads_above_least(problem, *plans.values())
    assert above is not None  # noqa: S101 - for the types only: each partition has load
    return {
        "shape": one.shape,
        "partitions": len(problem.owner),
        "members": len(problem.members),
        "owned": bool((problem.owner >= 0).all()),
        "gap": greatest(units, place_by_load(units, tolerance=0.0)) / bound - 1.0,
        "seconds": {name: _seconds(each) for name, each in (("by load", problem), ("by counts", counts))},
        "plans": {
            name: {"above": more, "across": _across(problem, owner)}
            for (name, owner), more in zip(plans.items(), above, strict=True)
        },
    }


def _seconds(problem: Problem) -> float:
    took = []
    for _ in range(_RUNS):
        start = time.perf_counter()
        optimal.assign(problem)
        took.append(time.perf_counter() - start)
    return min(took)


def _across(problem: Problem, owner: Int32Array) -> float:
    """Return the share of load that is read across racks."""
    loads = loads_of(problem)
    return float(loads[cross_rack_mask(problem, owner)].sum() / loads.sum())


def show(found: Found) -> str:
    """Return the tables: gaps and times of all groups, and by shape what the plans make of those that all planned."""
    groups = found["groups"]
    gaps = [one["gap"] for one in groups]
    fresh = [one for one in groups if not one["owned"]]
    ratios = sorted(one["seconds"]["by load"] / one["seconds"]["by counts"] for one in fresh)
    rows = [
        ("groups of 1,000 to 100,000 partitions", f"{len(groups):,}"),
        ("gap of the least to the proven bound at most 2 %", f"{_share(gaps, _CLOSE):.0%}"),
        ("greatest gap", f"{max(gaps):.1%}"),
        ("time of a plan by load: median", f"{1000 * float(np.median([_time(one) for one in groups])):,.0f} ms"),
        ("longest", f"{1000 * max(map(_time, groups)):,.0f} ms"),
        ("times as long as by counts, groups without owners: median", f"{float(np.median(ratios)):.1f}"),
        ("at most three times as long", f"{_share(ratios, 3.0):.0%}"),
    ]
    names = list(dict.fromkeys(name for one in groups for name in one["plans"]))
    compared = [one for one in groups if len(one["plans"]) == len(names)]
    shapes = [
        (shape, len(mine), *(_both([one["plans"][name] for one in mine]) for name in names))
        for shape in SHAPES
        if (mine := [one for one in compared if one["shape"] == shape])
    ]
    against = table(f"loads|groups|{'|'.join(names)}", shapes)
    return f"{table('plans by load|', rows)}\n\n{against}\n\n{measured_on(found)}"


def _time(one: Found) -> float:
    seconds: float = one["seconds"]["by load"]
    return seconds


def _share(values: list[float], most: float) -> float:
    return sum(value <= most for value in values) / len(values)


def _both(plans: list[Found]) -> str:
    """Return the means of both figures."""
    above, across = (float(np.mean([plan[name] for plan in plans])) for name in ("above", "across"))
    return f"+{above:.0%}, {across:.1%} across"
