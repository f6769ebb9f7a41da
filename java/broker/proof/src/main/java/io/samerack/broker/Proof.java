package io.samerack.broker;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.TreeMap;
import java.util.stream.IntStream;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.GroupAssignment;
import org.apache.kafka.coordinator.group.api.assignor.PartitionAssignor;

/**
 * Holds the assignor to what it promises, on random groups; ends with an exception and the group where it does not.
 *
 * <p>{@code Proof exhaustive|limits|kafka|histories COUNT [SEED]} prints one line of JSON with what was counted.
 */
public final class Proof {
    private Proof() {}

    /**
     * Runs one kind of proof.
     *
     * @param arguments the kind, the number of cases, and the first seed
     * @throws ReflectiveOperationException Kafka's own assignors are not there
     */
    public static void main(String[] arguments) throws ReflectiveOperationException {
        int count = Integer.parseInt(arguments[1]);
        int seed = arguments.length > 2 ? Integer.parseInt(arguments[2]) : 0;
        switch (arguments[0]) {
            case "exhaustive" -> exhaustive(count, seed, false);
            case "limits" -> exhaustive(count, seed, true);
            case "kafka" -> kafka(count, seed);
            case "histories" -> histories(count, seed);
            default -> throw new IllegalArgumentException(arguments[0]);
        }
    }

    static RackAwareAssignor assignor(Map<String, ?> properties) {
        RackAwareAssignor assignor = new RackAwareAssignor();
        assignor.configure(properties);
        return assignor;
    }

    private static void require(boolean holds, String what, int seed, Object... facts) {
        if (!holds) {
            StringBuilder text = new StringBuilder("seed " + seed + ": " + what);
            for (Object fact : facts) {
                text.append('\n').append(fact);
            }
            throw new AssertionError(text.toString());
        }
    }

    static long plainPlans() {
        AssignorMetrics metrics = AssignorMetrics.OF_BROKER;
        return metrics.getPlainPlansForError()
                + metrics.getPlainPlansForFailedCheck()
                + metrics.getPlainPlansForWorkBound();
    }

    private static void exhaustive(int count, int firstSeed, boolean limited) {
        for (int seed = firstSeed; seed < firstSeed + count; seed++) {
            Random dice = new Random(seed);
            boolean unlimitable = limited && Settings.of(BruteForce.settings(seed)).isSpreadFirst();
            Map<String, Object> properties =
                    new HashMap<>(BruteForce.settings(unlimitable ? seed / 10 * 10 + 7 : seed));
            ProofGroup group = RandomGroups.next(dice, 4, 6);
            GroupAssignment unlimited = group.assign(assignor(properties));
            String rules = limited ? RandomGroups.limit(dice, group) : "nobody:0";
            if (!Settings.of(properties).isSpreadFirst()) {
                properties.put(Settings.MAX_PARTITIONS, rules);
            }
            RackAwareAssignor assignor = assignor(properties);
            GroupAssignment plan = group.assign(assignor);
            Settings settings = Settings.of(properties);
            int[] limits = BruteForce.limits(group, rules);
            int at = 0;
            for (String id : group.members.keySet()) {
                require(Score.largest(plan, id) <= limits[at++], "a limit is not kept", seed, id, rules, group);
            }
            require(limited || partitions(plan).equals(partitions(unlimited)), "rules that fit nobody change a plan", seed);
            Settings.Order order = settings.maxSkew > 0 ? Settings.Order.RACKS_BALANCE_MOVES : settings.order;
            Score score = Score.of(group, plan);
            long[] reached = settings.keepCopartitioned
                    ? BundleSearch.cost(group, plan, order)
                    : score.inOrder(order);
            long[] best = BruteForce.best(group, settings, limits);
            require(
                    Score.compare(reached, best) == 0,
                    properties + ": the best is " + java.util.Arrays.toString(best) + ", reached " + java.util.Arrays.toString(reached),
                    seed, score, group, partitions(plan));
            settled(group, plan, assignor, dice, seed);
            if (limited) { // too large for every plan, but any limit that is not kept makes a plain plan
                ProofGroup larger = RandomGroups.next(dice, 12, 60);
                properties.put(Settings.MAX_PARTITIONS, RandomGroups.limit(dice, larger));
                RackAwareAssignor other = assignor(properties);
                GroupAssignment made = larger.assign(other);
                Score.of(larger, made);
                settled(larger, made, other, dice, seed);
            } else {
                spread(RandomGroups.next(dice, 12, 60), dice, seed);
            }
        }
        require(plainPlans() == 0, "plain plans", firstSeed);
        print(limited ? "limits" : "exhaustive", count, firstSeed, "");
    }

