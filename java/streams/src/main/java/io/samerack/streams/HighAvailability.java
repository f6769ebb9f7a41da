package io.samerack.streams;

import java.time.Instant;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Comparator;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.PriorityQueue;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.function.BiPredicate;
import java.util.function.Function;
import java.util.function.Predicate;
import org.apache.kafka.streams.processor.TaskId;
import org.apache.kafka.streams.processor.assignment.ApplicationState;
import org.apache.kafka.streams.processor.assignment.AssignmentConfigs;
import org.apache.kafka.streams.processor.assignment.KafkaStreamsAssignment;
import org.apache.kafka.streams.processor.assignment.KafkaStreamsAssignment.AssignedTask;
import org.apache.kafka.streams.processor.assignment.ProcessId;
import org.apache.kafka.streams.processor.assignment.TaskAssignmentUtils;
import org.apache.kafka.streams.processor.assignment.TaskAssignmentUtils.RackAwareOptimizationParams;
import org.apache.kafka.streams.processor.assignment.TaskAssignor.TaskAssignment;
import org.apache.kafka.streams.processor.assignment.TaskInfo;

/**
 * KIP-441's assignment on the public classes of KIP-924: what Kafka Streams does by default, in a class that is not public.
 *
 * <p>Stateful tasks are dealt in turn and balanced over threads; racks and standbys are the business of {@link
 * TaskAssignmentUtils}. A task whose client is not caught up, while another is closer, runs there for now, and its client
 * gets a warm-up, of which there is a bounded number; then the group rebalances again after the probing interval.
 */
final class HighAvailability {
    /** Costs of KIP-925 for this assignor, where none are configured; stateless tasks have no stickiness. */
    private static final int TRAFFIC_COST = 10;

    private static final int NON_OVERLAP_COST = 1;
    private static final int STATELESS_TRAFFIC_COST = 1;
    private static final int STATELESS_NON_OVERLAP_COST = 0;
    /** What a client has for the lag of a task that it ran. */
    private static final long RUNNING = -2;

    private final StateWithCosts state;
    private final AssignmentConfigs configs;
    private final Map<ProcessId, TaskHolder> clients = new TreeMap<>();
    private final Set<TaskId> stateful = new TreeSet<>();
    private final Set<TaskId> stateless = new TreeSet<>();
    private final Map<TaskId, List<TaskHolder>> caughtUp = new TreeMap<>();
    private int warmupsLeft;

    private HighAvailability(ApplicationState state) {
        this.state = new StateWithCosts(state, TRAFFIC_COST, NON_OVERLAP_COST);
        configs = this.state.assignmentConfigs();
        warmupsLeft = configs.maxWarmupReplicas();
        state.kafkaStreamsStates(true).forEach((process, client) -> clients.put(process, new TaskHolder(client)));
        for (TaskInfo task : this.state.allTasks().values()) {
            (task.isStateful() ? stateful : stateless).add(task.id());
        }
    }

    /**
     * Returns the assignment.
     *
     * @param state an application whose lags are known
     * @param now from which the time of a probing rebalance is counted
     */
    static TaskAssignment assign(ApplicationState state, Instant now) {
        return new HighAvailability(state).assign(now);
    }

