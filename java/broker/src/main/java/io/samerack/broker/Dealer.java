package io.samerack.broker;

import java.util.Arrays;

/**
 * Turns the flow into a plan: deals what the flow gives to a type to its members, and spreads topics over members.
 *
 * <p>Everything here is a choice between plans of equal cost. Members give away partitions of the topics of which they
 * have most; what moves is taken in the order of topics and dealt in turns, to members with the fewest partitions of the
 * topic where members have some already. For a new group of members with equal subscriptions and racks that spreads each
 * topic as evenly as can be; elsewhere it is a good spread, not always the best.
 */
final class Dealer {
    private static final long MAX_COMPARISONS = 8_000_000;

    private final Group group;
    private final Kinds kinds;
    private final Pools pools;
    private final Claims claims;
    private final Placement placement;
    private final Steps steps;
    private final int[] plan;
    /** By member: partitions that it gets and does not have yet. */
    private final int[] missing;
    /** By topic: partitions given away so far. */
    private final int[] released;

    private Dealer(Group group, Kinds kinds, Pools pools, Claims claims, Placement placement, Steps steps) {
        this.group = group;
        this.kinds = kinds;
        this.pools = pools;
        this.claims = claims;
        this.placement = placement;
        this.steps = steps;
        plan = new int[group.partitions()];
        missing = new int[group.members.length];
        released = new int[group.topics.length];
    }

    /** Returns the owner of each partition. */
    static int[] deal(Group group, Kinds kinds, Pools pools, Claims claims, Placement placement, Steps steps) {
        Dealer dealer = new Dealer(group, kinds, pools, claims, placement, steps);
        dealer.keep();
        dealer.move();
        return dealer.plan;
    }

    private void keep() {
        Arrays.fill(plan, Group.NOBODY);
        for (int member = 0; member < missing.length; member++) {
            for (int index = claims.begin[member]; index < claims.begin[member + 1]; index++) {
                plan[claims.partition[index]] = member;
            }
        }
        for (int type = 0; type < claims.types; type++) {
            keep(type);
        }
    }

    /** Deals in turns, so that the members' sums differ by one at most, as do their shares of each pool. */
    private void keep(int type) {
        int size = claims.sizeOf(type);
        int start = claims.firstMember[type];
        int turn = 0;
        int rest = placement.load[type];
        for (int index = claims.firstPool[type]; index < claims.firstPool[type + 1]; index++) {
            int kept = placement.kept[index];
            rest -= kept;
            if (kept < size * claims.count[index]) {
                for (int place = 0; place < size; place++) {
                    int share = kept / size + (Math.floorMod(place - turn, size) < kept % size ? 1 : 0);
                    if (share < claims.count[index]) {
                        release(claims.member[start + place], claims.pool[index], claims.count[index] - share);
                    }
                }
            }
            turn = (turn + kept % size) % size;
        }
        for (int place = 0; place < size; place++) {
            missing[claims.member[start + place]] =
                    rest / size + (Math.floorMod(place - turn, size) < rest % size ? 1 : 0);
        }
    }

    /** Takes partitions of a pool from a member, first of the topics of which it has most. */
    private void release(int member, int pool, int wanted) {
        int end = claims.begin[member + 1];
        int begin = claims.begin[member];
        steps.take(end - begin);
        int[] topic = new int[end - begin];
        int[] total = new int[end - begin];
        int[] free = new int[end - begin];
        int topics = 0;
        int at = -1;
        int most = 0;
        for (int index = begin; index < end; index++) {
            int partition = claims.partition[index];
            if (plan[partition] != member) {
                continue;
            }
            if (at < 0 || partition >= group.first[at + 1]) {
                at = topicOf(partition);
                topic[topics++] = at;
            }
            most = Math.max(most, ++total[topics - 1]);
            free[topics - 1] += pools.of[partition] == pool ? 1 : 0;
        }
        int low = 0;
        int high = most;
        while (high - low > 1) { // the level down to which topics are cut: enough above low, too little above high
            int middle = (low + high) >>> 1;
            if (above(total, free, topics, middle) >= wanted) {
                low = middle;
            } else {
                high = middle;
            }
        }
        int rest = wanted - (int) above(total, free, topics, high);
        long[] next = new long[topics];
        int nexts = 0;
        int[] share = new int[topics];
        for (int index = 0; index < topics; index++) {
            share[index] = Math.min(free[index], Math.max(0, total[index] - high));
            if (share[index] < Math.min(free[index], Math.max(0, total[index] - low))) {
                next[nexts++] = (long) (released[topic[index]] + share[index]) << 32 | index;
            }
        }
        Arrays.sort(next, 0, nexts);
        for (int index = 0; index < rest; index++) {
            share[(int) next[index]]++;
        }
        take(member, pool, topic, share, topics);
    }

