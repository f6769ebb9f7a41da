"""How many members a group needs in which rack: all partitions are read near, and no member is too full.

An integer program says how many members each rack needs for the loads that are near it; then partitions are dealt out
to that number of members. Where that does not work, as loads do not divide at will, the program is solved again without
these numbers. Both are small: partitions of the same load and the same racks are one kind.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any, Final

import numpy as np

from samerack.assignors.build import with_racks
from samerack.assignors.evaluate import Rates
from samerack.assignors.problem import AssignmentError, BoolArray, FloatArray, Int64Array, Problem
from samerack.assignors.solvers import module_of_ortools
from samerack.cluster.view import ClusterView, SettledCluster
from samerack.common.weights import FULL_LOAD
from samerack.planning.deadline import DEADLINE_SECONDS, in_process
from samerack.planning.rack_spread import broker_racks, racks_known

_SLACK: Final = 1e-9
_FEW: Final = (2, 3, 4)
"""Partitions above 1/k of a member: it has fewer than k of them."""
_ROUNDS: Final = 30
"""Numbers of members that are tried by best-fit; most groups need one."""
_SMALL: Final = 300
"""Kinds of partitions times members up to which an integer program deals them out, if best-fit cannot."""
_EXACT_WORK: Final = 200_000
"""The sum of the squares of that for all numbers that such programs try: for a few partitions all that there are."""
_MAX_HERE: Final = 1_000
"""Partitions up to which it takes a tenth of a second, most of it for the first group."""
_NODES: Final = 50
"""Nodes of a search tree that are examined; a bound of time would make equal groups get unequal answers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RackMembers:
    """A rack of the brokers: the members that are in it, and those that it needs."""

    rack: str
    members: int
    wanted: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kinds:
    """K kinds of partitions over R racks, near S sets of these.

    Attributes:
        sets: [S, R] true where the rack is in the set.
        set_of: [K] the set of racks in which it can be read near.
        size: [K] load of one, as a part of what a member may have; at most 1.
        count: [K] how many there are.
    """

    sets: BoolArray
    set_of: Int64Array
    size: FloatArray
    count: Int64Array


def members_wanted(
    problem: Problem, cluster: ClusterView | SettledCluster, rates: Rates, capacity: float | None
) -> tuple[RackMembers, ...] | None:
    """Return how many members the group needs in each rack of the brokers, by name.

    Each partition can be read near, and each member stays at or below `FULL_LOAD` of its capacity; a partition that is
    heavier has a member of its own. Of such numbers the fewest members, then the fewest changes. A rack that has
    members keeps one at least. Members that do not all read any replica are near leaders only.

    Args:
        problem: the group.
        cluster: the brokers' racks, and the replicas of the group's topics.
        rates: bytes per second of each partition in the long run.
        capacity: bytes per second that one member can read.

    Returns:
        The numbers; None where they are not known: racks of brokers or members, a rate or the capacity are unknown,
        members differ in their subscriptions, a partition is near no rack, OR-Tools is not installed, or it takes
        longer than `DEADLINE_SECONDS`.

    Complexity: up to `_ROUNDS` integer programs over racks and sets of racks, and as many dealings of all partitions.
    """
    racks = broker_racks(cluster)
    problem = with_racks(problem, racks)
    places = np.array([problem.racks.index(rack) for rack in racks], np.int64)
    if (
        capacity is None
        or not (isfinite(capacity) and capacity > 0)
        or len(np.unique(problem.subscription_of)) != 1
        or not np.isin(problem.member_rack, places).all()
        or not racks_known(problem, cluster)
        or module_of_ortools("linear_solver.pywraplp") is None
    ):
        return None
    read = np.flatnonzero(problem.subscriptions[problem.subscription_of[0]][problem.topic_of])
    leads = problem.leader_rack[:, np.newaxis] == np.arange(len(problem.racks))
    near = (problem.replica_racks if problem.reads_any_replica.all() else leads)[read][:, places]
    loads = [
        rates.get((problem.topics[topic], number))
        for topic, number in zip(problem.topic_of[read].tolist(), problem.number_of[read].tolist(), strict=True)
    ]
    known = [load for load in loads if load is not None]
    if not known or len(known) < len(loads) or not near.any(axis=1).all():
        return None
    size = np.minimum(np.array(known) / (FULL_LOAD * capacity), 1.0)
    now = np.bincount(problem.member_rack, minlength=len(problem.racks))[places].astype(np.int64)
    wanted = np.minimum(now, 1)
    for part in _apart(near):
        here = near[:, part].any(axis=1)
        if here.any():
            try:
                wanted[part] = _in_time(_kinds(near[here][:, part], size[here]), now[part])
            except AssignmentError:
                return None
    return tuple(
        RackMembers(rack=rack, members=here, wanted=needed)
        for rack, here, needed in zip(racks, now.tolist(), wanted.tolist(), strict=True)
    )


