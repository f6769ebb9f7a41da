package io.samerack.broker;

import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import javax.management.MBeanServer;
import javax.management.ObjectName;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.coordinator.group.api.assignor.GroupAssignment;
import org.apache.kafka.coordinator.group.api.assignor.PartitionAssignorException;

/** Checks how the assignor behaves as a guest in a broker: wrong properties, metrics, bounds and broken input. */
public final class Guest {
    private static final MBeanServer BEANS = ManagementFactory.getPlatformMBeanServer();

    private Guest() {}

    /**
     * Runs the checks.
     *
     * @param arguments none
     * @throws Exception a check failed
     */
    public static void main(String[] arguments) throws Exception {
        wrongProperties();
        names();
        workBound();
        memory();
        plainPlans();
        brokenInput();
        emptyGroups();
    }

    private static void require(boolean holds, String what) {
        if (!holds) {
            throw new AssertionError(what);
        }
    }

    private static long metric(String name) throws Exception {
        return (long) BEANS.getAttribute(new ObjectName(AssignorMetrics.NAME), name);
    }

    private static void wrongProperties() throws Exception {
        Proof.assignor(Map.of());
        require(metric("ConfigurationErrors") == 0, "defaults are no mistakes");
        Proof.assignor(Map.of(
                Settings.OBJECTIVES, "racks",
                Settings.MAX_SKEW, "-1",
                Settings.KEEP_COPARTITIONED, "perhaps",
                Settings.MAX_STEPS, "none"));
        require(metric("ConfigurationErrors") == 4, "each mistake is counted");
        Settings both = Settings.of(Map.of(Settings.MAX_SKEW, 2, Settings.KEEP_COPARTITIONED, true));
        require(both.maxSkew == 2 && !both.keepCopartitioned && both.mistakes.size() == 1, "one of two that conflict");
        Settings spaced = Settings.of(Map.of(Settings.OBJECTIVES, "racks, balance, moves"));
        require(spaced.order == Settings.Order.RACKS_BALANCE_MOVES, "spaces do not matter");
        for (String rules : new String[] {"canary", "canary:-1", ":2", "a:1,,b:2", "a b:1", "a:99999999", "a:1:2"}) {
            Settings wrong = Settings.of(Map.of(Settings.MAX_PARTITIONS, rules));
            require(wrong.mistakes.size() == 1 && wrong.limits == Limits.OF_NOBODY, rules + " is wrong");
        }
        Settings limited = Settings.of(Map.of(Settings.MAX_PARTITIONS, " *-canary-??:2, big*:3 "));
        require(limited.mistakes.isEmpty() && limited.limits.of("a-canary-17") == 2, "the first rule that fits counts");
        require(limited.limits.of("big-canary-1") == 3 && limited.limits.of("a-big") == Limits.NONE, "a whole id is matched");
        Settings kept = Settings.of(Map.of(Settings.MAX_PARTITIONS, "*:1", Settings.KEEP_COPARTITIONED, true));
        require(kept.keepCopartitioned && kept.limits == Limits.OF_NOBODY, "joins come before limits");
        Settings spread = Settings.of(Map.of(
                Settings.OBJECTIVES, "spread,balance,racks,moves", Settings.MAX_PARTITIONS, "*:1", Settings.MAX_SKEW, 1));
        require(spread.isSpreadFirst() && spread.maxSkew == 0 && spread.limits == Limits.OF_NOBODY, "spread comes before limits");
        require(spread.mistakes.size() == 2, "both mistakes are named");
    }

    private static void names() {
        String line = "group.consumer.assignors";
        String ours = RackAwareAssignor.class.getName();
        String theirs = "org.apache.kafka.coordinator.group.assignor.UniformAssignor";
        require(Proof.assignor(Map.of()).name().equals("samerack"), "the default name");
        require(
                Proof.assignor(Map.of(Settings.NAME, "uniform", line, ours + ",range")).name().equals("uniform"),
                "it takes the place of a built-in that is left out");
        for (String wrong : new String[] {ours + ", uniform", "range," + theirs + "," + ours}) {
            refused(Map.of(Settings.NAME, "uniform", line, wrong), "use another name");
        }
        refused(Map.of(Settings.NAME, " "), "it is samerack");
    }

    private static void refused(Map<String, String> properties, String cure) {
        try {
            Proof.assignor(properties);
        } catch (ConfigException refused) {
            require(refused.getMessage().contains(Settings.NAME) && refused.getMessage().endsWith(cure), refused.getMessage());
            return;
        }
        throw new AssertionError("a broker starts with " + properties);
    }

