"""The engine of every assignor: places units on seats at least cost, as one class-collapsed minimum-cost flow.

Units with the same kind, prices and claims are interchangeable and form one class; classes that differ in claims only
share a pool. A class sends units straight to seats that it has a claim to, without a move, or through its pool and a
hub for each column to the seats there. The network has arcs in the number of classes, not of units, and its optimum is
that of the graph of all units and seats.

    class ──┬────────────── claimed seat, no move ──────────────┐
            └── pool ── hub (kind, column), price, a move ── group ── seat ── what the caller puts behind it

A class with one claim needs no node of its own: an arc from its pool with its size as capacity says it all.

What must not enter: partitions, topics, members, racks, tasks; the callers translate. Balance is settled before, by
demands on the seats (`assignors.balance`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from assignors.arrays import IntArray, combine, ranges, stable_order
from assignors.model import NOBODY, Int32Array, Int64Array
from assignors.solvers import Network, solve

OBJECTIVE = ("price", "moves")
"""What a placement costs, the most important first; demands on the seats come before both. With a move price the first
is the sum of both in one currency (KIP-925: traffic cost and non-overlap cost), and fewer moves break ties."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claims:
    """Sets of seats that a unit may keep, as rows of varying length; row 0 has none.

    Attributes:
        start: [Q + 1] where the entries of each row begin, and the number of entries.
        seat: [N] a seat that the unit has a claim to, once per row.
        kept: [N] moves that a unit is spared there, positive.
    """

    start: Int64Array
    seat: Int32Array
    kept: Int64Array


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
        move_price: what a move costs in the currency of `prices`, not negative.
    """

    kind: Int32Array
    kinds: int
    price: Int32Array
    prices: Int64Array
    claim: Int32Array
    claims: Claims
    move_price: int = 0


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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Classes:
    """Classes and pools of the units, and which claims of a class are good.

    Attributes:
        of: [U] class of the unit.
        size: [N] units of the class.
        pool: [N] pool of the class.
        pool_kind: [L] kind of the pool's units.
        pool_price: [L] price row of the pool's units.
        claiming: [J] class of each claim that its kind allows, ascending.
        entry: [J] which entry of the claims it is.
    """

    of: Int32Array
    size: Int64Array
    pool: Int64Array
    pool_kind: Int64Array
    pool_price: Int64Array
    claiming: Int64Array
    entry: Int64Array


@dataclass(frozen=True, slots=True, kw_only=True)
class _Arcs:
    """One layer of arcs: [A] the holder (class, pool, hub, group) whose units take them, ascending, and where to."""

    holder: IntArray
    target: IntArray
    tail: IntArray
    head: IntArray
    price: IntArray | int = 0
    moves: IntArray | int = 0
    capacity: IntArray | int


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
    network, layers = _network(units, seats, classes)
    flow = solve(network, portable=portable)
    flows = np.split(flow, np.cumsum([len(arcs.tail) for arcs in layers]))
    return _hand_out(classes, layers, flows)


def _classes(units: Units, seats: Seats) -> _Classes:
    pool_of, pools = combine(units.kind, units.kinds, units.price, len(units.prices))
    of, count = combine(pool_of, pools, units.claim, len(units.claims.start) - 1)
    some = np.empty(count, np.int64)
    some[of] = np.arange(len(of))  # any unit speaks for its class
    pool, claim = pool_of[some].astype(np.int64), units.claim[some]
    some_of_pool = np.empty(pools, np.int64)
    some_of_pool[pool] = some
    lengths = np.diff(units.claims.start)[claim]
    claiming = np.repeat(np.arange(count), lengths)
    entry = ranges(units.claims.start[claim], lengths)
    groups = len(seats.column)
    wanted = units.kind[some][claiming].astype(np.int64) * groups + seats.group[units.claims.seat[entry]]
    good = np.isin(wanted, seats.edge_kind.astype(np.int64) * groups + seats.edge_group)
    return _Classes(
        of=of,
        size=np.bincount(of, minlength=count),
        pool=pool,
        pool_kind=units.kind[some_of_pool].astype(np.int64),
        pool_price=units.price[some_of_pool].astype(np.int64),
        claiming=claiming[good],
        entry=entry[good],
    )


def _network(units: Units, seats: Seats, classes: _Classes) -> tuple[Network, tuple[_Arcs, ...]]:
    """The network, and its arcs by layer; the caller's own arcs come last and are in no layer."""
    hub_kind, hub_column, edge_hub = _hubs(seats)
    claims_of = np.bincount(classes.claiming, minlength=len(classes.size))
    torn = np.flatnonzero(claims_of > 1)
    counts = (len(torn), len(classes.pool_kind), len(hub_kind), len(seats.column))
    _, pool_node, hub_node, group_node, seat_node = np.concatenate([[0], np.cumsum(counts)]).tolist()
    origin = pool_node + classes.pool
    origin[torn] = np.arange(len(torn))
    everything = len(units.kind)
    dearest = int(units.claims.kept.max(initial=0))

    claimed = units.claims.seat[classes.entry]
    pool_of_claim = classes.pool[classes.claiming]
    claims = _Arcs(
        holder=classes.claiming,
        target=claimed,
        tail=origin[classes.claiming],
        head=seat_node + claimed,
        price=units.prices[classes.pool_price[pool_of_claim], seats.column[seats.group[claimed]]],
        moves=dearest - units.claims.kept[classes.entry],
        capacity=classes.size[classes.claiming],
    )
    pooled = _Arcs(
        holder=torn,
        target=classes.pool[torn],
        tail=origin[torn],
        head=pool_node + classes.pool[torn],
        capacity=everything,
    )
    first = np.searchsorted(hub_kind, np.arange(units.kinds + 1))
    hubs_of_pool = np.diff(first)[classes.pool_kind]
    pool = np.repeat(np.arange(len(classes.pool_kind)), hubs_of_pool)
    hub = ranges(first[classes.pool_kind], hubs_of_pool)
    priced = _Arcs(
        holder=pool,
        target=hub,
        tail=pool_node + pool,
        head=hub_node + hub,
        price=units.prices[classes.pool_price[pool], hub_column[hub]],
        moves=dearest,
        capacity=everything,
    )
    edge, seat = np.argsort(edge_hub, kind="stable"), np.argsort(seats.group, kind="stable")
    group = seats.edge_group[edge]
    edges = _Arcs(
        holder=edge_hub[edge],
        target=group,
        tail=hub_node + edge_hub[edge],
        head=group_node + group,
        capacity=everything,
    )
    seated = _Arcs(
        holder=seats.group[seat],
        target=seat,
        tail=group_node + seats.group[seat],
        head=seat_node + seat,
        capacity=everything,
    )
    behind = _Arcs(
        holder=seats.tail,
        target=seats.head,
        tail=seat_node + seats.tail,
        head=seat_node + seats.head,
        capacity=seats.capacity,
    )
    layers = (claims, pooled, priced, edges, seated)
    enter = np.bincount(origin, weights=classes.size, minlength=seat_node).astype(np.int64)
    supply = np.concatenate([enter, -seats.demand])
    return _joined((*layers, behind), supply, units.move_price), layers


