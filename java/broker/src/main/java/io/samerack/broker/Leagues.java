package io.samerack.broker;

import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;

/**
 * Topics that are dealt evenly, each league on its own. A topic is a league, or topics with equal partition counts and equal
 * subscribers are one: partition i of all topics of a league is one bundle. A bundle without a partition that may be
 * assigned does not count.
 */
final class Leagues {
    /** By league: its topics. */
    final int[][] topics;
    /** By league: its kind. */
    final int[] kind;
    /** By league: index of its first bundle; one more entry. */
    final int[] firstBundle;
    /** By bundle: its partition number. */
    final int[] number;
    /** By league: bundles of each subscriber at least. */
    final int[] floor;
    /** By league: subscribers with one more. */
    final int[] extras;
    /** By league: its subscribers. */
    final int[] size;

    /**
     * Sorts topics into leagues.
     *
     * @param together whether co-partitioned topics are one league
     */
    Leagues(Group group, Kinds kinds, boolean together) {
        int[] count = new int[group.topics.length];
        int[] leagueOf = new int[group.topics.length];
        int leagues = 0;
        Map<IntRow, Integer> known = new HashMap<>();
        for (int topic = 0; topic < leagueOf.length; topic++) {
            int alike = together ? group.first[topic + 1] - group.first[topic] : topic;
            Integer league = known.putIfAbsent(new IntRow(new int[] {kinds.of[topic], alike}), leagues);
            leagueOf[topic] = league == null ? leagues++ : league;
            count[leagueOf[topic]]++;
        }
        topics = new int[leagues][];
        kind = new int[leagues];
        for (int league = 0; league < leagues; league++) {
            topics[league] = new int[count[league]];
            count[league] = 0;
        }
        for (int topic = 0; topic < leagueOf.length; topic++) {
            int league = leagueOf[topic];
            topics[league][count[league]++] = topic;
            kind[league] = kinds.of[topic];
        }
        firstBundle = new int[leagues + 1];
        floor = new int[leagues];
        extras = new int[leagues];
        size = new int[leagues];
        int[] numbers = new int[group.partitions()];
        int bundles = 0;
        for (int league = 0; league < leagues; league++) {
            int any = topics[league][0];
            for (int index = 0; index < group.first[any + 1] - group.first[any]; index++) {
                if (isAssignable(group, league, index)) {
                    numbers[bundles++] = index;
                }
            }
            firstBundle[league + 1] = bundles;
            for (int subscription : kinds.subscriptions[kind[league]]) {
                size[league] += kinds.members[subscription];
            }
            floor[league] = (bundles - firstBundle[league]) / size[league];
            extras[league] = (bundles - firstBundle[league]) % size[league];
        }
        number = Arrays.copyOf(numbers, bundles);
    }

    private boolean isAssignable(Group group, int league, int index) {
        for (int topic : topics[league]) {
            if (group.row[group.first[topic] + index] >= 0) {
                return true;
            }
        }
        return false;
    }
}
