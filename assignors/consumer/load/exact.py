"""Solves small groups exactly, as integer programs: the least greatest load, then the least cost within a limit.

The solver is SCIP of OR-Tools, on one thread and with a bound of its search tree instead of one of its time: equal
groups get equal plans on slow and fast machines, as long as the bound suffices. Where it does not, the solver's order,
which differs a little from call to call, decides how good the plan is. Without OR-Tools the plan stays.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from samerack.assignors.consumer.load.units import SLACK, LoadUnits, rank
from samerack.assignors.problem import NOBODY, FloatArray, Int32Array
from samerack.assignors.solvers import module_of_ortools

_SMALL: Final = 1_000
"""Units times members up to which a group is small."""
_NODES: Final = 30
"""Nodes of the search tree that are examined; most groups need one."""
_WORK: Final = 6_000
"""Groups of few variables get more nodes: so many that nodes times variables are this."""
_HALF: Final = 0.5


def _linear_solver() -> Any:
    return module_of_ortools("linear_solver.pywraplp")


def is_small(units: LoadUnits) -> bool:
    """Return whether the group is small enough to be solved exactly."""
    return len(units.load) * len(units.capacity) <= _SMALL and _linear_solver() is not None


def lowest_level(units: LoadUnits, plan: Int32Array) -> Int32Array:
    """Return the plan of the least greatest load, for units without racks; `plan` if none better was found."""
    program = _Program(units)
    level = program.solver.NumVar(0, program.solver.infinity(), "")
    for row, capacity in zip(program.loads, units.capacity.tolist(), strict=True):
        row.SetUb(0)
        row.SetCoefficient(level, -capacity)
    program.solver.Minimize(level)
    found = program.solved(plan)
    return plan if found is None else min(plan, found, key=lambda each: rank(units, each, 0.0)[:2])


def cheapest_plan(units: LoadUnits, plan: Int32Array, limit: float) -> Int32Array:
    """Return the plan of the least cross-rack weight, then moves, within a limit of loads; `plan` if none is better."""
    _, over, without, price, moved, _ = rank(units, plan, limit)
    if not over and not without and not price and not moved:
        return plan
    program = _Program(units)
    for row, capacity in zip(program.loads, units.capacity.tolist(), strict=True):
        row.SetUb(limit * capacity * program.scale * (1 + SLACK))
    unit, member = program.unit, program.member
    prices = units.prices[units.price[unit], units.column[member]].astype(np.float64)
    prices /= max(float(prices.max(initial=0.0)), 1.0)
    moves = np.where((units.home[unit] != NOBODY) & (units.home[unit] != member), units.kept[unit], 0).astype(
        np.float64
    )
    best: Int32Array | None = program.nobody_without(plan) if without else plan
    if best is not None:
        program.at_most_without(rank(units, best, limit)[2])
        best = program.cheapest(best, prices) if over or price or without else best
    if best is None:
        return plan
    if moves.any():
        program.at_most(prices, float(prices[best[unit] == member].sum()) * (1 + SLACK))
        fewest = program.cheapest(best, moves)
        best = best if fewest is None else min(best, fewest, key=lambda each: rank(units, each, limit))
    return min(plan, best, key=lambda each: rank(units, each, limit))


class _Program:
    """Which member has which unit.

    Attributes:
        solver: OR-Tools' solver.
        unit: [V] unit of each variable.
        member: [V] its member.
        scale: factor of loads.
        loads: a constraint for each member, without a bound yet.
    """

    def __init__(self, units: LoadUnits) -> None:
        self.solver = _linear_solver().Solver.CreateSolver("SCIP")
        self.unit, self.member = np.nonzero(units.may_have[units.kind])
        nodes = max(_NODES, _WORK // max(len(self.unit), 1))
        self.solver.SetSolverSpecificParametersAsString(f"limits/nodes = {nodes}\n")
        self.scale = 1.0 / max(float(units.load.max(initial=0.0)), 1e-300)
        self._units = len(units.load)
        self._has = [self.solver.BoolVar("") for _ in self.unit]
        infinity = self.solver.infinity()
        ones = [self.solver.Constraint(1, 1) for _ in units.load]
        self.loads = [self.solver.Constraint(-infinity, infinity) for _ in units.capacity]
        counts = [
            self.solver.Constraint(1.0 if wants else -infinity, float(most))
            for wants, most in zip(units.wants.tolist(), units.most.tolist(), strict=True)
        ]
        self._without = [self.solver.BoolVar("") for _ in counts]
        for row, without in zip(counts, self._without, strict=True):
            row.SetCoefficient(without, 1)
        load, count = (units.load * self.scale).tolist(), units.count.tolist()
        for variable, unit, member in zip(self._has, self.unit.tolist(), self.member.tolist(), strict=True):
            ones[unit].SetCoefficient(variable, 1)
            self.loads[member].SetCoefficient(variable, load[unit])
            counts[member].SetCoefficient(variable, float(count[unit]))

    def cheapest(self, plan: Int32Array, cost: FloatArray) -> Int32Array | None:
        """Return the plan of the least cost, [V] by variable, from a plan to start with; None if none was found."""
        objective = self.solver.Objective()
        objective.Clear()
        for variable, each in zip(self._has, cost.tolist(), strict=True):
            objective.SetCoefficient(variable, each)
        objective.SetMinimization()
        return self.solved(plan)

    def nobody_without(self, plan: Int32Array) -> Int32Array | None:
        """Return a plan with the fewest members without units, from a plan to start with; None if none was found."""
        self.solver.Minimize(self.solver.Sum(self._without))
        return self.solved(plan)

    def at_most_without(self, members: int) -> None:
        """From here on no more members are without units."""
        self.solver.Add(self.solver.Sum(self._without) <= members)

    def at_most(self, cost: FloatArray, value: float) -> None:
        """From here on the cost, [V] by variable, is no more than a value."""
        row = self.solver.Constraint(-self.solver.infinity(), value)
        for variable, each in zip(self._has, cost.tolist(), strict=True):
            row.SetCoefficient(variable, each)

    def solved(self, plan: Int32Array) -> Int32Array | None:
        """Return the best plan that was found, from a plan to start with; None if none was found."""
        self.solver.SetHint(self._has, (plan[self.unit] == self.member).astype(np.float64).tolist())
        if self.solver.Solve() not in (self.solver.OPTIMAL, self.solver.FEASIBLE):
            return None
        chosen = np.array([variable.solution_value() > _HALF for variable in self._has], np.bool_)
        found = np.full(self._units, NOBODY, np.int32)
        found[self.unit[chosen]] = self.member[chosen]
        return found if (found != NOBODY).all() else None
