package io.samerack.broker;

import org.apache.kafka.common.Uuid;

/**
 * One consumer group as arrays of small integers: the input of every plan.
 *
 * <p>Members are sorted (static members by group instance id, then dynamic ones by member id), topics by id, and
 * partitions by topic and number, so that equal groups give equal arrays whatever the order of the input. Arrays are not
 * changed after {@link GroupReader} has filled them, but for limits that leave too little room.
 */
final class Group {
    /** Value of a missing owner, and of the row of a partition that nobody may have. */
    static final int NOBODY = -1;

    /** Member ids. */
    final String[] members;
    /** By member: its column. Members of one rack form a column, and members without a rack another. */
    final int[] columnOf;
    /** Number of columns. */
    final int columns;
    /** Topics that somebody subscribes to. */
    final Uuid[] topics;
    /** By topic: its first partition; one more entry has the number of all partitions. */
    final int[] first;
    /** By member: its subscription; members with equal topics and different limits have different ones. */
    final int[] subscriptionOf;
    /** By subscription: its topics, ascending. */
    final int[][] subscriptions;
    /** By subscription: the most partitions that each of its members may have, or {@link Limits#NONE}. */
    final int[] limitOf;
    /** By partition: its row of {@link #near}, or {@link #NOBODY} where it may not be assigned. */
    final int[] row;
    /** By row and column: whether members of the column read the partition in their own rack. */
    final boolean[][] near;
    /** By partition: the member that has it now and still subscribes to its topic, or {@link #NOBODY}. */
    final int[] owner;
    /** By member: whether all that it has now is in {@link #owner}, so that a plan may return its assignment as it is. */
    final boolean[] reusable;

    Group(
            String[] members,
            int[] columnOf,
            int columns,
            Uuid[] topics,
            int[] first,
            int[] subscriptionOf,
            int[][] subscriptions,
            int[] limitOf,
            int[] row,
            boolean[][] near,
            int[] owner,
            boolean[] reusable) {
        this.members = members;
        this.columnOf = columnOf;
        this.columns = columns;
        this.topics = topics;
        this.first = first;
        this.subscriptionOf = subscriptionOf;
        this.subscriptions = subscriptions;
        this.limitOf = limitOf;
        this.row = row;
        this.near = near;
        this.owner = owner;
        this.reusable = reusable;
    }

    int partitions() {
        return row.length;
    }
}
