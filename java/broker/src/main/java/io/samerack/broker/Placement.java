package io.samerack.broker;

import java.util.Arrays;

/**
 * The flow that decides how many partitions of each pool stay with each type of members, and how many go where.
 *
 * <pre>
 *   source ── pool ──┬───────────── stays, no move ─────────────┐
 *                    └── hub (kind, column), a move ── cell ── type ──┬── sink: the floor of each member
 *                                                                     └── extras of the part ── sink
 * </pre>
 *
 * <p>Partitions and members that are interchangeable are one node, so the network grows with racks, kinds and types, not
 * with partitions; its optimum is that of all partitions and members.
 */
final class Placement {
    /** By index of {@link Claims#pool}: partitions of the pool that stay with the type. */
    final int[] kept;
    /** By pool * columns + column: partitions that go to a hub. */
    final int[] toColumn;
    /** By hub (kind * columns + column): index of its first cell in {@link #cellAt}; one more entry. */
    final int[] firstCell;
    /** Cells of each hub. */
    final int[] cellAt;
    /** Partitions that go from the hub to that cell. */
    final int[] toCell;
    /** By type: partitions of all its members together. */
    final int[] load;

    private final Group group;
    private final Kinds kinds;
    private final Pools pools;
    private final Loads loads;
    private final Claims claims;
    private final FlowNetwork network;
    private final Steps steps;

    Placement(Group group, Kinds kinds, Pools pools, Loads loads, Claims claims, Settings.Order order, Steps steps) {
        this.group = group;
        this.kinds = kinds;
        this.pools = pools;
        this.loads = loads;
        this.claims = claims;
        this.steps = steps;
        network = new FlowNetwork(steps);
        kept = new int[claims.firstPool[claims.types]];
        toColumn = new int[pools.count * group.columns];
        load = new int[claims.types];
        int hubs = kinds.supply.length * group.columns;
        firstCell = new int[hubs + 1];
        int edges = 0;
        for (int[] subscriptions : kinds.subscriptions) {
            edges += subscriptions.length * group.columns;
            steps.take((long) subscriptions.length * group.columns);
        }
        cellAt = new int[edges];
        toCell = new int[edges];
        solve(order);
    }

    private void solve(Settings.Order order) {
        int units = Arrays.stream(pools.size).sum();
        boolean movesFirst = order == Settings.Order.BALANCE_MOVES_RACKS;
        long crossing = movesFirst ? 1 : units + 1L;
        long move = movesFirst ? units + 1L : 1;

        int columns = group.columns;
        int cells = loads.floor.length;
        int source = network.node();
        int poolNode = network.nodes(pools.count);
        int hubNode = network.nodes(kinds.supply.length * columns);
        int cellNode = network.nodes(cells);
        int typeNode = network.nodes(claims.types);
        int extrasNode = network.nodes(loads.extras.length);
        int sink = network.node();
        steps.take((long) cells + hubNode);

        int[] sinkArc = new int[claims.types];
        int[] extraArc = new int[claims.types];
        boolean[] inhabited = new boolean[cells];
        int[] keepArc = new int[kept.length];
        for (int pool = 0; pool < pools.count; pool++) {
            network.arc(source, poolNode + pool, pools.size[pool], 0);
        }
        for (int type = 0; type < claims.types; type++) {
            int cell = claims.cell[type];
            int size = claims.sizeOf(type);
            inhabited[cell] = true;
            network.arc(cellNode + cell, typeNode + type, units, 0);
            extraArc[type] = -1;
            if (loads.stretches[cell]) {
                extraArc[type] = network.arc(typeNode + type, extrasNode + loads.part[cell], size, 0);
            }
            sinkArc[type] = network.arc(typeNode + type, sink, size * loads.floor[cell], 0);
            for (int index = claims.firstPool[type]; index < claims.firstPool[type + 1]; index++) {
                int pool = claims.pool[index];
                keepArc[index] = network.arc(
                        poolNode + pool,
                        typeNode + type,
                        size * claims.count[index],
                        group.near[pools.row[pool]][cell % columns] ? 0 : crossing);
            }
        }
        for (int part = 0; part < loads.extras.length; part++) {
            network.arc(extrasNode + part, sink, loads.extras[part], 0);
        }
        int[] columnArc = new int[toColumn.length];
        for (int pool = 0; pool < pools.count; pool++) {
            for (int column = 0; column < columns; column++) {
                int index = pool * columns + column;
                columnArc[index] = loads.allows(pool, column)
                        ? network.arc(
                                poolNode + pool,
                                hubNode + pools.kind[pool] * columns + column,
                                units,
                                move + (group.near[pools.row[pool]][column] ? 0 : crossing))
                        : -1;
            }
        }
        int[] cellArc = cellArcs(hubNode, cellNode, inhabited, units);
        if (network.send(source, sink) != units) {
            throw new IllegalStateException("the flow leaves partitions without a member");
        }
        read(keepArc, kept);
        read(columnArc, toColumn);
        read(cellArc, toCell);
        for (int type = 0; type < load.length; type++) {
            load[type] = network.flow(sinkArc[type]) + (extraArc[type] < 0 ? 0 : network.flow(extraArc[type]));
        }
    }

    private int[] cellArcs(int hubNode, int cellNode, boolean[] inhabited, int units) {
        int[] arcs = new int[cellAt.length];
        int used = 0;
        for (int kind = 0; kind < kinds.supply.length; kind++) {
            int[] subscriptions = kinds.subscriptions[kind];
            for (int column = 0; column < group.columns; column++) {
                int hub = kind * group.columns + column;
                firstCell[hub] = used;
                for (int index = 0; index < subscriptions.length; index++) {
                    int cell = subscriptions[index] * group.columns + column;
                    if (inhabited[cell] && kinds.supply[kind] > 0 && loads.allows(kind, index, column)) {
                        cellAt[used] = cell;
                        arcs[used++] = network.arc(hubNode + hub, cellNode + cell, units, 0);
                    }
                }
            }
        }
        firstCell[firstCell.length - 1] = used;
        return Arrays.copyOf(arcs, used);
    }

    private void read(int[] arcs, int[] into) {
        for (int index = 0; index < arcs.length; index++) {
            into[index] = arcs[index] < 0 ? 0 : network.flow(arcs[index]);
        }
    }
}