def _kinds(near: BoolArray, size: FloatArray) -> _Kinds:
    """Return the kinds of partitions that are near these racks, [P, R], and have these sizes, [P]."""
    sets, of = np.unique(near, axis=0, return_inverse=True)
    kinds, count = np.unique(np.column_stack([of.ravel(), size]), axis=0, return_counts=True)
    return _Kinds(
        sets=sets, set_of=kinds[:, 0].astype(np.int64), size=kinds[:, 1], count=count.astype(np.int64, copy=False)
    )


def _apart(near: BoolArray) -> list[Int64Array]:
    """Return the racks in parts that have no kind in common: each part is a problem of its own."""
    joined = (near.T.astype(np.int64) @ near.astype(np.int64) > 0) | np.eye(near.shape[1], dtype=np.bool_)
    for _ in range(near.shape[1].bit_length()):
        joined = joined.astype(np.int64) @ joined.astype(np.int64) > 0
    return [np.flatnonzero(row) for row in np.unique(joined, axis=0)]


def _in_time(kinds: _Kinds, now: Int64Array) -> Int64Array:
    """Return what `_fewest` does; of a large group from another process, as no thread of this one runs meanwhile.

    Raises:
        AssignmentError: there is no answer in time.
    """
    if kinds.count.sum() <= _MAX_HERE:
        return _fewest(kinds, now)
    found: Int64Array = in_process(__name__, _fewest.__name__, kinds, now, seconds=DEADLINE_SECONDS)
    return found


def _fewest(kinds: _Kinds, now: Int64Array) -> Int64Array:
    """Return [R] the fewest members with which the kinds are read near, and of those the fewest changes."""
    program = _Program(kinds, now)
    dealt, rounds, exact = now, _ROUNDS, _EXACT_WORK
    while rounds:
        members = program.solved()
        dealt = _dealt(kinds, members, program.targets(members))
        if np.array_equal(dealt, members):
            return members
        places = len(kinds.size) * int(members.sum())
        if places <= _SMALL and places**2 <= exact:
            exact -= places**2
            if _can_be_dealt(kinds, members):
                return members
            program.exclude(members)
        else:
            rounds -= 1
            program.add_to(np.flatnonzero(dealt > members), members)
    return dealt


class _Program:
    """The fewest members for loads that divide at will; what is too few for whole partitions is excluded."""

    def __init__(self, kinds: _Kinds, now: Int64Array) -> None:
        self._solver = _solver()
        self._infinity = self._solver.infinity()
        self._members = [self._solver.IntVar(min(here, 1), self._infinity, "") for here in now.tolist()]
        self._changes = [self._solver.NumVar(0, self._infinity, "") for _ in self._members]
        self._total = self._solver.Sum(self._members)
        for member, change, here in zip(self._members, self._changes, now.tolist(), strict=True):
            self._solver.Add(change >= member - here)
            self._solver.Add(change >= here - member)
        self._kinds = kinds
        self._alike = np.unique(kinds.sets.T, axis=0, return_inverse=True)[1].ravel()
        for racks in kinds.sets.tolist():
            self._solver.Add(
                self._solver.Sum([one for one, near in zip(self._members, racks, strict=True) if near]) >= 1
            )
        _carry(self._solver, kinds, kinds.size * kinds.count, self._members)
        for few in _FEW:
            heavy = (kinds.size * few > 1 + _SLACK) * kinds.count
            if heavy.any():
                _carry(self._solver, kinds, heavy / (few - 1), self._members)

    def solved(self) -> Int64Array:
        """Return [R] the fewest members, and of those the fewest changes."""
        _solve(self._solver, self._total)
        least = self._solver.Add(self._total <= round(self._solver.Objective().Value()))
        _solve(self._solver, self._solver.Sum(self._changes))
        found = np.array([round(member.solution_value()) for member in self._members], np.int64)
        least.SetUb(self._infinity)
        return found

    def targets(self, members: Int64Array) -> FloatArray:
        """Return [S, R] how much of the load of each set is read where, so that these members are evenly full."""
        solver = _solver()
        fill = solver.NumVar(0, self._infinity, "")
        room = [fill * here for here in members.tolist()]
        carried = _carry(solver, self._kinds, self._kinds.size * self._kinds.count, room)
        _solve(solver, fill)
        return np.array([[0.0 if part is None else part.solution_value() for part in row] for row in carried])

    def exclude(self, members: Int64Array) -> None:
        """From here on some rack has more members than these; racks that are near the same kinds count as one."""
        more = [self._solver.BoolVar("") for _ in range(int(self._alike.max()) + 1)]
        for one, chosen in enumerate(more):
            self._require_more(np.array([one]), members, if_=chosen)
        self._solver.Add(self._solver.Sum(more) >= 1)

    def add_to(self, racks: Int64Array, members: Int64Array) -> None:
        """From here on these racks, or racks that are near the same kinds, have more members than these."""
        self._require_more(self._alike[racks], members)

    def _require_more(self, alike: Int64Array, members: Int64Array, *, if_: Any = 1) -> None:
        racks = np.flatnonzero(np.isin(self._alike, alike)).tolist()
        total = self._solver.Sum([self._members[rack] for rack in racks])
        self._solver.Add(total >= if_ * (int(members[racks].sum()) + 1))


