package io.samerack.broker;

import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;

/**
 * Computes the plan in which each league of {@link Leagues} is even: each topic, or all co-partitioned topics together, whose
 * bundles go to one member each, as joins between topics need.
 *
 * <p>Exact and lexicographic: each league is even; loads, or with bundles the additional ones, are as even as that and
 * subscriptions allow; then the reads across racks and the moves, in the order of the settings. A claimed bundle has a
 * node of its own, and every member has a place in each of its leagues, so that large groups take more work than without
 * bundles.
 */
final class BundledPlan {
    /** Of three arcs; an arc takes as much memory as fifty steps take time. */
    private static final long STEPS_OF_SEAT = 150;

    private final Group group;
    private final Kinds kinds;
    private final Leagues leagues;
    private final Extras extras;
    private final FlowNetwork network;
    private final Steps steps;
    private final int columns;
    private final int[] subscriberIndex;
    /** By bundle: its owner. */
    private final int[] ownerOf;
    private final int[] poolOf;
    private int[] firstSeat;
    private int[] memberOfSeat;

    private BundledPlan(Group group, boolean together, Steps steps) {
        this.group = group;
        this.steps = steps;
        columns = group.columns;
        kinds = Kinds.of(group, steps);
        leagues = new Leagues(group, kinds, together);
        extras = new Extras(kinds, leagues, !together, steps);
        network = new FlowNetwork(steps);
        ownerOf = new int[leagues.number.length];
        poolOf = new int[ownerOf.length];
        subscriberIndex = new int[group.subscriptions.length];
    }

    /**
     * Returns the owner of each partition.
     *
     * @param together whether co-partitioned topics are kept together
     * @throws Steps.WorkBoundException it would take too long
     */
    static int[] of(Group group, boolean together, Settings.Order order, Steps steps) {
        BundledPlan bundled = new BundledPlan(group, together, steps);
        bundled.solve(order);
        return bundled.plan();
    }

    private int[] plan() {
        int[] plan = new int[group.partitions()];
        Arrays.fill(plan, Group.NOBODY);
        for (int league = 0; league < leagues.size.length; league++) {
            for (int bundle = leagues.firstBundle[league]; bundle < leagues.firstBundle[league + 1]; bundle++) {
                for (int topic : leagues.topics[league]) {
                    int partition = group.first[topic] + leagues.number[bundle];
                    if (group.row[partition] >= 0) {
                        plan[partition] = ownerOf[bundle];
                    }
                }
            }
        }
        return plan;
    }

    private void solve(Settings.Order order) {
        int count = leagues.size.length;
        boolean movesFirst = order == Settings.Order.BALANCE_MOVES_RACKS;
        long crossing = movesFirst ? 1 : group.partitions() + 1L;
        long move = movesFirst ? group.partitions() + 1L : 1;
        int source = network.node();
        int hub = network.nodes(count * columns);
        int memberNode = network.nodes(group.members.length);
        int more = network.node();
        int sink = network.node();
        network.arc(more, sink, extras.more, 0);
        for (int member = 0; member < group.members.length; member++) {
            int subscription = group.subscriptionOf[member];
            network.arc(memberNode + member, sink, extras.floor[subscription], 0);
            if (extras.stretches[subscription]) {
                network.arc(memberNode + member, more, 1, 0);
            }
        }
        int[] seatArc = seats(hub, memberNode, sink);
        int seatNode = sink + 1;
        int bundles = ownerOf.length;
        int[] poolArcs = new int[bundles * columns];
        int[] poolNode = new int[bundles];
        int[] unclaimed = new int[bundles];
        int[][] claimArcs = new int[bundles][];
        int[][] claimants = new int[bundles][];
        int pools = 0;
        for (int league = 0; league < count; league++) {
            int most = leagues.topics[league].length;
            Map<IntRow, Integer> known = new HashMap<>();
            int[] seatOf = seatOf(league);
            for (int bundle = leagues.firstBundle[league]; bundle < leagues.firstBundle[league + 1]; bundle++) {
                steps.take((long) most * columns);
                int[] price = prices(league, bundle);
                Integer pool = known.putIfAbsent(new IntRow(price), pools);
                if (pool == null) {
                    pool = pools++;
                    poolNode[pool] = network.node();
                    for (int column = 0; column < columns; column++) {
                        poolArcs[pool * columns + column] = network.arc(
                                poolNode[pool],
                                hub + league * columns + column,
                                bundles,
                                price[column] * crossing + most * move);
                    }
                }
                poolOf[bundle] = pool;
                int[] owners = owners(league, bundle);
                claimants[bundle] = owners;
                if (owners.length == 0) {
                    unclaimed[pool]++;
                    continue;
                }
                int node = network.node();
                network.arc(source, node, 1, 0);
                network.arc(node, poolNode[pool], 1, 0);
                claimArcs[bundle] = new int[owners.length];
                for (int index = 0, kept = 1; index < owners.length; index++, kept++) {
                    if (index + 1 < owners.length && owners[index + 1] == owners[index]) {
                        claimArcs[bundle][index] = -1; // the last of equal ones counts them all
                        continue;
                    }
                    claimArcs[bundle][index] = network.arc(
                            node,
                            seatNode + seatOf[owners[index]],
                            1,
                            price[group.columnOf[owners[index]]] * crossing + (most - kept) * move);
                    kept = 0;
                }
            }
        }
        for (int pool = 0; pool < pools; pool++) {
            network.arc(source, poolNode[pool], unclaimed[pool], 0);
        }
        if (network.send(source, sink) != bundles) {
            throw new IllegalStateException("the flow leaves bundles without a member");
        }
        read(claimArcs, claimants, poolArcs, seatArc);
    }

