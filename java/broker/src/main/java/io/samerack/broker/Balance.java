package io.samerack.broker;

import java.util.ArrayDeque;
import java.util.Arrays;
import java.util.Deque;

/**
 * Computes the most even loads that the subscriptions and the members' limits allow.
 *
 * <p>Kinds of partitions and subscriptions fall into parts. In a part every member gets the part's floor or one more, or
 * its limit where that is not above the floor, and no partition goes from a kind of one part to a subscription of another.
 * All plans with the least sum of squared loads, and only these, have such loads (Frank and Murota, "Decreasing
 * minimization on M-convex sets", 2022). A part is found by cutting: where a flow cannot fill all members to one level, a
 * minimum cut separates those who get more from those who get less, and each side is a problem of its own.
 */
final class Balance {
    /** By kind: its part, or -1 without partitions. */
    final int[] partOfKind;
    /** By subscription: its part. */
    final int[] partOfSubscription;
    /** By subscription: the most partitions that one of its members has in any of these plans, but for its limit. */
    final int[] mostOfSubscription;
    /** By part: least partitions of each member. */
    int[] floor = new int[4];
    /** By part: members with one more. */
    int[] extras = new int[4];
    /** Number of parts. */
    int parts;

    private final Kinds kinds;
    private final int[] limitOf;
    private final Steps steps;

    private Balance(Kinds kinds, int[] limitOf, Steps steps) {
        this.kinds = kinds;
        this.limitOf = limitOf;
        this.steps = steps;
        partOfKind = new int[kinds.supply.length];
        partOfSubscription = new int[kinds.members.length];
        mostOfSubscription = new int[kinds.members.length];
    }

    static Balance of(Kinds kinds, int[] limitOf, Steps steps) {
        Balance balance = new Balance(kinds, limitOf, steps);
        balance.divide();
        return balance;
    }

    /** Splits the group until each part is even. Parts that are open have negative numbers. */
    private void divide() {
        Arrays.fill(partOfKind, -1);
        int open = -2;
        Deque<int[][]> waiting = new ArrayDeque<>();
        int[] all = new int[kinds.supply.length];
        int count = 0;
        for (int kind = 0; kind < all.length; kind++) {
            if (kinds.supply[kind] > 0) {
                all[count++] = kind;
            }
        }
        int[] subscriptions = new int[kinds.members.length];
        Arrays.setAll(subscriptions, index -> index);
        waiting.push(new int[][] {Arrays.copyOf(all, count), subscriptions});
        while (!waiting.isEmpty()) {
            int[][] part = waiting.pop();
            mark(part, open);
            boolean[] above = cut(part, open);
            if (above == null) {
                mark(part, parts - 1);
            } else {
                waiting.push(side(part, above, false));
                waiting.push(side(part, above, true));
            }
            open--;
        }
    }

    private void mark(int[][] part, int number) {
        for (int kind : part[0]) {
            partOfKind[kind] = number;
        }
        for (int subscription : part[1]) {
            partOfSubscription[subscription] = number;
        }
    }

    private static int[][] side(int[][] part, boolean[] above, boolean wanted) {
        int[][] side = new int[2][];
        int offset = 0;
        for (int of = 0; of < 2; of++) {
            int[] kept = new int[part[of].length];
            int count = 0;
            for (int index = 0; index < part[of].length; index++) {
                if (above[offset + index] == wanted) {
                    kept[count++] = part[of][index];
                }
            }
            offset += part[of].length;
            side[of] = Arrays.copyOf(kept, count);
        }
        return side;
    }

    /** Returns which kinds and subscriptions (in this order) get more than the others, or null if the part is even. */
    private boolean[] cut(int[][] part, int open) {
        int units = 0;
        for (int kind : part[0]) {
            units += kinds.supply[kind];
        }
        int level = level(part[1], units);
        int even = 0;
        for (int subscription : part[1]) {
            even += Math.min(level, limitOf[subscription]) * kinds.members[subscription];
        }
        if (part[1].length == 1) {
            close(level, units - even);
            mostOfSubscription[part[1][0]] = units > even ? level + 1 : level;
            return null;
        }
        FlowNetwork network = new FlowNetwork(steps);
        int first = network.nodes(part[0].length + part[1].length);
        int source = network.node();
        int sink = network.node();
        int[] nodeOf = new int[kinds.members.length];
        int[] leaving = new int[part[1].length];
        for (int index = 0; index < part[1].length; index++) {
            int subscription = part[1][index];
            nodeOf[subscription] = part[0].length + index;
            int floor = Math.min(level, limitOf[subscription]);
            leaving[index] = network.arc(nodeOf[subscription], sink, floor * kinds.members[subscription], 0);
        }
        for (int index = 0; index < part[0].length; index++) {
            int kind = part[0][index];
            network.arc(source, index, kinds.supply[kind], 0);
            steps.take(kinds.subscriptions[kind].length);
            for (int subscription : kinds.subscriptions[kind]) {
                if (partOfSubscription[subscription] == open) {
                    network.arc(index, nodeOf[subscription], kinds.supply[kind], 0);
                }
            }
        }
        int sent = network.send(source, sink);
        if (sent == even) {
            for (int index = 0; index < leaving.length; index++) {
                if (limitOf[part[1][index]] > level) {
                    network.widen(leaving[index], kinds.members[part[1][index]]);
                }
            }
            sent += network.send(source, sink);
            if (sent == units) {
                close(level, units - even);
                findMost(part, level, network, leaving, first);
                return null;
            }
        }
        return Arrays.copyOf(network.reachable(source), source - first);
    }

    /** Returns the highest level to which the units fill members, none above its limit. */
    private int level(int[] subscriptions, int units) {
        int level = -1;
        while (true) {
            int left = units;
            int members = 0;
            for (int subscription : subscriptions) {
                if (limitOf[subscription] > level) {
                    members += kinds.members[subscription];
                } else {
                    left -= limitOf[subscription] * kinds.members[subscription];
                }
            }
            if (members == 0 || left / members == level) {
                return level;
            }
            level = left / members;
        }
    }

    /** A member has one more than the floor where some member of its subscription does, or could take it from another. */
    private void findMost(int[][] part, int floor, FlowNetwork network, int[] leaving, int first) {
        int[] over = new int[leaving.length];
        int count = 0;
        for (int index = 0; index < leaving.length; index++) {
            int subscription = part[1][index];
            if (limitOf[subscription] > floor && network.left(leaving[index]) < kinds.members[subscription]) {
                over[count++] = first + part[0].length + index;
            }
        }
        boolean[] reached =
                network.reachableBelow(first + part[0].length + part[1].length, Arrays.copyOf(over, count));
        for (int index = 0; index < leaving.length; index++) {
            boolean more = reached[first + part[0].length + index];
            mostOfSubscription[part[1][index]] = more ? floor + 1 : floor;
        }
    }

    private void close(int least, int more) {
        if (parts == floor.length) {
            floor = Arrays.copyOf(floor, 2 * parts);
            extras = Arrays.copyOf(extras, 2 * parts);
        }
        floor[parts] = least;
        extras[parts++] = more;
    }
}
