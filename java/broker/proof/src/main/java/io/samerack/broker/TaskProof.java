package io.samerack.broker;

import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import javax.management.ObjectName;
import org.apache.kafka.coordinator.group.api.streams.assignor.GroupAssignment;
import org.apache.kafka.coordinator.group.api.streams.assignor.TaskAssignor;

/**
 * Holds the assignor of Streams groups to what it promises; ends with an exception and the group where it does not.
 *
 * <p>{@code TaskProof exhaustive|threads COUNT}, {@code TaskProof guest|restart}, {@code TaskProof large TASKS THREADS}, and
 * {@code TaskProof another} on a class path without the coordinator; each prints one line of JSON with what was counted.
 */
public final class TaskProof {
    private static final int[][] COSTS = {{10, 1}, {10, 1}, {1, 10}, {1, 1}, {1, 0}};

    private static int held;

    private TaskProof() {}

    /**
     * Runs one kind of proof.
     *
     * @param arguments the kind, and its numbers
     * @throws Exception a check failed
     */
    public static void main(String[] arguments) throws Exception {
        System.setProperty("org.slf4j.simpleLogger.log.org.apache.kafka", "error"); // sticky warns of standbys without a place
        switch (arguments[0]) {
            case "exhaustive" -> exhaustive(Integer.parseInt(arguments[1]));
            case "threads" -> threads(Integer.parseInt(arguments[1]));
            case "guest" -> guest();
            case "restart" -> restart();
            case "large" -> large(Integer.parseInt(arguments[1]), Integer.parseInt(arguments[2]));
            case "another" -> another();
            default -> throw new IllegalArgumentException(arguments[0]);
        }
    }

    private static RackAwareTaskAssignor assignor(int... costs) {
        RackAwareTaskAssignor assignor = new RackAwareTaskAssignor("proof", costs[0], costs[1]);
        assignor.configure(Map.of());
        return assignor;
    }

    private static RackAwareTaskAssignor assignor(Map<String, ?> properties) {
        RackAwareTaskAssignor assignor = new RackAwareTaskAssignor();
        assignor.configure(properties);
        return assignor;
    }

    private static void require(boolean holds, Object... facts) {
        held++;
        if (!holds) {
            StringBuilder text = new StringBuilder();
            for (Object fact : facts) {
                text.append(fact).append('\n');
            }
            throw new AssertionError(text.toString());
        }
    }

    private static long metric(String name) throws Exception {
        return (long) ManagementFactory.getPlatformMBeanServer().getAttribute(new ObjectName(TaskAssignorMetrics.NAME), name);
    }

    private static GroupAssignment plan(ProofTasks group, TaskAssignor assignor) {
        return assignor.assign(group, ProofTopology.of(group));
    }

    /** The best by every step's objectives, whatever the order of the members; a second run moves nothing. */
    private static void exhaustive(int count) throws Exception {
        long ours = 0;
        long stickys = 0;
        long unknown = 0;
        for (int seed = 0; seed < count; seed++) {
            Random dice = new Random(seed);
            int[] costs = COSTS[seed % COSTS.length];
            ProofTasks group = ProofTasks.next(dice, 4, 6);
            RackAwareTaskAssignor assignor = assignor(costs);
            long before = metric("PlainPlansForUnknownReplicaRacks");
            GroupAssignment plan = plan(group, assignor);
            if (metric("PlainPlansForUnknownReplicaRacks") > before) {
                unknown++;
                continue;
            }
            TaskSearch search = new TaskSearch(group, costs[0], costs[1]);
            String worse = search.worse(plan);
            require(worse == null, "seed " + seed, worse, group, plan);
            ours += search.crossing(plan);
            stickys += search.crossing(plan(group, new org.apache.kafka.coordinator.group.streams.assignor.StickyTaskAssignor()));
            settled(group, plan, assignor, dice, seed);
            ProofTasks larger = ProofTasks.next(dice, 20, 120);
            settled(larger, plan(larger, assignor), assignor, dice, seed);
        }
        require(metric("PlainPlansForError") + metric("PlainPlansForFailedCheck") + metric("PlainPlansForWorkBound") == 0);
        System.out.println("{\"cases\": " + count + ", \"without_racks\": " + unknown + ", \"crossing\": " + ours
                + ", \"crossing_of_sticky\": " + stickys + "}");
    }

