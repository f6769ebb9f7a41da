package io.samerack.broker;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.Random;
import java.util.Set;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.IntStream;
import org.apache.kafka.common.Uuid;

/**
 * Assigns many groups on eight threads at once, cancels and interrupts some, and compares each plan with the one computed
 * alone (KIP-1263: brokers may compute assignments off the coordinator's thread, and drop those that come too late).
 *
 * <p>{@code Threads COUNT} prints one line of JSON with what was counted.
 */
public final class Threads {
    private static final int THREADS = 8;
    private static final int PLAIN = 10;
    private static final int LIMITED = 11;

    private final List<RackAwareAssignor> assignors = new ArrayList<>();
    private final List<ProofGroup> groups = new ArrayList<>();
    private final List<Map<String, Map<Uuid, Set<Integer>>>> alone = new ArrayList<>();
    private final Queue<Throwable> faults = new ConcurrentLinkedQueue<>();
    private final AtomicInteger begun = new AtomicInteger();
    private final AtomicInteger assigned = new AtomicInteger();
    private final AtomicInteger interrupted = new AtomicInteger();

    private Threads() {}

    /**
     * Runs the checks.
     *
     * @param arguments the number of groups
     * @throws Exception a check failed
     */
    public static void main(String[] arguments) throws Exception {
        longestOfAllThreads();
        new Threads().run(Integer.parseInt(arguments[0]));
    }

    private void run(int count) throws Exception {
        for (int kind = 0; kind <= LIMITED; kind++) {
            Map<String, Object> properties = new HashMap<>(BruteForce.settings(kind < PLAIN ? kind : 0));
            if (kind == PLAIN) {
                properties.put(Settings.MAX_STEPS, "1");
            } else if (kind == LIMITED) {
                properties.put(Settings.MAX_PARTITIONS, "canary-*:1,*-?:3");
            }
            assignors.add(Proof.assignor(properties));
        }
        for (int seed = 0; seed < count; seed++) {
            Random dice = new Random(seed);
            ProofGroup group = RandomGroups.next(dice, 30, 300);
            RandomGroups.limit(dice, group);
            groups.add(group);
            alone.add(plan(seed));
        }
        assigned.set(0);
        AssignorMetrics metrics = AssignorMetrics.OF_BROKER;
        long before = metrics.getAssignments();
        int cancelled = together();
        require(metrics.getAssignments() - before == assigned.get(), "each assignment of each thread is counted");
        require(metrics.getLastAssignmentMilliseconds() > 0, "the last assignment took some time");
        require(
                metrics.getLongestAssignmentMilliseconds() >= metrics.getLastAssignmentMilliseconds(),
                "no assignment takes longer than the longest");
        require(cancelled > 0 && interrupted.get() > 0, "some are cancelled, and some threads interrupted");
        System.out.println("{\"groups\": " + count + ", \"assignments\": " + assigned.get() + ", \"cancelled\": " + cancelled
                + ", \"interrupted\": " + interrupted.get() + "}");
    }

    /** Assigns each group on some thread, and those again that were cancelled, running or waiting; returns how many. */
    private int together() throws Exception {
        ExecutorService threads = Executors.newFixedThreadPool(THREADS);
        List<Future<?>> futures = new ArrayList<>();
        for (int index = 0; index < groups.size(); index++) {
            int number = index;
            futures.add(threads.submit(() -> compare(number, number % 7 == 0)));
        }
        futures.get(groups.size() - 2).cancel(true); // it waits behind all others but one
        for (int next = 0; next < groups.size() - 1; next = Math.max(next + 1, begun.get())) {
            futures.get(next).cancel(true);
            Thread.sleep(1);
        }
        int cancelled = 0;
        for (int number = 0; number < futures.size(); number++) {
            if (futures.get(number).isCancelled()) {
                cancelled++;
                int again = number;
                threads.submit(() -> compare(again, false)).get();
            }
        }
        threads.shutdown();
        require(threads.awaitTermination(1, TimeUnit.MINUTES), "all threads end");
        require(faults.isEmpty(), faults.toString());
        return cancelled;
    }

    private void compare(int number, boolean interrupt) {
        begun.accumulateAndGet(number, Math::max);
        try {
            if (interrupt) {
                Thread.currentThread().interrupt();
            }
            require(plan(number).equals(alone.get(number)), "group " + number + " gets another plan than alone");
            require(!interrupt || Thread.currentThread().isInterrupted(), "an interrupted thread stays so");
            interrupted.addAndGet(interrupt ? 1 : 0);
        } catch (RuntimeException | AssertionError fault) { // its future may be cancelled
            faults.add(fault);
        }
    }

    private Map<String, Map<Uuid, Set<Integer>>> plan(int number) {
        ProofGroup group = groups.get(number);
        Map<String, Map<Uuid, Set<Integer>>> plan =
                Proof.partitions(group.assign(assignors.get(number % assignors.size())));
        assigned.incrementAndGet();
        return plan;
    }

    /** No thread overwrites a longer time that another one has just reported. */
    private static void longestOfAllThreads() {
        int count = 8000;
        for (int round = 0; round < 2000; round++) {
            AssignorMetrics metrics = new AssignorMetrics();
            int longest = 1000 + round;
            IntStream.range(0, count).parallel().forEach(index -> metrics.assigned(index == longest ? 2_000_000 : 1_000_000));
            require(metrics.getLongestAssignmentMilliseconds() == 2, "the longest of all threads");
            require(metrics.getAssignments() == count, "each is counted");
        }
    }

    private static void require(boolean holds, String what) {
        if (!holds) {
            throw new AssertionError(what);
        }
    }
}
