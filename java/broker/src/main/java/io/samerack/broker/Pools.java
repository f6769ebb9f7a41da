package io.samerack.broker;

import java.util.Arrays;

/** Sorts partitions into pools: those of one kind with the same racks, which are interchangeable but for their owners. */
final class Pools {
    /** By partition: its pool, or -1 where it may not be assigned. */
    final int[] of;
    /** By pool: its kind. */
    final int[] kind;
    /** By pool: its row of {@link Group#near}. */
    final int[] row;
    /** By pool: its partitions. */
    final int[] size;
    final int count;

    Pools(Group group, Kinds kinds, Steps steps) {
        int rows = group.near.length;
        steps.take((long) rows * kinds.supply.length + group.partitions());
        int[] number = new int[rows * kinds.supply.length];
        Arrays.fill(number, -1);
        of = new int[group.partitions()];
        int[] kindOf = new int[Math.min(number.length, of.length)];
        int[] rowOf = new int[kindOf.length];
        int[] sizeOf = new int[kindOf.length];
        int used = 0;
        for (int topic = 0; topic < group.topics.length; topic++) {
            int base = kinds.of[topic] * rows;
            for (int partition = group.first[topic]; partition < group.first[topic + 1]; partition++) {
                int at = group.row[partition];
                if (at < 0) {
                    of[partition] = -1;
                    continue;
                }
                int pool = number[base + at];
                if (pool < 0) {
                    pool = used++;
                    number[base + at] = pool;
                    kindOf[pool] = kinds.of[topic];
                    rowOf[pool] = at;
                }
                sizeOf[pool]++;
                of[partition] = pool;
            }
        }
        count = used;
        kind = Arrays.copyOf(kindOf, used);
        row = Arrays.copyOf(rowOf, used);
        size = Arrays.copyOf(sizeOf, used);
    }
}