    private static void settled(
            ProofTasks group, GroupAssignment plan, TaskAssignor assignor, Random dice, int seed) throws Exception {
        long plain = metric("PlainPlansForUnknownReplicaRacks");
        GroupAssignment permuted = plan(group.permuted(dice), assignor);
        if (metric("PlainPlansForUnknownReplicaRacks") > plain) {
            return; // sticky's
        }
        require(permuted.equals(plan), "seed " + seed, "another order of the members, another plan", group, plan, permuted);
        group.accept(plan);
        GroupAssignment again = plan(group, assignor);
        require(again.equals(plan), "seed " + seed, "a second run moves", group, plan, again);
    }

    /** Many groups on eight threads get the plans that they get alone (KIP-1357 asks for it). */
    private static void threads(int count) throws Exception {
        RackAwareTaskAssignor assignor = assignor(10, 1);
        List<ProofTasks> groups = new ArrayList<>();
        List<GroupAssignment> alone = new ArrayList<>();
        for (int seed = 0; seed < count; seed++) {
            groups.add(ProofTasks.next(new Random(seed), 20, 100));
            alone.add(plan(groups.get(seed), assignor));
        }
        long before = metric("Assignments");
        ExecutorService threads = Executors.newFixedThreadPool(8);
        List<Future<GroupAssignment>> together = new ArrayList<>();
        for (ProofTasks group : groups) {
            together.add(threads.submit(() -> plan(group, assignor)));
        }
        for (int number = 0; number < count; number++) {
            require(together.get(number).get().equals(alone.get(number)), "group " + number + " gets another plan than alone");
        }
        threads.shutdown();
        require(metric("Assignments") == before + count, "each is counted");
        System.out.println("{\"groups\": " + count + "}");
    }

    /** Whatever is not known or goes wrong ends in sticky's plan, and is counted; a wrong property has its default. */
    private static void guest() throws Exception {
        ProofTasks group = ProofTasks.next(new Random(1), 8, 50);
        RackAwareTaskAssignor assignor = assignor(10, 1);
        TaskAssignor sticky = new org.apache.kafka.coordinator.group.streams.assignor.StickyTaskAssignor();
        require(plan(group, assignor(Map.of(Settings.MAX_STEPS, 1))).equals(plan(group, sticky)), "sticky where it takes long");
        require(metric("PlainPlansForWorkBound") == 1, "the work bound is counted");
        require(assignor.assign(group, group).equals(plan(group, sticky)), "sticky where the coordinator shows no topics");
        require(metric("PlainPlansForUnknownTopics") == 1, "unknown topics are counted");
        group.members.values().forEach(member -> member.rack = null);
        require(plan(group, assignor).equals(plan(group, sticky)), "sticky where no member has a rack");
        require(metric("PlainPlansForUnknownMemberRacks") == 1, "unknown racks of members are counted");
        group.members.values().forEach(member -> member.rack = "rack0");
        group.topology.replaceAll((id, one) -> {
            Map<String, List<List<String>>> topics = new TreeMap<>(one.topics());
            topics.replaceAll((name, racks) -> racks.stream().map(any -> List.<String>of()).toList());
            return new ProofTasks.Subtopology(one.tasks(), topics);
        });
        require(plan(group, assignor).equals(plan(group, sticky)), "sticky where no replica has a rack");
        require(metric("PlainPlansForUnknownReplicaRacks") == 1, "unknown racks of replicas are counted");
        require(metric("Assignments") == 4, "assignments are counted");
        assignor(Map.of(Settings.MAX_STEPS, "much"));
        require(metric("ConfigurationErrors") == 1, "a mistake is counted");
        require(!new RackAwareStickyTaskAssignor().name().equals(assignor.name()), "two names in one line");
        group.members.clear();
        require(plan(group, assignor).members().isEmpty(), "a group without members");
        System.out.println("{\"checks\": " + held + "}");
    }