def _carry(solver: Any, kinds: _Kinds, amount: FloatArray, room: Sequence[Any]) -> list[list[Any]]:
    """Have racks, [R] with so much room, carry the kinds near them, [K] so much each; return [S, R] what is carried."""
    parts = [[solver.NumVar(0, solver.infinity(), "") if near else None for near in row] for row in kinds.sets.tolist()]
    whole = np.bincount(kinds.set_of, weights=amount, minlength=len(parts)).tolist()
    for row, needed in zip(parts, whole, strict=True):
        solver.Add(solver.Sum([part for part in row if part is not None]) >= needed)
    for rack, most in enumerate(room):
        solver.Add(solver.Sum([row[rack] for row in parts if row[rack] is not None]) <= most)
    return parts


def _can_be_dealt(kinds: _Kinds, members: Int64Array) -> bool:
    """Return whether these numbers of members, [R], can read all partitions near."""
    solver = _solver()
    has = [
        [solver.IntVar(0, count if near else 0, "") for near in np.repeat(kinds.sets[of], members).tolist()]
        for of, count in zip(kinds.set_of.tolist(), kinds.count.tolist(), strict=True)
    ]
    for row, count in zip(has, kinds.count.tolist(), strict=True):
        solver.Add(solver.Sum(row) == count)
    for column in zip(*has, strict=True):
        solver.Add(solver.Sum([one * size for one, size in zip(column, kinds.size.tolist(), strict=True)]) <= 1)
    try:
        _solve(solver, 0 * has[0][0])
    except AssignmentError:
        return False
    return True


def _dealt(kinds: _Kinds, members: Int64Array, targets: FloatArray) -> Int64Array:
    """Return [R] the members when these have got all partitions: more where they do not suffice.

    The heaviest partitions are first. Each goes to the rack that is furthest from its target, and there to the fullest
    member that has room for it.
    """
    left = targets.copy()
    room = [np.ones(here) for here in members.tolist()]
    order = np.argsort(-kinds.size, kind="stable")
    for kind in np.repeat(order, kinds.count[order]).tolist():
        size, of = kinds.size[kind], kinds.set_of[kind]
        racks = sorted(np.flatnonzero(kinds.sets[of]).tolist(), key=lambda rack: -left[of, rack])
        for rack in racks:
            fits = np.flatnonzero(room[rack] >= size - _SLACK)
            if fits.size:
                room[rack][fits[room[rack][fits].argmin()]] -= size
                break
        else:
            rack = racks[0]
            room[rack] = np.append(room[rack], 1.0 - size)
        left[of, rack] -= size
    return np.array([len(one) for one in room], np.int64)


def _solver() -> Any:
    solver = module_of_ortools("linear_solver.pywraplp").Solver.CreateSolver("SCIP")
    solver.SetSolverSpecificParametersAsString(f"limits/nodes = {_NODES}\n")
    return solver


def _solve(solver: Any, cost: Any) -> None:
    """Find the least cost.

    Raises:
        AssignmentError: there is no solution, or none was found.
    """
    solver.Minimize(cost)
    if solver.Solve() not in (solver.OPTIMAL, solver.FEASIBLE):
        raise AssignmentError("no number of members was found")