    /** Too large for every plan: each topic is even, and no plan that is so too is better by the other objectives. */
    private static void spread(ProofGroup group, Random dice, int seed) {
        RackAwareAssignor assignor = assignor(BruteForce.settings(BruteForce.SPREAD));
        long even = 0;
        for (Uuid topic : group.topics.keySet()) {
            long members = group.members.values().stream().filter(member -> member.topics.contains(topic)).count();
            long partitions = IntStream.range(0, group.numPartitions(topic))
                    .filter(number -> group.isPartitionAssignable(topic, number))
                    .count();
            if (members > 0) {
                long floor = partitions / members;
                even += members * floor * floor + partitions % members * (2 * floor + 1);
            }
        }
        GroupAssignment plan = group.assign(assignor);
        Score score = Score.of(group, plan);
        require(score.topics == even, "a topic is uneven", seed, score, even, group);
        Score other = Score.of(group, group.assign(assignor(Map.of())));
        Settings.Order order = Settings.Order.BALANCE_RACKS_MOVES;
        require(
                other.topics > even || Score.compare(other.inOrder(order), score.inOrder(order)) == 0,
                "a plan that spreads topics too is better", seed, score, other, group);
        settled(group, plan, assignor, dice, seed);
    }

    /** A permuted group gets the same plan, and the plan moves nothing when it is run on itself. */
    private static void settled(
            ProofGroup group, GroupAssignment plan, PartitionAssignor assignor, Random dice, int seed) {
        require(
                partitions(group.permuted(dice).assign(assignor)).equals(partitions(plan)),
                "another order of the input, another plan", seed, group);
        group.accept(plan);
        GroupAssignment again = group.assign(assignor);
        require(partitions(again).equals(partitions(plan)), "a second run moves", seed, group, partitions(again));
        for (String id : group.members.keySet()) {
            require(again.members().get(id) == group.members.get(id), "an unchanged assignment is made anew", seed, id);
        }
    }

    private static void kafka(int count, int firstSeed) throws ReflectiveOperationException {
        List<PartitionAssignor> theirs = List.of(
                new org.apache.kafka.coordinator.group.assignor.UniformAssignor(),
                new org.apache.kafka.coordinator.group.assignor.RangeAssignor());
        int[] better = new int[2];
        RackAwareAssignor ours = assignor(Map.of());
        RackAwareAssignor withoutRacks = assignor(Map.of(Settings.OBJECTIVES, "balance,moves,racks"));
        for (int seed = firstSeed; seed < firstSeed + count; seed++) {
            ProofGroup group = RandomGroups.next(new Random(seed), 12, 60);
            group.withheld.clear(); // range gives away what may not be assigned
            group.members.values().forEach(member -> member.owned.keySet().retainAll(member.topics));
            trim(group);
            Score mine = Score.of(group, group.assign(ours));
            Score stickiest = Score.of(group, group.assign(withoutRacks));
            for (int index = 0; index < theirs.size(); index++) {
                Score other = Score.of(group, group.assign(theirs.get(index)));
                String name = theirs.get(index).name();
                require(mine.squares <= other.squares, name + " is more even", seed, mine, other, group);
                if (mine.squares == other.squares) {
                    require(mine.crossing <= other.crossing, name + " crosses less", seed, mine, other, group);
                    require(stickiest.moves <= other.moves, name + " moves less", seed, stickiest, other, group);
                    if (mine.crossing == other.crossing) {
                        require(mine.moves <= other.moves, name + " moves less", seed, mine, other, group);
                    }
                }
                better[index] += mine.squares < other.squares || mine.crossing < other.crossing ? 1 : 0;
            }
        }
        print("kafka", count, firstSeed,
                ", \"better_than_uniform\": " + better[0] + ", \"better_than_range\": " + better[1]);
    }