    /** Where no process runs a task, or has a copy, those with files of it count as having it: it stays, by the prices. */
    private static void restart() {
        List<Map<String, Set<Integer>>> own = List.of(Map.of("0", Set.of(0)), Map.of("0", Set.of(1)));
        ProofTasks group = restarted(own, List.of(List.of("rack1"), List.of("rack0")));
        stays(group, own);
        require(!actives(plan(group, assignor(10, 1))).equals(own), "racks are worth more");
        for (int number = 0; number < own.size(); number++) {
            ProofTasks.Member member = group.members.get("member" + number);
            member.standby = own.get(number);
            member.offsets = Map.of("0", Map.of(0, 9L, 1, 9L));
        }
        stays(group, own);
        ProofTasks copied = restarted(List.of(Map.of(), own.get(0), Map.of()), List.of(List.of("rack2")));
        copied.members.get("member0").active = own.get(0);
        copied.standbys = 1;
        GroupAssignment plan = plan(copied, assignor(1, 10));
        require(plan.members().get("member1").standbyTasks().equals(own.get(0)), "a standby leaves its state", plan);
        System.out.println("{\"checks\": " + held + "}");
    }

    /** A process in a rack for each entry, which had these tasks; the racks of what the tasks read. */
    private static ProofTasks restarted(List<Map<String, Set<Integer>>> own, List<List<String>> racks) {
        ProofTasks group = new ProofTasks();
        group.topology.put("0", new ProofTasks.Subtopology(racks.size(), Map.of("s0", racks, "c0", racks)));
        for (int number = 0; number < own.size(); number++) {
            ProofTasks.Member member = new ProofTasks.Member();
            member.process = "process" + number;
            member.rack = "rack" + number;
            member.active = new TreeMap<>(own.get(number));
            member.restart();
            group.members.put("member" + number, member);
        }
        return group;
    }

    private static List<Map<String, Set<Integer>>> actives(GroupAssignment plan) {
        return new TreeMap<>(plan.members()).values().stream().map(one -> one.activeTasks()).toList();
    }

    private static void stays(ProofTasks group, List<Map<String, Set<Integer>>> own) {
        GroupAssignment plan = plan(group, assignor(1, 10));
        require(actives(plan).equals(own), "a task leaves its state", plan);
    }

    /** A large group has its exact plan within a twentieth of the steps that are allowed, so in about 50 ms. */
    private static void large(int tasks, int threads) throws Exception {
        RackAwareTaskAssignor assignor = assignor(Map.of(Settings.MAX_STEPS, Settings.DEFAULT_MAX_STEPS / 20));
        double longest = 0;
        for (int seed = 0; seed < 60; seed++) {
            Random dice = new Random(seed);
            ProofTasks group = ProofTasks.large(dice, tasks, threads);
            long started = processor();
            GroupAssignment plan = plan(group, assignor);
            double first = (processor() - started) / 1e6;
            group.accept(plan);
            group.members.remove(group.members.keySet().iterator().next());
            started = processor();
            plan(group, assignor);
            double second = (processor() - started) / 1e6;
            longest = seed < 30 ? 0 : Math.max(longest, Math.max(first, second));
        }
        require(metric("PlainPlansForWorkBound") + metric("PlainPlansForError") == 0, "plain plans");
        System.out.println("{\"tasks\": " + tasks + ", \"threads\": " + threads + ", \"longest_ms\": " + longest + "}");
    }

    private static long processor() {
        return ManagementFactory.getThreadMXBean().getCurrentThreadCpuTime();
    }

    /** In a Kafka without the coordinator's classes of 4.4 there is a plan all the same, and it is counted. */
    private static void another() throws Exception {
        ProofTasks group = ProofTasks.next(new Random(1), 8, 50);
        GroupAssignment plan = assignor(10, 1).assign(group, group);
        group.topology.forEach((id, subtopology) -> require(
                plan.members().values().stream()
                                .mapToInt(member -> member.activeTasks().getOrDefault(id, Set.of()).size())
                                .sum()
                        == subtopology.tasks(),
                "each task runs once"));
        require(metric("PlainPlansForUnknownTopics") == 1, "it is counted");
        try {
            Class.forName("org.apache.kafka.coordinator.group.streams.TopologyMetadata");
        } catch (ClassNotFoundException expected) {
            System.out.println("{\"tasks\": " + group.topology.size() + "}");
            return;
        }
        throw new AssertionError("the class path has the coordinator");
    }
}
