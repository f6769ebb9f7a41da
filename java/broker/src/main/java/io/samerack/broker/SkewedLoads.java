package io.samerack.broker;

/**
 * Computes loads where reading in the own rack comes before balance: among the plans with the fewest reads across racks,
 * the most even.
 *
 * <p>A flow of pools to cells, in which the k-th partition of a member costs more than the one before, has few nodes,
 * since owners do not matter yet. Its node prices say which ways all such plans use (complementary slackness): those
 * whose cost is the difference of the prices. {@link Placement} then finds the fewest moves on these ways.
 */
final class SkewedLoads {
    private static final int MAX_UNITS = 1 << 22;

    private final Group group;
    private final Kinds kinds;
    private final Pools pools;
    private final FlowNetwork network;
    private final int columns;
    private final int[] members;
    private final int[] limit;
    private final int[] level;
    private final int[] arc;
    private int units;
    private int poolNode;
    private int hubNode;
    private int cellNode;
    private int sink;

    private SkewedLoads(Group group, Kinds kinds, Pools pools, Steps steps) {
        this.group = group;
        this.kinds = kinds;
        this.pools = pools;
        columns = group.columns;
        network = new FlowNetwork(steps);
        int cells = group.subscriptions.length * columns;
        steps.take(cells);
        members = new int[cells];
        limit = new int[cells];
        level = new int[cells];
        arc = new int[cells];
        for (int member = 0; member < group.members.length; member++) {
            members[group.subscriptionOf[member] * columns + group.columnOf[member]]++;
        }
        for (int size : pools.size) {
            units += size;
        }
        if (units > MAX_UNITS) {
            throw new Steps.WorkBoundException(); // squares of loads would leave 64 bits
        }
    }

    /**
     * Computes the loads.
     *
     * @param balance the most even loads
     * @param maxSkew partitions that a member may have beyond the most that it has with the most even loads
     */
    static Loads of(Group group, Kinds kinds, Pools pools, Balance balance, int maxSkew, Steps steps) {
        SkewedLoads skewed = new SkewedLoads(group, kinds, pools, steps);
        for (int cell = 0; cell < skewed.limit.length; cell++) {
            long share = balance.mostOfSubscription[cell / group.columns];
            long limit = Math.min(group.limitOf[cell / group.columns], skewed.units);
            skewed.limit[cell] = (int) Math.min(share + maxSkew, limit);
        }
        skewed.solve(steps);
        return skewed.loads();
    }

    private void solve(Steps steps) {
        long crossing = (long) units * units + 1;
        int source = network.node();
        poolNode = network.nodes(pools.count);
        hubNode = network.nodes(kinds.supply.length * columns);
        cellNode = network.nodes(members.length);
        sink = network.node();
        for (int pool = 0; pool < pools.count; pool++) {
            network.arc(source, poolNode + pool, pools.size[pool], 0);
            for (int column = 0; column < columns; column++) {
                network.arc(
                        poolNode + pool,
                        hubNode + pools.kind[pool] * columns + column,
                        units,
                        group.near[pools.row[pool]][column] ? 0 : crossing);
            }
        }
        for (int kind = 0; kind < kinds.supply.length; kind++) {
            for (int subscription : kinds.subscriptions[kind]) {
                for (int column = 0; column < columns; column++) {
                    int cell = subscription * columns + column;
                    if (members[cell] > 0) {
                        network.arc(hubNode + kind * columns + column, cellNode + cell, units, 0);
                    }
                }
            }
        }
        for (int cell = 0; cell < members.length; cell++) {
            if (members[cell] > 0 && limit[cell] > 0) {
                arc[cell] = network.arc(cellNode + cell, sink, members[cell], 1);
            }
        }
        int sent = network.send(source, sink, () -> {
            steps.take(members.length);
            for (int cell = 0; cell < members.length; cell++) {
                if (members[cell] > 0 && level[cell] + 1 < limit[cell] && network.isFull(arc[cell])) {
                    level[cell]++;
                    arc[cell] = network.arc(cellNode + cell, sink, members[cell], 2L * level[cell] + 1);
                }
            }
        });
        if (sent != units) {
            throw new IllegalStateException("the limits leave partitions without a member");
        }
    }

    private Loads loads() {
        boolean[] toColumn = new boolean[pools.count * columns];
        long crossing = (long) units * units + 1;
        for (int pool = 0; pool < pools.count; pool++) {
            for (int column = 0; column < columns; column++) {
                long cost = group.near[pools.row[pool]][column] ? 0 : crossing;
                toColumn[pool * columns + column] =
                        isTight(poolNode + pool, hubNode + pools.kind[pool] * columns + column, cost);
            }
        }
        boolean[][] toCell = new boolean[kinds.supply.length][];
        for (int kind = 0; kind < toCell.length; kind++) {
            int[] subscriptions = kinds.subscriptions[kind];
            toCell[kind] = new boolean[subscriptions.length * columns];
            for (int index = 0; index < subscriptions.length; index++) {
                for (int column = 0; column < columns; column++) {
                    int cell = subscriptions[index] * columns + column;
                    toCell[kind][index * columns + column] =
                            isTight(hubNode + kind * columns + column, cellNode + cell, 0);
                }
            }
        }
        int[] floor = new int[members.length];
        boolean[] stretches = new boolean[members.length];
        int extras = units;
        for (int cell = 0; cell < members.length; cell++) {
            if (members[cell] == 0) {
                continue;
            }
            long most = network.price(sink) - network.price(cellNode + cell); // what one more partition may cost
            floor[cell] = (int) Math.min(limit[cell], Math.max(0, most / 2));
            stretches[cell] = most > 0 && most % 2 == 1 && floor[cell] < limit[cell];
            extras -= floor[cell] * members[cell];
        }
        Loads loads = new Loads(kinds, columns, members.length, extras, toColumn, toCell);
        System.arraycopy(floor, 0, loads.floor, 0, floor.length);
        System.arraycopy(stretches, 0, loads.stretches, 0, floor.length);
        return loads;
    }

    private boolean isTight(int from, int to, long cost) {
        return cost + network.price(from) - network.price(to) == 0;
    }
}
