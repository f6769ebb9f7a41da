package io.samerack.broker;

import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.GroupAssignment;
import org.apache.kafka.coordinator.group.api.assignor.MemberAssignment;

/** What a plan costs, counted in a simple way of its own, and what is wrong with it. */
final class Score {
    long squares;
    long crossing;
    long moves;
    /** Sum of the squares of each member's partitions of each topic. */
    long topics;

    static Score of(ProofGroup group, GroupAssignment plan) {
        Score score = new Score();
        Map<Uuid, Map<Integer, String>> owners = ownersOf(group);
        Map<Uuid, Set<Integer>> given = new HashMap<>();
        plan.members().forEach((id, assignment) -> {
            ProofGroup.Member member = group.members.get(id);
            if (member == null) {
                throw new AssertionError("no member " + id);
            }
            long load = 0;
            for (Map.Entry<Uuid, Set<Integer>> entry : assignment.partitions().entrySet()) {
                Uuid topic = entry.getKey();
                if (!member.topics.contains(topic)) {
                    throw new AssertionError(id + " does not subscribe to " + topic);
                }
                load += entry.getValue().size();
                score.topics += (long) entry.getValue().size() * entry.getValue().size();
                for (int number : entry.getValue()) {
                    if (!given.computeIfAbsent(topic, key -> new HashSet<>()).add(number)) {
                        throw new AssertionError(topic + "-" + number + " is given twice");
                    }
                    if (number >= group.numPartitions(topic) || !group.isPartitionAssignable(topic, number)) {
                        throw new AssertionError(topic + "-" + number + " may not be given");
                    }
                    String rack = member.rack;
                    if (rack != null && !rack.isEmpty() && !group.racksForPartition(topic, number).contains(rack)) {
                        score.crossing++;
                    }
                    String before = owners.getOrDefault(topic, Map.of()).get(number);
                    if (before != null && !before.equals(id)) {
                        score.moves++;
                    }
                }
            }
            score.squares += load * load;
        });
        checkComplete(group, given);
        return score;
    }

    private static Map<Uuid, Map<Integer, String>> ownersOf(ProofGroup group) {
        Map<Uuid, Map<Integer, String>> owners = new HashMap<>();
        group.members.forEach((id, member) -> member.owned.forEach((topic, numbers) -> {
            if (member.topics.contains(topic) && group.topics.containsKey(topic)) {
                for (int number : numbers) {
                    if (number < group.numPartitions(topic) && group.isPartitionAssignable(topic, number)) {
                        owners.computeIfAbsent(topic, key -> new HashMap<>()).put(number, id);
                    }
                }
            }
        }));
        return owners;
    }

    private static void checkComplete(ProofGroup group, Map<Uuid, Set<Integer>> given) {
        Set<Uuid> wanted = new HashSet<>();
        group.members.values().forEach(member -> wanted.addAll(member.topics));
        for (Uuid topic : wanted) {
            int withheld = 0;
            for (int number = 0; number < group.numPartitions(topic); number++) {
                withheld += group.isPartitionAssignable(topic, number) ? 0 : 1;
            }
            int count = given.getOrDefault(topic, Set.of()).size();
            if (count != Math.max(0, group.numPartitions(topic)) - withheld) {
                throw new AssertionError("topic " + topic + " has " + count + " partitions given");
            }
        }
    }

    /** The objectives, the most important first. */
    long[] inOrder(Settings.Order order) {
        switch (order) {
            case BALANCE_MOVES_RACKS:
                return new long[] {squares, moves, crossing};
            case RACKS_BALANCE_MOVES:
                return new long[] {crossing, squares, moves};
            case SPREAD_BALANCE_RACKS_MOVES:
                return new long[] {topics, squares, crossing, moves};
            default:
                return new long[] {squares, crossing, moves};
        }
    }

    static int compare(long[] one, long[] other) {
        return Arrays.compare(one, other);
    }

    static int largest(GroupAssignment plan, String id) {
        MemberAssignment given = plan.members().get(id);
        return given == null ? 0 : given.partitions().values().stream().mapToInt(Set::size).sum();
    }

    @Override
    public String toString() {
        return "squares=" + squares + " crossing=" + crossing + " moves=" + moves + " topics=" + topics;
    }
}
