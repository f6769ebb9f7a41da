package io.samerack.broker;

import java.util.Arrays;

/** An array of integers as a key of hash tables. */
final class IntRow {
    private final int[] values;
    private final int hash;

    IntRow(int[] values) {
        this.values = values;
        hash = Arrays.hashCode(values);
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof IntRow && Arrays.equals(values, ((IntRow) other).values);
    }

    @Override
    public int hashCode() {
        return hash;
    }
}
