package io.samerack.broker;

import java.util.Arrays;

/**
 * What members have now and may keep, and types of members.
 *
 * <p>Members of one cell that have equally many partitions of each pool are of one type. A flow need not distinguish them:
 * what it leaves to a type can be dealt to its members one by one.
 */
final class Claims {
    /** By member: index of its first partition in {@link #partition}; one more entry has the number of all. */
    final int[] begin;
    /** Partitions by member, ascending. */
    final int[] partition;
    /** By type: its cell. */
    int[] cell = new int[64];
    /** By type: index of its first member in {@link #member}; one more entry. */
    final int[] firstMember;
    /** Members by type, ascending. */
    final int[] member;
    /** By type: index of its first pool in {@link #pool}; one more entry. */
    int[] firstPool = new int[65];
    /** Pools of each type, ascending. */
    int[] pool = new int[64];
    /** Partitions of that pool that each member of the type has. */
    int[] count = new int[64];

    int types;

    private int[] table = new int[256];
    private int[] hashes = new int[64];

    Claims(Group group, Kinds kinds, Pools pools, Loads loads, Steps steps) {
        int members = group.members.length;
        boolean[] kept = new boolean[group.partitions()];
        begin = new int[members + 1];
        markKept(group, kinds, pools, loads, steps, kept);
        for (int index = 0; index < kept.length; index++) {
            if (kept[index]) {
                begin[group.owner[index]]++;
            }
        }
        int sum = 0;
        for (int index = 0; index <= members; index++) {
            sum += begin[index];
            begin[index] = sum;
        }
        partition = new int[sum];
        for (int index = kept.length - 1; index >= 0; index--) {
            if (kept[index]) {
                partition[--begin[group.owner[index]]] = index;
            }
        }
        int[] typeOf = new int[members];
        findTypes(group, pools, typeOf);
        steps.take(2L * kept.length + sum + pool.length);
        firstMember = new int[types + 1];
        member = new int[members];
        for (int type : typeOf) {
            firstMember[type]++;
        }
        sum = 0;
        for (int type = 0; type <= types; type++) {
            sum += firstMember[type];
            firstMember[type] = sum;
        }
        for (int index = members - 1; index >= 0; index--) {
            member[--firstMember[typeOf[index]]] = index;
        }
    }

    int sizeOf(int type) {
        return firstMember[type + 1] - firstMember[type];
    }

    private static void markKept(
            Group group, Kinds kinds, Pools pools, Loads loads, Steps steps, boolean[] kept) {
        int[] indexOf = new int[group.subscriptions.length];
        int kind = -1;
        for (int topic = 0; topic < group.topics.length; topic++) {
            if (kinds.of[topic] != kind) {
                kind = kinds.of[topic];
                int[] subscriptions = kinds.subscriptions[kind];
                steps.take(subscriptions.length);
                for (int index = 0; index < subscriptions.length; index++) {
                    indexOf[subscriptions[index]] = index;
                }
            }
            for (int index = group.first[topic]; index < group.first[topic + 1]; index++) {
                int owner = group.owner[index];
                if (owner >= 0) {
                    int column = group.columnOf[owner];
                    kept[index] = loads.allows(kind, indexOf[group.subscriptionOf[owner]], column)
                            && loads.allows(pools.of[index], column);
                }
            }
        }
    }

    private void findTypes(Group group, Pools pools, int[] typeOf) {
        Arrays.fill(table, -1);
        int[] counts = new int[pools.count];
        int[] touched = new int[pools.count];
        for (int index = 0; index < typeOf.length; index++) {
            int used = 0;
            for (int at = begin[index]; at < begin[index + 1]; at++) {
                int of = pools.of[partition[at]];
                if (counts[of]++ == 0) {
                    touched[used++] = of;
                }
            }
            Arrays.sort(touched, 0, used);
            int at = group.subscriptionOf[index] * group.columns + group.columnOf[index];
            typeOf[index] = typeWith(at, touched, used, counts);
            for (int place = 0; place < used; place++) {
                counts[touched[place]] = 0;
            }
        }
    }

    private int typeWith(int at, int[] touched, int used, int[] counts) {
        int hash = at;
        for (int place = 0; place < used; place++) {
            hash = (hash * 31 + touched[place]) * 31 + counts[touched[place]];
        }
        hash *= 0x9E3779B9;
        hash ^= hash >>> 15;
        int slot = hash & (table.length - 1);
        while (table[slot] >= 0) {
            int type = table[slot];
            if (hashes[type] == hash && isSame(type, at, touched, used, counts)) {
                return type;
            }
            slot = (slot + 1) & (table.length - 1);
        }
        add(at, touched, used, counts, hash);
        table[slot] = types - 1;
        if (2 * types > table.length) {
            rehash();
        }
        return types - 1;
    }

    private boolean isSame(int type, int at, int[] touched, int used, int[] counts) {
        if (cell[type] != at || firstPool[type + 1] - firstPool[type] != used) {
            return false;
        }
        for (int place = 0; place < used; place++) {
            int index = firstPool[type] + place;
            if (pool[index] != touched[place] || count[index] != counts[touched[place]]) {
                return false;
            }
        }
        return true;
    }

    private void add(int at, int[] touched, int used, int[] counts, int hash) {
        if (types == cell.length) {
            cell = Arrays.copyOf(cell, 2 * types);
            hashes = Arrays.copyOf(hashes, 2 * types);
            firstPool = Arrays.copyOf(firstPool, 2 * types + 1);
        }
        int start = firstPool[types];
        if (start + used > pool.length) {
            pool = Arrays.copyOf(pool, Math.max(2 * pool.length, start + used));
            count = Arrays.copyOf(count, pool.length);
        }
        for (int place = 0; place < used; place++) {
            pool[start + place] = touched[place];
            count[start + place] = counts[touched[place]];
        }
        cell[types] = at;
        hashes[types] = hash;
        firstPool[++types] = start + used;
    }

    private void rehash() {
        table = new int[2 * table.length];
        Arrays.fill(table, -1);
        for (int type = 0; type < types; type++) {
            int slot = hashes[type] & (table.length - 1);
            while (table[slot] >= 0) {
                slot = (slot + 1) & (table.length - 1);
            }
            table[slot] = type;
        }
    }
}