    private static long above(int[] total, int[] free, int topics, int level) {
        long sum = 0;
        for (int index = 0; index < topics; index++) {
            sum += Math.min(free[index], Math.max(0, total[index] - level));
        }
        return sum;
    }

    /** Takes the partitions with the highest numbers. */
    private void take(int member, int pool, int[] topic, int[] share, int topics) {
        int at = topics - 1;
        for (int index = claims.begin[member + 1] - 1; index >= claims.begin[member]; index--) {
            int partition = claims.partition[index];
            if (plan[partition] != member) {
                continue;
            }
            while (partition < group.first[topic[at]]) {
                at--;
            }
            if (pools.of[partition] == pool && share[at] > 0) {
                share[at]--;
                released[topic[at]]++;
                plan[partition] = Group.NOBODY;
            }
        }
    }

    private int topicOf(int partition) {
        int found = Arrays.binarySearch(group.first, partition);
        if (found < 0) {
            return -found - 2;
        }
        while (group.first[found + 1] == partition) {
            found++; // topics without partitions share their begin with the next one; the reader leaves them out
        }
        return found;
    }

    /** Sends what has no owner to cells, topic by topic in turns, and deals it there. */
    private void move() {
        int cells = group.subscriptions.length * group.columns;
        int[] end = new int[cells + 1];
        int edges = placement.firstCell[placement.firstCell.length - 1];
        for (int edge = 0; edge < edges; edge++) {
            end[placement.cellAt[edge] + 1] += placement.toCell[edge];
        }
        for (int cell = 0; cell < cells; cell++) {
            end[cell + 1] += end[cell];
        }
        int[] arriving = new int[end[cells]];
        if (arriving.length == 0) {
            return;
        }
        int[] first = end.clone();
        Turns columns = new Turns(placement.toColumn, pools.count, group.columns);
        Turns toCells = new Turns(placement.toCell, placement.firstCell);
        for (int partition = 0; partition < plan.length; partition++) {
            int pool = pools.of[partition];
            if (pool >= 0 && plan[partition] == Group.NOBODY) {
                int column = columns.next(pool) - pool * group.columns;
                int edge = toCells.next(pools.kind[pool] * group.columns + column);
                arriving[end[placement.cellAt[edge]]++] = partition;
            }
        }
        steps.take(plan.length + columns.seen + toCells.seen);
        int[][] open = openMembers(cells);
        int[] topicAt = topicsOf(arriving, first, cells);
        for (int cell = 0; cell < cells; cell++) {
            if (first[cell] < first[cell + 1]) {
                dealTo(open[cell], arriving, topicAt, first[cell], first[cell + 1]);
            }
        }
    }

    private int[] topicsOf(int[] arriving, int[] first, int cells) {
        int[] topicAt = new int[arriving.length];
        for (int cell = 0; cell < cells; cell++) {
            int topic = -1;
            for (int index = first[cell]; index < first[cell + 1]; index++) {
                if (topic < 0 || arriving[index] >= group.first[topic + 1]) {
                    topic = topicOf(arriving[index]);
                }
                topicAt[index] = topic;
            }
        }
        return topicAt;
    }

