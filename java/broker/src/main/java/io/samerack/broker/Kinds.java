package io.samerack.broker;

import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;

/** Sorts topics into kinds: topics with equal subscribers, whose partitions are interchangeable but for their racks. */
final class Kinds {
    /** By topic: its kind. */
    final int[] of;
    /** By kind: the subscriptions that contain its topics. */
    final int[][] subscriptions;
    /** By kind: its partitions that may be assigned. */
    final int[] supply;
    /** By subscription: its members. */
    final int[] members;

    private Kinds(int[] of, int[][] subscriptions, int[] supply, int[] members) {
        this.of = of;
        this.subscriptions = subscriptions;
        this.supply = supply;
        this.members = members;
    }

    static Kinds of(Group group, Steps steps) {
        int topics = group.topics.length;
        int[][] wantedBy = wantedBy(group, steps);
        int[] of = new int[topics];
        int[][] subscriptions = new int[topics][];
        int kinds = 0;
        Map<IntRow, Integer> known = new HashMap<>();
        for (int topic = 0; topic < topics; topic++) {
            Integer kind = known.putIfAbsent(new IntRow(wantedBy[topic]), kinds);
            if (kind == null) {
                subscriptions[kinds] = wantedBy[topic];
                kind = kinds++;
            }
            of[topic] = kind;
        }
        int[] supply = new int[kinds];
        for (int topic = 0; topic < topics; topic++) {
            int count = 0;
            for (int partition = group.first[topic]; partition < group.first[topic + 1]; partition++) {
                count += group.row[partition] >= 0 ? 1 : 0;
            }
            supply[of[topic]] += count;
        }
        int[] members = new int[group.subscriptions.length];
        for (int subscription : group.subscriptionOf) {
            members[subscription]++;
        }
        return new Kinds(of, Arrays.copyOf(subscriptions, kinds), supply, members);
    }

    private static int[][] wantedBy(Group group, Steps steps) {
        int[] count = new int[group.topics.length];
        for (int[] wanted : group.subscriptions) {
            steps.take(wanted.length);
            for (int topic : wanted) {
                count[topic]++;
            }
        }
        int[][] wantedBy = new int[count.length][];
        for (int topic = 0; topic < count.length; topic++) {
            wantedBy[topic] = new int[count[topic]];
            count[topic] = 0;
        }
        for (int subscription = 0; subscription < group.subscriptions.length; subscription++) {
            for (int topic : group.subscriptions[subscription]) {
                wantedBy[topic][count[topic]++] = subscription;
            }
        }
        return wantedBy;
    }
}
