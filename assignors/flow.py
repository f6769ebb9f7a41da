"""Places units on seats at least cost, as one minimum-cost flow over classes of equal units; all assignors use it.

Units with the same kind, prices and claims are interchangeable and form one class; classes that differ only in claims
share a pool. A class sends units directly to seats that it has a claim to, without a move, or through its pool and one
hub per column to the seats there. The number of arcs grows with the number of classes, not of units, and the optimum
is that of the graph of all units and seats.

    class ──┬────────────── claimed seat, no move ──────────────┐
            └── pool ── hub (kind, column), price, a move ── group ── seat ── what the caller puts behind it

A class with one claim needs no node of its own: an arc from its pool with the class size as capacity is enough.
Balance is decided before, by demands on the seats (`assignors.balance`).

Objective, lexicographic: price, toll, moves, cost. With a move price the first level is the sum of price and moves in
one currency (KIP-925: traffic cost and non-overlap cost), and fewer moves break ties. Toll and cost are charged on the
caller's own arcs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from samerack.assignors.arrays import IntArray, combine, dense_rank, first_of_each, is_in, ranges, stable_order
from samerack.assignors.deal import Arcs, Classes, hand_out
from samerack.assignors.problem import BoolArray, Int32Array, Int64Array
from samerack.assignors.solvers import Layer, Network, fold, network_of, node_prices, solve


@dataclass(frozen=True, slots=True, kw_only=True)
class SeatClaims:
    """Sets of seats that a unit may keep, as rows of varying length; row 0 has none.

    Attributes:
        start: [Q + 1] index of each row's first entry, then the number of entries.
        seat: [N] a seat that the unit has a claim to, once per row.
        kept: [N] moves saved if the unit is placed there, positive.
    """

    start: Int64Array
    seat: Int32Array
    kept: Int64Array


def one_claim_each(seats: int) -> SeatClaims:
    """Return claims in which row z + 1 claims seat z, and row 0 none."""
    return SeatClaims(
        start=np.concatenate([[0], np.arange(seats + 1)]),
        seat=np.arange(seats, dtype=np.int32),
        kept=np.ones(seats, np.int64),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Units:
    """The U units to place, each with one kind (which groups may have it), price row and claim row.

    Attributes:
        kind: [U] 0..K-1.
        kinds: K.
        price: [U] row of `prices`.
        prices: [C, G] cost of the unit in each of the G columns (racks, for example), not negative.
        claim: [U] row of `claims`.
        claims: seats that units may keep.
        move_price: cost of a move in the currency of `prices`, not negative.
    """

    kind: Int32Array
    kinds: int
    price: Int32Array
    prices: Int64Array
    claim: Int32Array
    claims: SeatClaims
    move_price: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Seats:
    """The Z seats, in S groups of one column each, and the network behind them, in which every unit ends.

    Attributes:
        group: [Z] group of the seat.
        column: [S] column of the group.
        edge_kind: [E] a kind that a group may have.
        edge_group: [E] the group.
        demand: [Z + X] units that leave the network at the node; the X nodes are the caller's own.
        tail: [A] node where the caller's arc starts, among those Z + X nodes.
        head: [A] node where it ends.
        capacity: [A] units that it may carry.
        toll: [A] cost of each unit there, at a level before moves, not negative.
        cost: [A] cost of each unit there, at a level after moves. A unit takes at most one arc with toll, and at most
            one with cost.
    """

    group: Int32Array
    column: Int32Array
    edge_kind: Int32Array
    edge_group: Int32Array
    demand: Int64Array
    tail: Int32Array
    head: Int32Array
    capacity: Int64Array
    toll: Int64Array | int = 0
    cost: Int64Array | int = 0


def seats_by_kind(  # noqa: PLR0913 - what seats are made of
    kind: IntArray,
    column: Int32Array,
    *,
    demand: Int64Array,
    tail: Int32Array,
    head: Int32Array,
    capacity: Int64Array,
) -> Seats:
    """Return seats of one kind and one column each, [Z]; those that are alike in both are a group."""
    group, groups = combine(kind, int(kind.max()) + 1, column, int(column.max()) + 1)
    some = first_of_each(group, groups)
    return Seats(
        group=group,
        column=column[some],
        edge_kind=kind[some].astype(np.int32),
        edge_group=np.arange(groups, dtype=np.int32),
        demand=demand,
        tail=tail,
        head=head,
        capacity=capacity,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Hubs:
    """One hub for each column in which a kind may be: [H] its kind, [H] its column, and [E] the hub of every edge."""

    kind: Int64Array
    column: Int64Array
    of_edge: Int32Array


def place(
    units: Units,
    seats: Seats,
    *,
    enough: BoolArray | None = None,
    interleaved: bool = False,
) -> Int32Array:
    """Return the seat of every unit, [U]: all demands met, at least cost (objective above); exact and deterministic.

    Units of a pool are given in ascending order to seats in ascending order, so that neighbours mostly stay together;
    with `interleaved` they are dealt in turns.

    Args:
        units: what to place.
        seats: where to place it.
        enough: [E] edges with which the demands can be met. The flow starts with these, and other edges are added only
            if node prices show that they could improve it; the cost of the placement is the same.
        interleaved: neighbours go to different seats where that costs nothing.

    Raises:
        AssignmentError: the demands cannot be met.

    Complexity: O(U) in numpy, and a flow with O(classes + pools * columns + edges + seats) arcs.
    """
    if not len(units.kind):
        return np.empty(0, np.int32)
    classes = _classes(units, seats)
    hubs = _hubs(seats)
    used = np.ones(len(seats.edge_kind), np.bool_) if enough is None else enough.copy()
    while True:
        network, layers, nodes = _network(units, seats, classes, hubs, np.flatnonzero(used))
        flow = solve(network)
        if used.all():
            break
        missing = _worth_while(network, flow, hubs, seats, nodes) & ~used
        if not missing.any():
            break
        used |= missing
    flows = np.split(flow, np.cumsum([len(arcs.tail) for arcs in layers]))
    return hand_out(classes, layers, flows, interleaved=interleaved)


def _worth_while(network: Network, flow: Int64Array, hubs: _Hubs, seats: Seats, nodes: tuple[int, int]) -> BoolArray:
    """Return [E] true for edges that could improve the flow: the hub's node price is below the group's."""
    folded = fold(network)
    if folded is None:
        return np.ones(len(seats.edge_kind), np.bool_)
    price = node_prices(replace(network, costs=folded[np.newaxis]), flow)
    hub_node, group_node = nodes
    better: BoolArray = price[hub_node + hubs.of_edge] < price[group_node + seats.edge_group]
    return better


def _classes(units: Units, seats: Seats) -> Classes:
    pool_of, pools = combine(units.kind, units.kinds, units.price, len(units.prices))
    of, count = combine(pool_of, pools, units.claim, len(units.claims.start) - 1)
    some = np.empty(count, np.int64)
    some[of] = np.arange(len(of))  # any unit represents its class
    pool, claim = pool_of[some].astype(np.int64), units.claim[some]
    some_of_pool = np.empty(pools, np.int64)
    some_of_pool[pool] = some
    lengths = np.diff(units.claims.start)[claim]
    claiming = np.repeat(np.arange(count), lengths)
    entry = ranges(units.claims.start[claim], lengths)
    groups = len(seats.column)
    wanted = units.kind[some][claiming].astype(np.int64) * groups + seats.group[units.claims.seat[entry]]
    edges = seats.edge_kind.astype(np.int64) * groups + seats.edge_group
    good = is_in(wanted, edges, units.kinds * groups)
    return Classes(
        of=of,
        size=np.bincount(of, minlength=count),
        pool=pool,
        pool_kind=units.kind[some_of_pool].astype(np.int64),
        pool_price=units.price[some_of_pool].astype(np.int64),
        claiming=claiming[good],
        entry=entry[good],
    )


def _network(
    units: Units, seats: Seats, classes: Classes, hubs: _Hubs, used: Int64Array
) -> tuple[Network, tuple[Arcs, ...], tuple[int, int]]:
    """Return the network with these edges, its arcs by layer, and the first node of hubs and of groups.

    The caller's own arcs come last and are not in any layer.
    """
    hub_kind, hub_column = hubs.kind, hubs.column
    claims_of = np.bincount(classes.claiming, minlength=len(classes.size))
    torn = np.flatnonzero(claims_of > 1)
    counts = (len(torn), len(classes.pool_kind), len(hub_kind), len(seats.column))
    _, pool_node, hub_node, group_node, seat_node = np.concatenate([[0], np.cumsum(counts)]).tolist()
    origin = pool_node + classes.pool
    origin[torn] = np.arange(len(torn))
    everything = len(units.kind)
    max_kept = int(units.claims.kept.max(initial=0))

    claimed = units.claims.seat[classes.entry]
    pool_of_claim = classes.pool[classes.claiming]
    claims = Arcs(
        holder=classes.claiming,
        target=claimed,
        tail=origin[classes.claiming],
        head=seat_node + claimed,
        price=units.prices[classes.pool_price[pool_of_claim], seats.column[seats.group[claimed]]],
        moves=max_kept - units.claims.kept[classes.entry],
        capacity=classes.size[classes.claiming],
    )
    pooled = Arcs(
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
    priced = Arcs(
        holder=pool,
        target=hub,
        tail=pool_node + pool,
        head=hub_node + hub,
        price=units.prices[classes.pool_price[pool], hub_column[hub]],
        moves=max_kept,
        capacity=everything,
    )
    edge = used[stable_order(hubs.of_edge[used], len(hub_kind))]
    seat = np.argsort(seats.group, kind="stable")
    group = seats.edge_group[edge]
    edges = Arcs(
        holder=hubs.of_edge[edge],
        target=group,
        tail=hub_node + hubs.of_edge[edge],
        head=group_node + group,
        capacity=everything,
    )
    seated = Arcs(
        holder=seats.group[seat],
        target=seat,
        tail=group_node + seats.group[seat],
        head=seat_node + seat,
        capacity=everything,
    )
    behind = Arcs(
        holder=seats.tail,
        target=seats.head,
        tail=seat_node + seats.tail,
        head=seat_node + seats.head,
        toll=seats.toll,
        cost=seats.cost,
        capacity=seats.capacity,
    )
    layers = (claims, pooled, priced, edges, seated)
    enter = np.bincount(origin, weights=classes.size, minlength=seat_node).astype(np.int64)
    supply = np.concatenate([enter, -seats.demand])
    return _joined((*layers, behind), supply, units.move_price), layers, (hub_node, group_node)


def _joined(layers: tuple[Arcs, ...], supply: Int64Array, move_price: int) -> Network:
    has_toll, has_cost = any(np.any(arcs.toll) for arcs in layers), any(np.any(arcs.cost) for arcs in layers)

    def costs(arcs: Arcs) -> tuple[IntArray | int, ...]:
        toll, cost = [arcs.toll] if has_toll else [], [arcs.cost] if has_cost else []
        return arcs.price + move_price * arcs.moves, *toll, arcs.moves, *cost

    return network_of(supply, [Layer(arcs.tail, arcs.head, arcs.capacity, costs(arcs)) for arcs in layers])


def _hubs(seats: Seats) -> _Hubs:
    columns = int(seats.column.max()) + 1
    kinds = int(seats.edge_kind.max(initial=0)) + 1
    keys = seats.edge_kind.astype(np.int64) * columns + seats.column[seats.edge_group]
    of_edge, values = dense_rank(keys, kinds * columns)
    return _Hubs(kind=values // columns, column=values % columns, of_edge=of_edge)
