package io.samerack.broker;

/**
 * Spreads the additional bundles of all leagues over members as evenly as subscriptions allow, a member getting at most
 * one of each league. As in {@link SkewedLoads}, node prices say what all such spreads share.
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

    Extras(Kinds kinds, Leagues leagues, Steps steps) {
        int count = leagues.size.length;
        int subscriptions = kinds.members.length;
        FlowNetwork network = new FlowNetwork(steps);
        int source = network.node();
        int leagueNode = network.nodes(count);
        int node = network.nodes(subscriptions);
        int sink = network.node();
        int[][] arcs = new int[count][];
        int units = 0;
        for (int league = 0; league < count; league++) {
            int[] wanting = kinds.subscriptions[leagues.kind[league]];
            units += leagues.extras[league];
            network.arc(source, leagueNode + league, leagues.extras[league], 0);
            arcs[league] = new int[wanting.length];
            for (int index = 0; index < wanting.length; index++) {
                arcs[league][index] = network.arc(
                        leagueNode + league, node + wanting[index], kinds.members[wanting[index]], 0);
            }
        }
        int[] level = new int[subscriptions];
        int[] arc = new int[subscriptions];
        for (int subscription = 0; subscription < subscriptions; subscription++) {
            arc[subscription] = network.arc(node + subscription, sink, kinds.members[subscription], 1);
        }
        int sent = network.send(source, sink, () -> {
            steps.take(subscriptions);
            for (int subscription = 0; subscription < subscriptions; subscription++) {
                if (level[subscription] + 1 < count && network.isFull(arc[subscription])) {
                    level[subscription]++;
                    arc[subscription] = network.arc(
                            node + subscription, sink, kinds.members[subscription], 2L * level[subscription] + 1);
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
            floor[subscription] = (int) Math.min(count, Math.max(0, most / 2));
            stretches[subscription] = most > 0 && most % 2 == 1 && floor[subscription] < count;
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
}