def _joined(layers: tuple[_Arcs, ...], supply: Int64Array, move_price: int) -> Network:
    def joined(values: Iterable[IntArray | int], dtype: type[np.int32 | np.int64]) -> npt.NDArray[Any]:
        full = [np.broadcast_to(value, arcs.tail.shape) for value, arcs in zip(values, layers, strict=True)]
        return np.concatenate(full).astype(dtype)

    price, moves = (joined((getattr(arcs, level) for arcs in layers), np.int64) for level in OBJECTIVE)
    return Network(
        supply=supply,
        tail=joined((arcs.tail for arcs in layers), np.int32),
        head=joined((arcs.head for arcs in layers), np.int32),
        capacity=joined((arcs.capacity for arcs in layers), np.int64),
        costs=np.stack([price + move_price * moves, moves]),
    )


def _hubs(seats: Seats) -> tuple[Int64Array, Int64Array, Int64Array]:
    """One hub for each column in which a kind may be: its kind, its column, and the hub of every edge."""
    columns = int(seats.column.max()) + 1
    keys, edge_hub = np.unique(
        seats.edge_kind.astype(np.int64) * columns + seats.column[seats.edge_group], return_inverse=True
    )
    return keys // columns, keys % columns, edge_hub


def _hand_out(classes: _Classes, layers: tuple[_Arcs, ...], flows: list[Int64Array]) -> Int32Array:
    """From units on arcs to a seat for every unit."""
    seat = _keep(classes, layers[0], flows[0])
    moving = np.flatnonzero(seat == NOBODY)
    where: IntArray = classes.pool[classes.of[moving]]
    for arcs, flow in zip(layers[2:], flows[2:5], strict=True):
        where = _deal(where, arcs.holder, arcs.target, flow)
    seat[moving] = where
    return seat


def _keep(classes: _Classes, claims: _Arcs, flow: Int64Array) -> Int32Array:
    """Seats of the units that keep one, NOBODY for the others; of a class the first units stay."""
    seat_of_class = np.full(len(classes.size), NOBODY, np.int32)
    whole = flow == classes.size[claims.holder]
    seat_of_class[claims.holder[whole]] = claims.target[whole]
    seat = seat_of_class[classes.of]
    kept = np.bincount(claims.holder, weights=flow, minlength=len(classes.size)).astype(np.int64)
    torn = (kept > 0) & (seat_of_class == NOBODY)
    units, entries, leaving = np.flatnonzero(torn[classes.of]), torn[claims.holder], np.flatnonzero(torn)
    holder = np.concatenate([claims.holder[entries], leaving])
    target = np.concatenate([claims.target[entries], np.full(len(leaving), NOBODY)])
    count = np.concatenate([flow[entries], (classes.size - kept)[leaving]])
    order = np.argsort(holder, kind="stable")
    seat[units] = _deal(classes.of[units], holder[order], target[order], count[order])
    return seat


def _deal(keys: IntArray, holder: IntArray, target: IntArray, count: Int64Array) -> Int32Array:
    """Replace every key by a target: those with a key, in ascending order, share out what its holder's arcs carry."""
    dealt = np.empty(len(keys), np.int32)
    dealt[stable_order(keys, int(holder.max(initial=-1)) + 1)] = np.repeat(target.astype(np.int32), count)
    return dealt