    private TaskAssignment assign(Instant now) {
        dealInTurn();
        balance(client -> client.active, (source, target) -> true);
        Map<ProcessId, KafkaStreamsAssignment> plan = assignments();
        TaskAssignmentUtils.optimizeRackAwareActiveTasks(ofSources().forStatefulTasks(), plan);
        read(plan);
        if (configs.numStandbyReplicas() > 0) {
            boolean areApart = !configs.rackAwareAssignmentTags().isEmpty();
            if (areApart) {
                TaskAssignmentUtils.defaultStandbyTaskAssignment(state, plan);
                read(plan);
            } else {
                addStandbysByLoad();
            }
            balance(client -> client.standby, areApart ? TaskHolder::hasTagsOf : (source, target) -> true);
            plan = assignments();
            Map<TaskId, Integer> apart = tagsByTask();
            TaskAssignmentUtils.optimizeRackAwareStandbyTasks(RackAwareOptimizationParams.of(state), plan);
            Map<ProcessId, KafkaStreamsAssignment> before = assignments();
            read(plan);
            // the utility moves standbys for racks whatever their tags; Kafka's own class does not
            if (!areAtLeast(apart, tagsByTask())) {
                read(before);
            }
        }
        findCaughtUp();
        Set<Move> warmups = new HashSet<>();
        int moved = moveActives(warmups) + moveStandbys(warmups);
        for (TaskId task : stateless) {
            clients.values().stream().min(Comparator.comparingDouble(TaskHolder::activeLoad)).orElseThrow().active.add(task);
        }
        plan = assignments();
        TaskAssignmentUtils.optimizeRackAwareActiveTasks(
                ofSources()
                        .withTrafficCostOverride(STATELESS_TRAFFIC_COST)
                        .withNonOverlapCostOverride(STATELESS_NON_OVERLAP_COST)
                        .forStatelessTasks(),
                plan);
        if (moved > 0) { // one client asks for the whole group
            ProcessId first = clients.keySet().iterator().next();
            plan.put(first, plan.get(first).withFollowupRebalance(now.plusMillis(configs.probingRebalanceIntervalMs())));
        }
        return new TaskAssignment(plan.values());
    }

    private RackAwareOptimizationParams ofSources() {
        return RackAwareOptimizationParams.of(state.withSourcesOnly());
    }

    private void dealInTurn() {
        List<TaskHolder> order = new ArrayList<>(clients.values());
        int turn = 0;
        for (TaskId task : stateful) {
            order.get(turn++ % order.size()).active.add(task);
        }
    }

    /** Returns over how many values of the configured tags each task's copies are spread. */
    private Map<TaskId, Integer> tagsByTask() {
        Map<TaskId, Integer> found = new TreeMap<>();
        for (TaskId task : stateful) {
            Set<Map.Entry<String, String>> tags = new HashSet<>();
            for (TaskHolder client : clients.values()) {
                if (client.has(task)) {
                    tags.addAll(client.state.clientTags().entrySet());
                }
            }
            tags.removeIf(tag -> !configs.rackAwareAssignmentTags().contains(tag.getKey()));
            found.put(task, tags.size());
        }
        return found;
    }

    private static boolean areAtLeast(Map<TaskId, Integer> wanted, Map<TaskId, Integer> found) {
        return wanted.entrySet().stream().allMatch(task -> found.get(task.getKey()) >= task.getValue());
    }

    /** As {@link TaskAssignmentUtils} does it, but in the order of tasks, so that ties are as in Kafka's own class. */
    private void addStandbysByLoad() {
        for (TaskId task : stateful) {
            for (int copy = 0; copy < configs.numStandbyReplicas(); copy++) {
                TaskHolder holder = leastLoaded(clients.values(), client -> !client.has(task));
                if (holder != null) {
                    holder.standby.add(task);
                }
            }
        }
    }

    /** Moves tasks of one kind from clients with more of all tasks per thread to clients with fewer, as long as it helps. */
    private void balance(Function<TaskHolder, Set<TaskId>> kind, BiPredicate<TaskHolder, TaskHolder> mayMove) {
        boolean moved = true;
        while (moved) {
            moved = false;
            for (TaskHolder source : clients.values()) {
                for (TaskHolder target : clients.values()) {
                    if (source == target) {
                        continue;
                    }
                    for (TaskId task : new ArrayList<>(kind.apply(source))) {
                        if (!isBetter(source, target)) {
                            break;
                        }
                        if (!target.has(task) && mayMove.test(source, target)) {
                            kind.apply(source).remove(task);
                            kind.apply(target).add(task);
                            moved = true;
                        }
                    }
                }
            }
        }
    }

    private static boolean isBetter(TaskHolder source, TaskHolder target) {
        double skew = source.load() - target.load();
        double then = (source.count() - 1.0) / source.threads - (target.count() + 1.0) / target.threads;
        return skew > 0 && then >= 0 && then < skew;
    }

    private void findCaughtUp() {
        long acceptable = configs.acceptableRecoveryLag();
        for (TaskId task : stateful) {
            List<TaskHolder> found = new ArrayList<>();
            for (TaskHolder client : clients.values()) {
                long lag = client.lag(task);
                if (lag == RUNNING || acceptable == Long.MAX_VALUE || lag >= 0 && lag <= acceptable) {
                    found.add(client);
                }
            }
            caughtUp.put(task, found);
        }
    }

