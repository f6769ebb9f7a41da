package io.samerack.broker;

import java.lang.management.ManagementFactory;
import java.util.Map;
import java.util.Random;
import javax.management.MBeanServer;
import javax.management.ObjectName;
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
        workBound();
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
    }

    private static void workBound() throws Exception {
        ProofGroup group = RandomGroups.next(new Random(3), 8, 50);
        long before = metric("PlainPlansForWorkBound");
        Score.of(group, group.assign(Proof.assignor(Map.of(Settings.MAX_STEPS, "1"))));
        require(metric("PlainPlansForWorkBound") == before + 1, "a plan that takes too long is replaced and counted");
        require(metric("Assignments") > 0, "assignments are counted");
    }

    /** Plain plans are valid, as even as can be for equal subscriptions, and move nothing twice. */
    private static void plainPlans() {
        RackAwareAssignor plain = Proof.assignor(Map.of(Settings.MAX_STEPS, "1"));
        RackAwareAssignor exact = Proof.assignor(Map.of());
        for (int seed = 0; seed < 2000; seed++) {
            ProofGroup group = RandomGroups.next(new Random(seed), 10, 60);
            GroupAssignment plan = group.assign(plain);
            Score score = Score.of(group, plan);
            if (new Subscriptions(group, group.members.keySet().toArray(new String[0]), new int[group.members.size()])
                            .renumbered(new int[group.topics.size()]).length
                    == 1) {
                require(score.squares == Score.of(group, group.assign(exact)).squares, "seed " + seed + ": uneven");
            }
            group.accept(plan);
            require(Score.of(group, group.assign(plain)).moves == 0, "seed " + seed + ": a second run moves");
        }
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