    private static void trim(ProofGroup group) {
        group.members.values().forEach(member -> member.owned.forEach(
                (topic, numbers) -> numbers.removeIf(number -> number >= group.numPartitions(topic))));
    }

    /** One group through many changes: each plan is the best there is, and without a change nothing moves. */
    private static void histories(int count, int firstSeed) {
        long moves = 0;
        long rounds = 0;
        for (int seed = firstSeed; seed < firstSeed + count; seed++) {
            Random dice = new Random(seed);
            ProofGroup group = RandomGroups.next(dice, 10, 60);
            RackAwareAssignor assignor = assignor(Map.of());
            int racks = 4;
            for (int round = 0; round < 12; round++) {
                change(dice, group, racks, round);
                GroupAssignment plan = group.assign(assignor);
                Score score = Score.of(group, plan);
                fewestMoves(group, score, seed);
                moves += score.moves;
                rounds++;
                settled(group, plan, assignor, dice, seed);
            }
        }
        require(plainPlans() == 0, "plain plans", firstSeed);
        print("histories", count, firstSeed, ", \"rounds\": " + rounds + ", \"moves\": " + moves);
    }

    /** No move without need: if staying costs no more, nothing moves. */
    private static void fewestMoves(ProofGroup group, Score score, int seed) {
        long[] loads = group.members.values().stream()
                .mapToLong(member -> member.owned.values().stream().mapToInt(Set::size).sum())
                .toArray();
        try {
            Score staying = Score.of(group, Staying.plan(group));
            if (staying.squares == score.squares && staying.crossing == score.crossing) {
                require(score.moves == 0, "it moves without need", seed, score, group);
            }
        } catch (AssertionError incomplete) {
            // the owners are no plan
            require(loads.length > 0 || score.moves == 0, "it moves in an empty group", seed);
        }
    }

    private static void change(Random dice, ProofGroup group, int racks, int round) {
        List<String> ids = new ArrayList<>(group.members.keySet());
        ProofGroup.Member someone = group.members.get(ids.get(dice.nextInt(ids.size())));
        switch (dice.nextInt(6)) {
            case 0 -> { // a member joins
                ProofGroup.Member joining = new ProofGroup.Member();
                joining.rack = dice.nextInt(5) == 0 ? null : "rack" + dice.nextInt(racks);
                joining.topics = new HashSet<>(someone.topics);
                group.members.put("joined" + dice.nextInt(100) + "-" + round, joining);
            }
            case 1 -> { // one leaves
                if (ids.size() > 1) {
                    group.members.remove(ids.get(dice.nextInt(ids.size())));
                }
            }
            case 2 -> someone.rack = "rack" + dice.nextInt(racks); // one restarts elsewhere
            case 3 -> { // replicas move
                Uuid topic = RandomGroups.anyTopic(dice, group);
                int size = group.topics.get(topic).size();
                group.topics.put(topic, RandomGroups.replicas(dice, racks, size));
            }
            case 4 -> { // a topic grows
                Uuid topic = RandomGroups.anyTopic(dice, group);
                group.topics.get(topic).addAll(RandomGroups.replicas(dice, racks, 1 + dice.nextInt(4)));
            }
            default -> { // a subscription changes
                Uuid topic = RandomGroups.anyTopic(dice, group);
                if (!someone.topics.add(topic) && someone.topics.size() > 1) {
                    someone.topics = new HashSet<>(someone.topics);
                    someone.topics.remove(topic);
                }
            }
        }
    }

    static Map<String, Map<Uuid, Set<Integer>>> partitions(GroupAssignment plan) {
        Map<String, Map<Uuid, Set<Integer>>> partitions = new TreeMap<>();
        plan.members().forEach((id, assignment) -> partitions.put(id, assignment.partitions()));
        return partitions;
    }

    private static void print(String kind, int count, int seed, String more) {
        System.out.println("{\"kind\": \"" + kind + "\", \"cases\": " + count + ", \"first_seed\": " + seed + more + "}");
    }
}
