"""The engine of every assignor: places units on seats at least cost, as one class-collapsed minimum-cost flow.

Units with the same kind, prices and claims are interchangeable and form one class. A class sends units straight to the
seats that it has a claim to, without a move, or through its pool and a hub for each place to the seats there. The
network has arcs in the number of classes, not of units, and its optimum is that of the graph of all units and seats.

    class ─┬───────────── claimed seat, no move ────────────┐
           └─ pool ──price── hub (kind, column) ── group ── seat ── whatever the caller puts behind it

What must not enter: partitions, topics, members, racks, tasks; the callers translate. Balance is settled before, by
demands on the seats (`assignors.balance`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from assignors.arrays import IntArray, combine, ranges, stable_order
from assignors.model import NOBODY, Int32Array, Int64Array
from assignors.solvers import Network, solve

OBJECTIVE = ("price", "moves")
"""What a placement costs, the most important first; demands on the seats come before both."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claims:
    """Sets of seats that a unit may keep, as rows of varying length; row 0 has none.

    Attributes:
        start: [Q + 1] where the entries of each row begin, and the number of entries.
        seat: [N] a seat that the unit has a claim to, once per row.
        kept: [N] moves that a unit is spared there.
        whole: [Q] moves that a unit of this row costs on any other seat.
    """

    start: Int64Array
    seat: Int32Array
    kept: Int64Array
    whole: Int64Array


@dataclass(frozen=True, slots=True, kw_only=True)
class Units:
    """What is to be placed: U units, each of one kind (who may have it), price row and claim row.

    Attributes:
        kind: [U] 0..K-1.
        kinds: K.
        price: [U] row of `prices`.
        prices: [C, G] what the unit costs in each of the G columns (racks, say), not negative.
        claim: [U] row of `claims`.
        claims: seats that units may keep.
    """

    kind: Int32Array
    kinds: int
    price: Int32Array
    prices: Int64Array
    claim: Int32Array
    claims: Claims


@dataclass(frozen=True, slots=True, kw_only=True)
class Seats:
    """Where units may go: Z seats in S groups of one column each, and a network behind them that takes every unit.

    Attributes:
        group: [Z] group of the seat.
        column: [S] column of the group.
        edge_kind: [E] a kind that a group may have.
        edge_group: [E] the group.
        demand: [Z + X] units that the node takes for good; the X nodes are the caller's own.
        tail: [A] caller's arcs between those nodes: where they begin,
        head: [A] where they end,
        capacity: [A] and how many units they carry.
    """

    group: Int32Array
    column: Int32Array
    edge_kind: Int32Array
    edge_group: Int32Array
    demand: Int64Array
    tail: Int32Array
    head: Int32Array
    capacity: Int64Array


@dataclass(frozen=True, slots=True)
class _Arcs:
    tail: IntArray
    head: IntArray
    price: IntArray | int = 0
    moves: IntArray | int = 0
    capacity: IntArray | None = None


@dataclass(frozen=True, slots=True)
class _Classes:
    """Classes and pools of the units, and which claims of a class are good.

    Attributes:
        of: [U] class of the unit.
        supply: [N] units of the class.
        pool: [N] pool of the class.
        claim: [N] claim row of the class.
        pool_kind: [L] kind of the pool's units.
        pool_price: [L] price row of the pool's units.
        entry_class: [J] class of each claim that its kind allows, ascending,
        entry: [J] and which entry of the claims it is.
    """

    of: Int32Array
    supply: Int64Array
    pool: Int64Array
    claim: Int64Array
    pool_kind: Int64Array
    pool_price: Int64Array
    entry_class: Int64Array
    entry: Int64Array


def place(units: Units, seats: Seats, *, portable: bool = False) -> Int32Array:
    """The seat of every unit, [U]: least total price, then fewest moves, every demand met; exact and deterministic.

    Units of a pool are handed out in ascending order to seats in ascending order, so that neighbours mostly stay
    together.

    Args:
        units: what to place.
        seats: where to.
        portable: solve with networkx even where OR-Tools is there.

    Raises:
        AssignmentError: the demands cannot be met.

    Complexity: O(U) in numpy, and a flow with O(classes + pools * columns + edges + seats) arcs.
    """
    if not len(units.kind):
        return np.empty(0, np.int32)
    classes = _classes(units, seats)
    hub_kind, hub_column, edge_hub = _hubs(seats)
    layers = _layers(units, seats, classes, (hub_kind, hub_column, edge_hub))
    flows = _solve(units, seats, classes, layers, portable=portable)
    return _hand_out(classes, layers, flows, len(hub_kind), len(seats.column))