    /** A task and the client that should have it but is not caught up. */
    private record Move(TaskId task, TaskHolder target) {}

    private PriorityQueue<Move> movesOf(Function<TaskHolder, Set<TaskId>> kind, Set<Move> warmups) {
        PriorityQueue<Move> found = new PriorityQueue<>(
                Comparator.<Move>comparingInt(move -> caughtUp.get(move.task).size()).thenComparing(Move::task));
        for (TaskHolder client : clients.values()) {
            for (TaskId task : kind.apply(client)) {
                Move move = new Move(task, client);
                boolean isWarmup = warmups.contains(move);
                if (stateful.contains(task) && !isWarmup && !caughtUp.get(task).contains(client) && hasCloser(move)) {
                    found.add(move);
                }
            }
        }
        return found;
    }

    private boolean hasCloser(Move move) {
        return clients.values().stream().anyMatch(other -> other.lag(move.task) < move.target.lag(move.task));
    }

    private int moveActives(Set<Move> warmups) {
        PriorityQueue<Move> moves = movesOf(client -> client.active, warmups);
        int moved = moves.size();
        for (Move move = moves.poll(); move != null; move = moves.poll()) {
            TaskId task = move.task;
            List<TaskHolder> ready = caughtUp.get(task);
            TaskHolder runner = leastLoaded(ready, client -> client.standby.contains(task));
            if (runner == null) {
                runner = leastLoaded(ready, client -> true);
            }
            if (runner == null) {
                runner = closest(move, client -> true);
            }
            move.target.active.remove(task);
            boolean swaps = runner.standby.remove(task);
            runner.active.add(task);
            if (swaps) {
                move.target.standby.add(task);
            } else if (warmupsLeft-- > 0) {
                move.target.standby.add(task);
                warmups.add(move);
            }
        }
        return moved;
    }

    private int moveStandbys(Set<Move> warmups) {
        PriorityQueue<Move> moves = movesOf(client -> client.standby, warmups);
        int moved = 0;
        for (Move move = moves.poll(); move != null; move = moves.poll()) {
            TaskId task = move.task;
            TaskHolder holder = leastLoaded(caughtUp.get(task), client -> !client.has(task));
            if (holder == null) {
                holder = closest(move, client -> !client.has(task));
            }
            if (holder == null) {
                continue;
            }
            holder.standby.add(task);
            if (warmupsLeft-- <= 0) {
                move.target.standby.remove(task);
            }
            moved++;
        }
        return moved;
    }

    /** Of equal ones the first, since clients are in order. */
    private static TaskHolder leastLoaded(Collection<TaskHolder> among, Predicate<TaskHolder> fits) {
        return among.stream().filter(fits).min(Comparator.comparingDouble(TaskHolder::load)).orElse(null);
    }

    /** Returns the client with the smallest lag that fits and is closer than the target, or null. */
    private TaskHolder closest(Move move, Predicate<TaskHolder> fits) {
        return clients.values().stream()
                .filter(client -> client.isCloser(move.task, move.target))
                .filter(fits)
                .min(Comparator.comparingLong(client -> client.lag(move.task)))
                .orElse(null);
    }

    private Map<ProcessId, KafkaStreamsAssignment> assignments() {
        Map<ProcessId, KafkaStreamsAssignment> found = new TreeMap<>();
        clients.forEach((process, client) -> {
            Set<AssignedTask> tasks = new HashSet<>();
            client.active.forEach(task -> tasks.add(new AssignedTask(task, AssignedTask.Type.ACTIVE)));
            client.standby.forEach(task -> tasks.add(new AssignedTask(task, AssignedTask.Type.STANDBY)));
            found.put(process, KafkaStreamsAssignment.of(process, tasks));
        });
        return found;
    }

    private void read(Map<ProcessId, KafkaStreamsAssignment> plan) {
        plan.forEach((process, assignment) -> {
            TaskHolder client = clients.get(process);
            client.active.clear();
            client.standby.clear();
            assignment.tasks().values().forEach(task ->
                    (task.type() == AssignedTask.Type.ACTIVE ? client.active : client.standby).add(task.id()));
        });
    }
}
