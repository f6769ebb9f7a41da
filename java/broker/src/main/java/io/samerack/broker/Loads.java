package io.samerack.broker;

/**
 * How many partitions members may have, and which ways partitions may take.
 *
 * <p>A cell is a subscription and a column; its number is subscription * columns + column.
 */
final class Loads {
    /** By cell: partitions that each of its members has at least. */
    final int[] floor;
    /** By cell: whether its members may have one more. */
    final boolean[] stretches;
    /** By cell: the part that its additional partitions are taken from. */
    final int[] part;
    /** By part: members with one more. */
    final int[] extras;

    private final Kinds kinds;
    private final Balance balance;
    private final int columns;
    private final boolean[] poolToColumn;
    private final boolean[][] kindToCell;

    /** The most even loads. */
    Loads(Group group, Kinds kinds, Balance balance) {
        this(kinds, balance, group.columns, group.subscriptions.length * group.columns, balance.extras, null, null);
        for (int cell = 0; cell < floor.length; cell++) {
            part[cell] = balance.partOfSubscription[cell / columns];
            int limit = group.limitOf[cell / columns];
            floor[cell] = Math.min(limit, balance.floor[part[cell]]);
            stretches[cell] = balance.extras[part[cell]] > 0 && limit > balance.floor[part[cell]];
        }
    }

    /**
     * Other loads, to be filled in by the caller.
     *
     * @param poolToColumn by pool * columns + column: whether partitions of the pool may go there
     * @param kindToCell by kind and index of one of its subscriptions * columns + column: whether they may go there
     */
    Loads(Kinds kinds, int columns, int cells, int extras, boolean[] poolToColumn, boolean[][] kindToCell) {
        this(kinds, null, columns, cells, new int[] {extras}, poolToColumn, kindToCell);
    }

    private Loads(
            Kinds kinds,
            Balance balance,
            int columns,
            int cells,
            int[] extras,
            boolean[] poolToColumn,
            boolean[][] kindToCell) {
        this.kinds = kinds;
        this.balance = balance;
        this.columns = columns;
        this.extras = extras;
        this.poolToColumn = poolToColumn;
        this.kindToCell = kindToCell;
        floor = new int[cells];
        stretches = new boolean[cells];
        part = new int[cells];
    }

    /** Says whether partitions of a pool may go to a column. */
    boolean allows(int pool, int column) {
        return poolToColumn == null || poolToColumn[pool * columns + column];
    }

    /** Says whether partitions of a kind may go to its subscription with this index, in this column. */
    boolean allows(int kind, int index, int column) {
        return kindToCell == null
                ? balance.partOfKind[kind] == balance.partOfSubscription[kinds.subscriptions[kind][index]]
                : kindToCell[kind][index * columns + column];
    }
}