def _classes(units: Units, seats: Seats) -> _Classes:
    pool_of, pools = combine(units.kind, units.kinds, units.price, len(units.prices))
    rows = len(units.claims.whole)
    of, count = combine(pool_of, pools, units.claim, rows)
    some = np.empty(count, np.int64)
    some[of] = np.arange(len(of))  # any unit speaks for its class
    pool, claim = pool_of[some].astype(np.int64), units.claim[some].astype(np.int64)
    pool_some = np.empty(pools, np.int64)
    pool_some[pool] = some
    lengths = np.diff(units.claims.start)[claim]
    entry_class = np.repeat(np.arange(count), lengths)
    entry = ranges(units.claims.start[claim], lengths)
    groups = len(seats.column)
    wanted = units.kind[some][entry_class].astype(np.int64) * groups + seats.group[units.claims.seat[entry]]
    good = np.isin(wanted, seats.edge_kind.astype(np.int64) * groups + seats.edge_group)
    return _Classes(
        of=of,
        supply=np.bincount(of, minlength=count),
        pool=pool,
        claim=claim,
        pool_kind=units.kind[pool_some].astype(np.int64),
        pool_price=units.price[pool_some].astype(np.int64),
        entry_class=entry_class[good],
        entry=entry[good],
    )


def _hubs(seats: Seats) -> tuple[Int64Array, Int64Array, Int64Array]:
    """One hub for each column in which a kind may be: its kind, its column, and the hub of every edge."""
    columns = int(seats.column.max()) + 1
    keys, edge_hub = np.unique(
        seats.edge_kind.astype(np.int64) * columns + seats.column[seats.edge_group], return_inverse=True
    )
    return keys // columns, keys % columns, edge_hub


def _layers(
    units: Units, seats: Seats, classes: _Classes, hubs: tuple[Int64Array, Int64Array, Int64Array]
) -> tuple[_Arcs, _Arcs, _Arcs, _Arcs, _Arcs]:
    """Arcs by layer, each sorted by where it begins: class→seat, class→pool, pool→hub, hub→group, group→seat."""
    hub_kind, hub_column, edge_hub = hubs
    claimed = units.claims.seat[classes.entry]
    price = units.prices[classes.pool_price[classes.pool[classes.entry_class]], seats.column[seats.group[claimed]]]
    whole = units.claims.whole[classes.claim]
    with_claim = np.flatnonzero(np.bincount(classes.entry_class, minlength=len(classes.supply)))
    first_hub = np.searchsorted(hub_kind, np.arange(units.kinds + 1))
    hubs_of_pool = np.diff(first_hub)[classes.pool_kind]
    pool = np.repeat(np.arange(len(classes.pool_kind)), hubs_of_pool)
    hub = ranges(first_hub[classes.pool_kind], hubs_of_pool)
    by_hub = np.argsort(edge_hub, kind="stable")
    by_group = np.argsort(seats.group, kind="stable")
    return (
        _Arcs(classes.entry_class, claimed, price, whole[classes.entry_class] - units.claims.kept[classes.entry]),
        _Arcs(with_claim, classes.pool[with_claim], moves=whole[with_claim]),
        _Arcs(pool, hub, units.prices[classes.pool_price[pool], hub_column[hub]]),
        _Arcs(edge_hub[by_hub], seats.edge_group[by_hub]),
        _Arcs(seats.group[by_group], by_group),
    )


