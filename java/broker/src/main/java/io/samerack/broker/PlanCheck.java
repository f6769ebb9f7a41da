package io.samerack.broker;

import java.util.Arrays;

/**
 * Checks a plan before it leaves the assignor: it must give what may be assigned, once, to members that subscribe and
 * have room for it.
 */
final class PlanCheck {
    private PlanCheck() {}

    /**
     * Returns what is wrong with a plan, or null.
     *
     * @param even whether members with equal subscriptions must have equal loads, or one more
     */
    static String faultOf(Group group, int[] plan, boolean even) {
        int[] load = new int[group.members.length];
        for (int topic = 0; topic < group.topics.length; topic++) {
            int checked = -1; // members come in runs, and those of one subscription need one check
            for (int partition = group.first[topic]; partition < group.first[topic + 1]; partition++) {
                int owner = plan[partition];
                if (owner == Group.NOBODY ? group.row[partition] >= 0 : group.row[partition] < 0) {
                    return "partition " + (partition - group.first[topic]) + " of topic " + group.topics[topic]
                            + (owner == Group.NOBODY ? " has no member" : " may not be assigned but is");
                }
                if (owner < 0) {
                    continue;
                }
                load[owner]++;
                int subscription = group.subscriptionOf[owner];
                if (subscription != checked) {
                    if (Arrays.binarySearch(group.subscriptions[subscription], topic) < 0) {
                        return "member " + group.members[owner] + " does not subscribe to topic " + group.topics[topic];
                    }
                    checked = subscription;
                }
            }
        }
        for (int member = 0; member < load.length; member++) {
            if (load[member] > group.limitOf[group.subscriptionOf[member]]) {
                return "member " + group.members[member] + " has more partitions than its limit";
            }
        }
        return even ? unevenness(group, load) : null;
    }

    private static String unevenness(Group group, int[] load) {
        int[] least = new int[group.subscriptions.length];
        Arrays.fill(least, Integer.MAX_VALUE);
        int[] most = new int[least.length];
        for (int member = 0; member < load.length; member++) {
            int subscription = group.subscriptionOf[member];
            least[subscription] = Math.min(least[subscription], load[member]);
            most[subscription] = Math.max(most[subscription], load[member]);
            if (most[subscription] - least[subscription] > 1) {
                return "members with equal subscriptions have loads that differ by more than one";
            }
        }
        return null;
    }
}