    private static void workBound() throws Exception {
        ProofGroup group = RandomGroups.next(new Random(3), 8, 50);
        long before = metric("PlainPlansForWorkBound");
        Score.of(group, group.assign(Proof.assignor(Map.of(Settings.MAX_STEPS, "1"))));
        require(metric("PlainPlansForWorkBound") == before + 1, "a plan that takes too long is replaced and counted");
        require(metric("Assignments") > 0, "assignments are counted");
    }

    /** Spread first takes memory for each topic and member: no plan takes more than there is, here 512 MB. */
    private static void memory() throws Exception {
        String spread = "spread,balance,racks,moves";
        ProofGroup documented = alike(10_000, 100, 1000);
        long plain = Proof.plainPlans();
        Score.of(documented, documented.assign(Proof.assignor(Map.of(Settings.OBJECTIVES, spread))));
        require(Proof.plainPlans() == plain, "10,000 members and 100 topics have an exact plan");
        ProofGroup large = alike(3000, 1500, 1);
        long bounded = metric("PlainPlansForWorkBound");
        Score.of(large, large.assign(Proof.assignor(Map.of(Settings.OBJECTIVES, spread))));
        require(metric("PlainPlansForWorkBound") == bounded + 1, "a plan that takes too much memory is not begun");
        long failed = metric("PlainPlansForError");
        String unbounded = String.valueOf(Long.MAX_VALUE);
        Score.of(large, large.assign(
                Proof.assignor(Map.of(Settings.OBJECTIVES, spread, Settings.MAX_STEPS, unbounded))));
        require(metric("PlainPlansForError") == failed + 1, "a plan without memory is replaced and counted");
    }

    /** A group whose members have the same topics, and whose partitions are in two of three racks. */
    private static ProofGroup alike(int members, int topics, int partitions) {
        ProofGroup group = new ProofGroup();
        List<Set<String>> replicas = new ArrayList<>();
        for (int number = 0; number < partitions; number++) {
            replicas.add(Set.of("rack" + number % 3, "rack" + (number + 1) % 3));
        }
        for (int topic = 0; topic < topics; topic++) {
            group.topics.put(ProofGroup.topic(topic), replicas);
        }
        for (int index = 0; index < members; index++) {
            ProofGroup.Member member = new ProofGroup.Member();
            member.rack = "rack" + index % 3;
            member.topics = group.topics.keySet();
            group.members.put("member" + index, member);
        }
        return group;
    }

    /** Plain plans are valid, for equal subscriptions even and within limits, and move nothing twice. */
    private static void plainPlans() {
        for (int seed = 0; seed < 4000; seed++) {
            Random dice = new Random(seed);
            ProofGroup group = RandomGroups.next(dice, 10, 60);
            String rules = seed % 2 == 0 ? "nobody:0" : RandomGroups.limit(dice, group);
            RackAwareAssignor plain = Proof.assignor(Map.of(Settings.MAX_STEPS, "1", Settings.MAX_PARTITIONS, rules));
            GroupAssignment plan = group.assign(plain);
            Score score = Score.of(group, plan);
            if (group.members.values().stream().map(member -> member.topics).distinct().count() == 1) {
                GroupAssignment exact = group.assign(Proof.assignor(Map.of(Settings.MAX_PARTITIONS, rules)));
                int excess = excess(group, exact, rules);
                require(excess(group, plan, rules) <= excess, "seed " + seed + ": a limit is not kept");
                require(excess > 0 || score.squares == Score.of(group, exact).squares, "seed " + seed + ": uneven");
            }
            group.accept(plan);
            require(Score.of(group, group.assign(plain)).moves == 0, "seed " + seed + ": a second run moves");
        }
    }

    /** The most that a member has beyond its limit. */
    private static int excess(ProofGroup group, GroupAssignment plan, String rules) {
        Limits limits = new Limits(rules.split(","));
        int excess = 0;
        for (Map.Entry<String, ProofGroup.Member> member : group.members.entrySet()) {
            String instance = member.getValue().instance;
            int limit = instance == null ? Limits.NONE : limits.of(instance);
            excess = Math.max(excess, Score.largest(plan, member.getKey()) - limit);
        }
        return excess;
    }

    private static void brokenInput() {
        ProofGroup group = RandomGroups.next(new Random(5), 8, 50);
        group.members.values().iterator().next().topics = null;
        try {
            group.assign(Proof.assignor(Map.of()));
            throw new AssertionError("a group that cannot be read is refused");
        } catch (PartitionAssignorException refused) {
            require(refused.getCause() instanceof NullPointerException, "the cause is named");
        }
    }

    private static void emptyGroups() {
        ProofGroup group = new ProofGroup();
        require(group.assign(Proof.assignor(Map.of())).members().isEmpty(), "a group without members");
        group.members.put("alone", new ProofGroup.Member());
        require(group.assign(Proof.assignor(Map.of())).members().size() == 1, "a member without topics");
    }
}