    /** Returns, by cell, the members that get something, those with most first. */
    private int[][] openMembers(int cells) {
        int[] count = new int[cells];
        for (int member = 0; member < missing.length; member++) {
            if (missing[member] > 0) {
                count[cellOf(member)]++;
            }
        }
        long[][] keys = new long[cells][];
        for (int member = 0; member < missing.length; member++) {
            if (missing[member] > 0) {
                int cell = cellOf(member);
                if (keys[cell] == null) {
                    keys[cell] = new long[count[cell]];
                }
                keys[cell][--count[cell]] = (long) (Integer.MAX_VALUE - missing[member]) << 32 | member;
            }
        }
        int[][] open = new int[cells][];
        for (int cell = 0; cell < cells; cell++) {
            if (keys[cell] != null) {
                Arrays.sort(keys[cell]);
                open[cell] = Arrays.stream(keys[cell]).mapToInt(key -> (int) key).toArray();
            }
        }
        return open;
    }

    private int cellOf(int member) {
        return group.subscriptionOf[member] * group.columns + group.columnOf[member];
    }

    private void dealTo(int[] open, int[] arriving, int[] topicAt, int begin, int end) {
        boolean haveSome = false;
        for (int member : open) {
            haveSome |= claims.begin[member] < claims.begin[member + 1];
        }
        long comparisons = (long) open.length * (end - begin);
        if (haveSome && open.length > 1 && comparisons + (long) open.length * group.topics.length <= MAX_COMPARISONS) {
            steps.take(comparisons);
            dealByTopic(open, arriving, topicAt, begin, end);
            return;
        }
        int round = open.length;
        int place = 0;
        for (int index = begin; index < end; index++) {
            if (place == round) {
                place = 0;
                while (missing[open[round - 1]] == 0) {
                    round--; // members with fewer stand at the end
                }
            }
            int member = open[place++];
            missing[member]--;
            plan[arriving[index]] = member;
        }
    }

    /** Gives each partition to the member with the fewest of its topic. */
    private void dealByTopic(int[] open, int[] arriving, int[] topicAt, int begin, int end) {
        int topics = group.topics.length;
        int[] have = new int[open.length * topics];
        for (int place = 0; place < open.length; place++) {
            int topic = -1;
            for (int index = claims.begin[open[place]]; index < claims.begin[open[place] + 1]; index++) {
                int partition = claims.partition[index];
                if (plan[partition] == open[place]) {
                    if (topic < 0 || partition >= group.first[topic + 1]) {
                        topic = topicOf(partition);
                    }
                    have[place * topics + topic]++;
                }
            }
        }
        for (int index = begin; index < end; index++) {
            int best = -1;
            for (int place = 0; place < open.length; place++) {
                if (missing[open[place]] > 0) {
                    int difference = best < 0
                            ? -1
                            : have[place * topics + topicAt[index]] - have[best * topics + topicAt[index]];
                    if (difference < 0 || difference == 0 && missing[open[place]] > missing[open[best]]) {
                        best = place;
                    }
                }
            }
            have[best * topics + topicAt[index]]++;
            missing[open[best]]--;
            plan[arriving[index]] = open[best];
        }
    }

    /** Gives the ways out of a node their turns in proportion to what they carry. */
    private static final class Turns {
        private final int[] share;
        private final int[] first;
        private final int[] given;
        private final int[] total;
        private final int[] turn;
        private long seen;

        Turns(int[] share, int nodes, int ways) {
            this(share, firsts(nodes, ways));
        }

        Turns(int[] share, int[] first) {
            this.share = share;
            this.first = first;
            given = new int[share.length];
            total = new int[first.length - 1];
            turn = new int[first.length - 1];
            for (int node = 0; node < total.length; node++) {
                for (int way = first[node]; way < first[node + 1]; way++) {
                    total[node] += share[way];
                }
            }
        }

        private static int[] firsts(int nodes, int ways) {
            int[] first = new int[nodes + 1];
            Arrays.setAll(first, node -> node * ways);
            return first;
        }

        /** Returns the way that is most behind its share. */
        int next(int node) {
            long position = ++turn[node];
            int best = -1;
            long most = Long.MIN_VALUE;
            for (int way = first[node]; way < first[node + 1]; way++) {
                if (given[way] < share[way]) {
                    long behind = share[way] * position - (long) given[way] * total[node];
                    if (behind > most) {
                        most = behind;
                        best = way;
                    }
                }
            }
            seen += first[node + 1] - first[node];
            given[best]++;
            return best;
        }
    }
}
