package io.samerack.broker;

import java.util.Arrays;

/**
 * Computes a plain plan: balanced and sticky, with racks only as a tie-break. It replaces the exact plan where that
 * fails, so it shares no code with it.
 *
 * <p>Members keep what they have, the rest goes to the members with the fewest partitions, and then members with more
 * partitions than others of the same topics give some away. For equal subscriptions the loads differ by at most one, or
 * by limits; for others they are close to even and to limits after a bounded number of rounds.
 */
final class PlainPlan {
    private static final int ROUNDS = 16;
    private static final int BEYOND_LIMIT = GroupReader.MAX_PARTITIONS;

    private final Group group;
    private final int[][] subscribers;
    private final int[] plan;
    private final int[] load;

    private PlainPlan(Group group) {
        this.group = group;
        subscribers = subscribersByKind();
        plan = group.owner.clone();
        load = new int[group.members.length];
    }

    /** Returns the owner of each partition. */
    static int[] of(Group group) {
        PlainPlan plain = new PlainPlan(group);
        plain.fill();
        for (int round = 0; round < ROUNDS && plain.balance(); round++) {}
        return plain.plan;
    }

    /** All topics are of one kind where all members subscribe to the same; else each is of its own. */
    private int[][] subscribersByKind() {
        int topics = group.topics.length;
        if (group.subscriptions.length == 1) {
            int[] all = new int[group.members.length];
            Arrays.setAll(all, member -> member);
            return new int[][] {all};
        }
        int[] count = new int[topics];
        for (int number : group.subscriptionOf) {
            for (int topic : group.subscriptions[number]) {
                count[topic]++;
            }
        }
        int[][] members = new int[topics][];
        for (int topic = 0; topic < topics; topic++) {
            members[topic] = new int[count[topic]];
        }
        Arrays.fill(count, 0);
        for (int member = 0; member < group.members.length; member++) {
            for (int topic : group.subscriptions[group.subscriptionOf[member]]) {
                members[topic][count[topic]++] = member;
            }
        }
        return members;
    }

    private int firstOf(int kind) {
        return subscribers.length == 1 ? 0 : kind;
    }

    private int endOf(int kind) {
        return subscribers.length == 1 ? group.topics.length : kind + 1;
    }

    /** Gives every partition without an owner to the subscriber with the fewest, one in its own rack where two are equal. */
    private void fill() {
        for (int owner : plan) {
            if (owner >= 0) {
                load[owner]++;
            }
        }
        Integer[] byScarcity = new Integer[subscribers.length];
        Arrays.setAll(byScarcity, kind -> kind);
        Arrays.sort(byScarcity, (one, other) -> Integer.compare(subscribers[one].length, subscribers[other].length));
        for (int kind : byScarcity) {
            Heap[] heaps = heaps(subscribers[kind], true);
            for (int topic = firstOf(kind); topic < endOf(kind); topic++) {
                for (int partition = group.first[topic]; partition < group.first[topic + 1]; partition++) {
                    if (plan[partition] == Group.NOBODY && group.row[partition] >= 0) {
                        give(partition, heaps);
                    }
                }
            }
        }
    }

    private void give(int partition, Heap[] heaps) {
        boolean[] near = group.near[group.row[partition]];
        Heap best = null;
        for (int column = 0; column < heaps.length; column++) {
            Heap heap = heaps[column];
            if (heap == null) {
                continue;
            }
            heap.settle();
            int difference = best == null ? -1 : Integer.compare(weight(heap.top()), weight(best.top()));
            if (difference < 0 || difference == 0 && near[column] && !near[group.columnOf[best.top()]]) {
                best = heap;
            }
        }
        if (best != null) {
            plan[partition] = best.top();
            load[best.top()]++;
        }
    }

    /** Returns the load of a member, and more where it has no room for another partition. */
    private int weight(int member) {
        return weight(member, load[member]);
    }

    private int weight(int member, int having) {
        int limit = limitOf(member);
        return having < limit ? having : BEYOND_LIMIT + having - limit;
    }

    private int limitOf(int member) {
        return group.limitOf[group.subscriptionOf[member]];
    }

    private Heap[] heaps(int[] members, boolean byColumn) {
        Heap[] heaps = new Heap[byColumn ? group.columns : 1];
        for (int member : members) {
            int column = byColumn ? group.columnOf[member] : 0;
            if (heaps[column] == null) {
                heaps[column] = new Heap(members.length);
            }
            heaps[column].add(member);
        }
        return heaps;
    }

    /** Moves partitions, kind by kind, from members with most to members with fewest; says whether any moved. */
    private boolean balance() {
        boolean moved = false;
        for (int kind = 0; kind < subscribers.length; kind++) {
            Heap[] heaps = heaps(subscribers[kind], false);
            if (heaps[0] == null) {
                continue;
            }
            int floor = floorOf(subscribers[kind]);
            for (int slack = 1; slack >= 0; slack--) {
                for (int topic = firstOf(kind); topic < endOf(kind); topic++) {
                    moved |= level(topic, heaps[0], floor + slack);
                }
            }
        }
        return moved;
    }

    private int floorOf(int[] members) {
        long sum = 0;
        for (int member : members) {
            sum += load[member];
        }
        return (int) (sum / members.length);
    }

    private boolean level(int topic, Heap fewest, int limit) {
        boolean moved = false;
        for (int partition = group.first[topic]; partition < group.first[topic + 1]; partition++) {
            int giver = plan[partition];
            if (giver < 0 || load[giver] <= Math.min(limit, limitOf(giver))) {
                continue;
            }
            fewest.settle();
            int taker = fewest.top();
            if (weight(taker) < weight(giver, load[giver] - 1)) {
                plan[partition] = taker;
                load[taker]++;
                load[giver]--;
                fewest.lower(giver);
                moved = true;
            }
        }
        return moved;
    }

    /** Members by load; entries whose load has grown sink when they come to the top. */
    private final class Heap {
        private int[] member;
        private int[] key;
        private int size;

        Heap(int capacity) {
            member = new int[capacity];
            key = new int[capacity];
        }

        int top() {
            return member[0];
        }

        void add(int added) {
            if (size == member.length) {
                member = Arrays.copyOf(member, 2 * size);
                key = Arrays.copyOf(key, 2 * size);
            }
            int place = size++;
            int weight = weight(added);
            while (place > 0 && before(weight, added, (place - 1) / 2)) {
                member[place] = member[(place - 1) / 2];
                key[place] = key[(place - 1) / 2];
                place = (place - 1) / 2;
            }
            member[place] = added;
            key[place] = weight;
        }

        /** Enters a member again whose load has shrunk; its old entry sinks or comes up with a wrong key and is corrected. */
        void lower(int shrunk) {
            add(shrunk);
        }

        /** Brings a member with the least load to the top. */
        void settle() {
            while (key[0] != weight(member[0])) {
                int weight = weight(member[0]);
                int moving = member[0];
                int place = 0;
                while (2 * place + 1 < size) {
                    int child = 2 * place + 1;
                    if (child + 1 < size && before(key[child + 1], member[child + 1], child)) {
                        child++;
                    }
                    if (!before(key[child], member[child], weight, moving)) {
                        break;
                    }
                    member[place] = member[child];
                    key[place] = key[child];
                    place = child;
                }
                member[place] = moving;
                key[place] = weight;
            }
        }

        private boolean before(int weight, int index, int place) {
            return before(weight, index, key[place], member[place]);
        }

        private boolean before(int weight, int index, int otherWeight, int otherIndex) {
            return weight < otherWeight || weight == otherWeight && index < otherIndex;
        }
    }
}
