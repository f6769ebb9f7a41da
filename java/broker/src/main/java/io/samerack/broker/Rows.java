package io.samerack.broker;

import java.util.Arrays;
import java.util.Map;
import java.util.Set;

/**
 * Gives equal sets of racks the same small number.
 *
 * <p>A cluster has few distinct sets, however many partitions it has. A set is found by walking a tree, one step for each
 * of its racks in ascending order; the steps are in a hash table of longs.
 */
final class Rows {
    private final Map<String, Integer> columnOfRack;
    private final int columns;
    private long[] keys = new long[64];
    private int[] values = new int[64];
    private int used;
    private int[] parent = new int[16];
    private int[] last = new int[16];
    private int nodes = 1;
    private int[] wanted = new int[8];

    /**
     * @param columnOfRack the column of each rack that has members
     * @param columns number of columns, one more than racks where some members have no rack
     */
    Rows(Map<String, Integer> columnOfRack, int columns) {
        this.columnOfRack = columnOfRack;
        this.columns = columns;
        Arrays.fill(keys, -1);
    }

    /** Returns the number of the set of those racks that have members. */
    int codeOf(Set<String> racks) {
        int count = 0;
        for (String rack : racks) {
            Integer column = columnOfRack.get(rack);
            if (column != null) {
                if (count == wanted.length) {
                    wanted = Arrays.copyOf(wanted, 2 * count);
                }
                int place = count++;
                while (place > 0 && wanted[place - 1] > column) {
                    wanted[place] = wanted[place - 1];
                    place--;
                }
                wanted[place] = column;
            }
        }
        int node = 0;
        for (int index = 0; index < count; index++) {
            node = child(node, wanted[index]);
        }
        return node;
    }

    private int child(int node, int column) {
        long key = (long) node * columns + column;
        int slot = slotOf(key);
        if (keys[slot] == key) {
            return values[slot];
        }
        if (nodes == parent.length) {
            parent = Arrays.copyOf(parent, 2 * nodes);
            last = Arrays.copyOf(last, 2 * nodes);
        }
        parent[nodes] = node;
        last[nodes] = column;
        keys[slot] = key;
        values[slot] = nodes;
        if (2 * ++used > keys.length) {
            grow();
        }
        return nodes++;
    }

    private int slotOf(long key) {
        int slot = (int) ((key * 0x9E3779B97F4A7C15L) >>> 40) & (keys.length - 1);
        while (keys[slot] != -1 && keys[slot] != key) {
            slot = (slot + 1) & (keys.length - 1);
        }
        return slot;
    }

    private void grow() {
        long[] oldKeys = keys;
        int[] oldValues = values;
        keys = new long[2 * oldKeys.length];
        values = new int[keys.length];
        Arrays.fill(keys, -1);
        for (int index = 0; index < oldKeys.length; index++) {
            if (oldKeys[index] != -1) {
                int slot = slotOf(oldKeys[index]);
                keys[slot] = oldKeys[index];
                values[slot] = oldValues[index];
            }
        }
    }

    /** Returns how many numbers there are; some stand for parts of sets only. */
    int codes() {
        return nodes;
    }

    /** Returns, for one number, which columns are near: those of its racks, and that of members without a rack. */
    boolean[] near(int code) {
        boolean[] row = new boolean[columns];
        int racks = columnOfRack.size();
        for (int node = code; node != 0; node = parent[node]) {
            row[last[node]] = true;
        }
        if (racks < columns) {
            row[racks] = true; // members without a rack read nothing across racks
        } else if (code == 0) {
            Arrays.fill(row, true); // far from every member: the same cost everywhere, as with a partition near all
        }
        return row;
    }
}
