package io.samerack.broker;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Random;
import java.util.Set;
import org.apache.kafka.common.Uuid;

/** Random groups: members with and without racks, equal and other subscriptions, static members, owners of all sorts. */
final class RandomGroups {
    private RandomGroups() {}

    /**
     * Makes a group.
     *
     * @param maxMembers most members, of which there is at least one
     * @param maxPartitions about the most partitions of all topics together
     */
    static ProofGroup next(Random dice, int maxMembers, int maxPartitions) {
        ProofGroup group = new ProofGroup();
        int racks = 1 + dice.nextInt(4);
        int topics = 1 + dice.nextInt(4);
        int left = 1 + dice.nextInt(maxPartitions);
        for (int topic = 0; topic < topics; topic++) {
            int count = topic == topics - 1 ? left : dice.nextInt(left + 1);
            left -= count;
            if (dice.nextInt(8) > 0 || count > 0) {
                group.topics.put(ProofGroup.topic(topic), replicas(dice, racks, count));
            }
        }
        boolean alike = dice.nextInt(2) == 0;
        int rackless = dice.nextInt(4) == 0 ? 1 + dice.nextInt(3) : 0;
        int members = 1 + dice.nextInt(maxMembers);
        for (int index = 0; index < members; index++) {
            ProofGroup.Member member = new ProofGroup.Member();
            member.rack = dice.nextInt(3) < rackless ? null : "rack" + dice.nextInt(racks + dice.nextInt(2));
            member.instance = dice.nextInt(5) == 0 ? "static" + index : null;
            for (int topic = 0; topic < topics; topic++) {
                if ((alike || dice.nextInt(5) < 3) && group.topics.containsKey(ProofGroup.topic(topic))) {
                    member.topics.add(ProofGroup.topic(topic));
                }
            }
            group.members.put("member" + dice.nextInt(1000) + "-" + index, member);
        }
        if (dice.nextInt(5) > 0) {
            own(dice, group);
        }
        if (dice.nextInt(8) == 0) {
            withhold(dice, group);
        }
        return group;
    }

    /** Makes some members static, and returns rules that limit some of them. */
    static String limit(Random dice, ProofGroup group) {
        int index = 0;
        for (ProofGroup.Member member : group.members.values()) {
            if (dice.nextInt(4) > 0) {
                member.instance = (dice.nextBoolean() ? "canary-" : "big") + index++;
            }
        }
        String[] patterns = {"canary-*", "*-?", "big?", "*", "canary-1", "s*c?", "*b*1*"};
        StringBuilder rules = new StringBuilder("nobody:0");
        for (int rule = dice.nextInt(3); rule >= 0; rule--) {
            rules.append(',').append(patterns[dice.nextInt(patterns.length)]).append(':').append(dice.nextInt(4));
        }
        return rules.toString();
    }

    static List<Set<String>> replicas(Random dice, int racks, int count) {
        int replication = 1 + dice.nextInt(3);
        List<Set<String>> replicas = new ArrayList<>();
        for (int number = 0; number < count; number++) {
            Set<String> of = new HashSet<>();
            for (int replica = 0; replica < replication; replica++) {
                if (dice.nextInt(12) > 0) {
                    of.add("rack" + dice.nextInt(racks));
                }
            }
            replicas.add(of);
        }
        return replicas;
    }

    /** Owners: some partitions have none, some members none, and some have topics that they no longer subscribe to. */
    private static void own(Random dice, ProofGroup group) {
        List<ProofGroup.Member> members = new ArrayList<>(group.members.values());
        int holders = 1 + dice.nextInt(members.size());
        boolean unsubscribed = dice.nextInt(6) == 0;
        int missing = dice.nextInt(3);
        group.topics.forEach((topic, partitions) -> {
            for (int number = 0; number < partitions.size() + (dice.nextInt(20) == 0 ? 1 : 0); number++) {
                ProofGroup.Member member = members.get(dice.nextInt(holders));
                if (dice.nextInt(6) >= missing && (unsubscribed || member.topics.contains(topic))) {
                    member.owned.computeIfAbsent(topic, key -> new HashSet<>()).add(number);
                }
            }
        });
    }

    private static void withhold(Random dice, ProofGroup group) {
        group.topics.forEach((topic, partitions) -> {
            for (int number = 0; number < partitions.size(); number++) {
                if (dice.nextInt(4) == 0) {
                    group.withheld.computeIfAbsent(topic, key -> new HashSet<>()).add(number);
                }
            }
        });
    }

    static Uuid anyTopic(Random dice, ProofGroup group) {
        List<Uuid> all = new ArrayList<>(group.topics.keySet());
        return all.get(dice.nextInt(all.size()));
    }
}