    /** Adds a place for every league and member, and returns the arcs from the hubs to them. */
    private int[] seats(int hub, int memberNode, int sink) {
        int count = leagues.size.length;
        firstSeat = new int[count + 1];
        for (int league = 0; league < count; league++) {
            firstSeat[league + 1] = firstSeat[league] + leagues.size[league];
        }
        steps.take(STEPS_OF_SEAT * firstSeat[count] + (long) count * group.members.length);
        network.nodes(firstSeat[count]);
        memberOfSeat = new int[firstSeat[count]];
        int[] seatArc = new int[firstSeat[count]];
        for (int league = 0; league < count; league++) {
            index(league);
            int seat = firstSeat[league];
            for (int member = 0; member < group.members.length; member++) {
                int index = subscriberIndex[group.subscriptionOf[member]];
                if (index < 0) {
                    continue;
                }
                Extras.Way way = extras.way[league][index];
                int node = sink + 1 + seat;
                memberOfSeat[seat] = member;
                network.arc(node, sink, leagues.floor[league] + (way == Extras.Way.ALL ? 1 : 0), 0);
                if (way == Extras.Way.SOME) {
                    network.arc(node, memberNode + member, 1, 0);
                }
                seatArc[seat++] = network.arc(
                        hub + league * columns + group.columnOf[member], node, leagues.floor[league] + 1, 0);
            }
        }
        return seatArc;
    }

    private void index(int league) {
        Arrays.fill(subscriberIndex, -1);
        int[] wanting = kinds.subscriptions[leagues.kind[league]];
        for (int index = 0; index < wanting.length; index++) {
            subscriberIndex[wanting[index]] = index;
        }
    }

    private int[] seatOf(int league) {
        int[] seatOf = new int[group.members.length];
        for (int seat = firstSeat[league]; seat < firstSeat[league + 1]; seat++) {
            seatOf[memberOfSeat[seat]] = seat;
        }
        return seatOf;
    }

    private int[] prices(int league, int bundle) {
        int[] price = new int[columns];
        for (int topic : leagues.topics[league]) {
            int row = group.row[group.first[topic] + leagues.number[bundle]];
            for (int column = 0; row >= 0 && column < columns; column++) {
                price[column] += group.near[row][column] ? 0 : 1;
            }
        }
        return price;
    }

    /** Returns the owners of a bundle's partitions, ascending. */
    private int[] owners(int league, int bundle) {
        int[] owners = new int[leagues.topics[league].length];
        int count = 0;
        for (int topic : leagues.topics[league]) {
            int owner = group.owner[group.first[topic] + leagues.number[bundle]];
            if (owner >= 0) {
                owners[count++] = owner;
            }
        }
        owners = Arrays.copyOf(owners, count);
        Arrays.sort(owners);
        return owners;
    }

    private void read(int[][] claimArcs, int[][] claimants, int[] poolArcs, int[] seatArc) {
        Arrays.fill(ownerOf, Group.NOBODY);
        for (int bundle = 0; bundle < ownerOf.length; bundle++) {
            for (int index = 0; index < claimants[bundle].length; index++) {
                int arc = claimArcs[bundle][index];
                if (arc >= 0 && network.flow(arc) > 0) {
                    ownerOf[bundle] = claimants[bundle][index];
                }
            }
        }
        int[] left = new int[poolArcs.length];
        for (int bundle = 0; bundle < ownerOf.length; bundle++) {
            for (int column = 0; column < columns; column++) {
                int way = poolOf[bundle] * columns + column;
                left[way] = network.flow(poolArcs[way]);
            }
        }
        int[] missing = new int[seatArc.length];
        for (int seat = 0; seat < missing.length; seat++) {
            missing[seat] = network.flow(seatArc[seat]);
        }
        for (int league = 0; league < leagues.size.length; league++) {
            int[] next = new int[columns];
            Arrays.fill(next, firstSeat[league]);
            for (int bundle = leagues.firstBundle[league]; bundle < leagues.firstBundle[league + 1]; bundle++) {
                if (ownerOf[bundle] == Group.NOBODY) {
                    int column = 0;
                    while (left[poolOf[bundle] * columns + column] == 0) {
                        column++;
                    }
                    left[poolOf[bundle] * columns + column]--;
                    while (missing[next[column]] == 0 || group.columnOf[memberOfSeat[next[column]]] != column) {
                        next[column]++;
                    }
                    missing[next[column]]--;
                    ownerOf[bundle] = memberOfSeat[next[column]];
                }
            }
        }
    }
}