def _solve(
    units: Units, seats: Seats, classes: _Classes, layers: tuple[_Arcs, ...], *, portable: bool
) -> list[Int64Array]:
    """Units on every arc, by layer."""
    claims, pooled, priced, edges, _ = layers
    bounds = (len(classes.supply), len(classes.pool_kind), int(edges.tail.max(initial=-1)) + 1, len(seats.column))
    class_node, pool_node, hub_node, group_node, seat_node = np.concatenate([[0], np.cumsum(bounds)]).tolist()
    everything = np.array([len(units.kind)])
    behind = _Arcs(seats.tail, seats.head, capacity=seats.capacity)
    placed = (
        (claims, class_node, seat_node),
        (pooled, class_node, pool_node),
        (priced, pool_node, hub_node),
        (edges, hub_node, group_node),
        (layers[4], group_node, seat_node),
        (behind, seat_node, seat_node),
    )
    network = Network(
        supply=np.concatenate([_supplies(classes, pooled), np.zeros(bounds[2] + bounds[3], np.int64), -seats.demand]),
        tail=np.concatenate([arcs.tail + begin for arcs, begin, _ in placed]).astype(np.int32),
        head=np.concatenate([arcs.head + end for arcs, _, end in placed]).astype(np.int32),
        capacity=np.concatenate(
            [np.broadcast_to(everything if a.capacity is None else a.capacity, a.tail.shape) for a, _, _ in placed]
        ).astype(np.int64),
        costs=np.stack(
            [
                np.concatenate([np.broadcast_to(getattr(arcs, level), arcs.tail.shape) for arcs, _, _ in placed])
                for level in OBJECTIVE
            ]
        ).astype(np.int64),
    )
    flow = solve(network, portable=portable)
    return np.split(flow, np.cumsum([len(arcs.tail) for arcs, _, _ in placed])[:-1])


def _supplies(classes: _Classes, pooled: _Arcs) -> Int64Array:
    """Supplies of class and pool nodes: classes without a good claim start in their pool."""
    claiming = np.zeros(len(classes.supply), np.bool_)
    claiming[pooled.tail] = True
    in_pool = np.bincount(
        classes.pool[~claiming], weights=classes.supply[~claiming], minlength=len(classes.pool_kind)
    ).astype(np.int64)
    return np.concatenate([np.where(claiming, classes.supply, 0), in_pool])


def _hand_out(
    classes: _Classes, layers: tuple[_Arcs, ...], flows: list[Int64Array], hubs: int, groups: int
) -> Int32Array:
    """From units on arcs to a seat for every unit."""
    seat = _keep(classes, layers[0], flows[0])
    moving = np.flatnonzero(seat == NOBODY)
    where: IntArray = classes.pool[classes.of[moving]] if len(moving) else moving
    for arcs, flow, bound in zip(layers[2:], flows[2:5], (len(classes.pool_kind), hubs, groups), strict=True):
        where = _deal(where, bound, arcs.head, flow)
    seat[moving] = where
    return seat


def _keep(classes: _Classes, claims: _Arcs, flow: Int64Array) -> Int32Array:
    """Seats of the units that keep one, NOBODY for the others; of a class the first units stay."""
    seat_of_class = np.full(len(classes.supply), NOBODY, np.int32)
    settled = flow == classes.supply[claims.tail]
    seat_of_class[claims.tail[settled]] = claims.head[settled]
    seat = seat_of_class[classes.of]
    kept = np.bincount(claims.tail, weights=flow, minlength=len(classes.supply)).astype(np.int64)
    torn = (kept > 0) & (seat_of_class == NOBODY)
    if torn.any():
        units = np.flatnonzero(torn[classes.of])
        entries = torn[claims.tail]
        some = np.flatnonzero(torn)
        tail = np.concatenate([claims.tail[entries], some])
        head = np.concatenate([claims.head[entries], np.full(len(some), NOBODY)])
        count = np.concatenate([flow[entries], (classes.supply - kept)[some]])
        order = np.argsort(tail, kind="stable")
        seat[units] = _deal(classes.of[units], len(classes.supply), head[order], count[order])
    return seat


def _deal(keys: IntArray, bound: int, targets: IntArray, counts: Int64Array) -> Int32Array:
    """Replace every key by a target: the arcs of a key, sorted by key, take its holders in ascending order."""
    dealt = np.empty(len(keys), np.int32)
    dealt[stable_order(keys, bound)] = np.repeat(targets.astype(np.int32), counts)
    return dealt
