package io.samerack.broker;

import java.util.Arrays;

/**
 * Rules for the most partitions that members may have, such as {@code *-canary-*:2}, by group instance id: the interface
 * of assignors gives no other name of a member that an operator chooses.
 */
final class Limits {
    /** The limit of a member that no rule fits. */
    static final int NONE = Integer.MAX_VALUE;
    /** No rules. */
    static final Limits OF_NOBODY = new Limits(new String[0]);

    private final String[] patterns;
    private final int[] limits;

    /**
     * Reads rules.
     *
     * @throws IllegalArgumentException a rule is not PATTERN:LIMIT
     */
    Limits(String... rules) {
        patterns = new String[rules.length];
        limits = new int[rules.length];
        for (int index = 0; index < rules.length; index++) {
            String rule = rules[index].trim();
            if (!rule.matches("[^:\\s]+:\\d{1,7}")) {
                throw new IllegalArgumentException(
                        "\"" + rule + "\" is not PATTERN:LIMIT, such as *-canary-*:2; commas separate rules");
            }
            int colon = rule.indexOf(':');
            patterns[index] = rule.substring(0, colon);
            limits[index] = Integer.parseInt(rule.substring(colon + 1));
        }
    }

    /** Returns the limit of the first rule that fits a member's instance id, or {@link #NONE}. */
    int of(String instance) {
        for (int index = 0; index < patterns.length; index++) {
            if (fits(patterns[index], instance)) {
                return limits[index];
            }
        }
        return NONE;
    }

    /** Matches a shell pattern; a regular expression with many stars could keep the coordinator busy for minutes. */
    private static boolean fits(String pattern, String text) {
        int at = 0;
        int star = -1; // the last one so far
        int skipped = 0; // where the text goes on after what that star stands for
        for (int index = 0; index < text.length(); ) {
            boolean more = at < pattern.length();
            if (more && pattern.charAt(at) == '*') {
                star = at++;
                skipped = index;
            } else if (more && (pattern.charAt(at) == '?' || pattern.charAt(at) == text.charAt(index))) {
                at++;
                index++;
            } else if (star >= 0) {
                at = star + 1;
                index = ++skipped;
            } else {
                return false;
            }
        }
        return pattern.substring(at).chars().allMatch(rest -> rest == '*');
    }

    /**
     * Raises a group's limits by the same number, the least with which its members together may have all partitions.
     *
     * <p>Where a flow leaves partitions over, a minimum cut has kinds of partitions with too few places: these partitions
     * need as many more places, so the limits are raised by that many for each of the members in question, and so on.
     */
    static void makeRoom(Group group, Steps steps) {
        if (Arrays.stream(group.limitOf).allMatch(limit -> limit == NONE)) {
            return;
        }
        Kinds kinds = Kinds.of(group, steps);
        int units = Arrays.stream(kinds.supply).sum();
        FlowNetwork network = new FlowNetwork(steps);
        int kindNode = network.nodes(kinds.supply.length);
        int node = network.nodes(kinds.members.length);
        int source = network.node();
        int sink = network.node();
        for (int kind = 0; kind < kinds.supply.length; kind++) {
            network.arc(source, kindNode + kind, kinds.supply[kind], 0);
            steps.take(kinds.subscriptions[kind].length);
            for (int subscription : kinds.subscriptions[kind]) {
                network.arc(kindNode + kind, node + subscription, kinds.supply[kind], 0);
            }
        }
        int[] places = new int[kinds.members.length];
        Arrays.setAll(places, subscription -> network.arc(node + subscription, sink, 0, 0));
        for (int sent = 0, more = 0; ; ) {
            for (int subscription = 0; subscription < places.length; subscription++) {
                group.limitOf[subscription] += group.limitOf[subscription] == NONE ? 0 : more;
                long room = Math.min((long) group.limitOf[subscription] * kinds.members[subscription], units);
                int arc = places[subscription];
                network.widen(arc, (int) room - network.flow(arc) - network.left(arc));
            }
            sent += network.send(source, sink);
            if (sent == units) {
                return;
            }
            boolean[] full = network.reachable(source);
            int members = 0;
            for (int subscription = 0; subscription < places.length; subscription++) {
                members += full[node + subscription] ? kinds.members[subscription] : 0;
            }
            more = (units - sent + members - 1) / members;
        }
    }
}
