package io.samerack.broker;

/**
 * Spreads the additional bundles of all leagues over members as evenly as subscriptions allow, a member getting at most
 * one of each league. Even are these bundles, or loads: then what members have anyway counts too. As in
 * {@link SkewedLoads}, node prices say what all such spreads share.
 */
final class Extras {
    /** What a league and a subscription have in common. */
    enum Way {
        /** No member of the subscription gets an additional bundle of the league. */
        NONE,
        /** Some may. */
        SOME,
        /** Each one does. */
        ALL
    }

    /** By league and index of the subscription in its kind. */
    final Way[][] way;
    /** By subscription: additional bundles of each member, without those of {@link Way#ALL}. */
    final int[] floor;
    /** By subscription: whether its members may have one more. */
    final boolean[] stretches;
    /** Members with one more. */
    final int more;

    /**
     * Spreads them.
     *
     * @param ofLoads whether the loads are to be even, instead of the additional bundles
     */
    Extras(Kinds kinds, Leagues leagues, boolean ofLoads, Steps steps) {
        int count = leagues.size.length;
        int subscriptions = kinds.members.length;
        FlowNetwork network = new FlowNetwork(steps);
        int source = network.node();
        int leagueNode = network.nodes(count);
        int node = network.nodes(subscriptions);
        int sink = network.node();
        int[][] arcs = new int[count][];
        int[] load = new int[subscriptions];
        int units = 0;
        for (int league = 0; league < count; league++) {
            int[] wanting = kinds.subscriptions[leagues.kind[league]];
            steps.take(wanting.length);
            units += leagues.extras[league];
            network.arc(source, leagueNode + league, leagues.extras[league], 0);
            arcs[league] = new int[wanting.length];
            for (int index = 0; index < wanting.length; index++) {
                arcs[league][index] = network.arc(
                        leagueNode + league, node + wanting[index], kinds.members[wanting[index]], 0);
                load[wanting[index]] += ofLoads ? leagues.floor[league] : 0;
            }
        }
        int[] level = new int[subscriptions];
        int[] arc = new int[subscriptions];
        for (int subscription = 0; subscription < subscriptions; subscription++) {
            arc[subscription] = network.arc(
                    node + subscription, sink, kinds.members[subscription], costOf(load[subscription]));
        }
        int sent = network.send(source, sink, () -> {
            steps.take(subscriptions);
            for (int subscription = 0; subscription < subscriptions; subscription++) {
                if (level[subscription] + 1 < count && network.isFull(arc[subscription])) {
                    level[subscription]++;
                    arc[subscription] = network.arc(
                            node + subscription,
                            sink,
                            kinds.members[subscription],
                            costOf(load[subscription] + level[subscription]));
                }
            }
        });
        if (sent != units) {
            throw new IllegalStateException("additional bundles are left over");
        }
        floor = new int[subscriptions];
        stretches = new boolean[subscriptions];
        int rest = units;
        for (int subscription = 0; subscription < subscriptions; subscription++) {
            long most = network.price(sink) - network.price(node + subscription);
            long full = Math.floorDiv(most, 2) - load[subscription];
            floor[subscription] = (int) Math.min(count, Math.max(0, full));
            stretches[subscription] = full >= 0 && most % 2 == 1 && full < count;
            rest -= floor[subscription] * kinds.members[subscription];
        }
        way = new Way[count][];
        for (int league = 0; league < count; league++) {
            int[] wanting = kinds.subscriptions[leagues.kind[league]];
            way[league] = new Way[wanting.length];
            for (int index = 0; index < wanting.length; index++) {
                long reduced = network.price(leagueNode + league) - network.price(node + wanting[index]);
                boolean none = leagues.extras[league] == 0 || reduced > 0;
                way[league][index] = none ? Way.NONE : reduced < 0 ? Way.ALL : Way.SOME;
                if (way[league][index] == Way.ALL) {
                    floor[wanting[index]]--;
                }
            }
        }
        for (int subscription = 0; subscription < subscriptions; subscription++) {
            if (floor[subscription] < 0) { // every member has its one more already, from leagues that give one to each
                rest += floor[subscription] * kinds.members[subscription];
                floor[subscription] = 0;
                stretches[subscription] = false;
            }
        }
        more = rest;
    }

    /** How much the sum of squared loads grows with one more. */
    private static long costOf(int load) {
        return 2L * load + 1;
    }
}
