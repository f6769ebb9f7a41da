package io.samerack.broker;

import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.kafka.common.Configurable;
import org.apache.kafka.coordinator.group.api.streams.assignor.GroupAssignment;
import org.apache.kafka.coordinator.group.api.streams.assignor.GroupSpec;
import org.apache.kafka.coordinator.group.api.streams.assignor.TaskAssignor;
import org.apache.kafka.coordinator.group.api.streams.assignor.TaskAssignorException;
import org.apache.kafka.coordinator.group.api.streams.assignor.TopologyDescriber;
import org.apache.kafka.coordinator.group.streams.assignor.StickyTaskAssignor;

/**
 * Assigns tasks of Streams groups (KIP-1071) inside the broker (KIP-1357, Kafka 4.4) by racks: active tasks where their
 * partitions have replicas, standbys in other racks than the active one.
 *
 * <p>{@link TaskPlan} has the objective, with KIP-925's two prices: here those of Kafka's HighAvailabilityTaskAssignor, by
 * which racks come before state, in {@link RackAwareStickyTaskAssignor} the other way round. Its property, in the broker's
 * file, is {@value Settings#MAX_STEPS}; a wrong value is logged and its default is used.
 *
 * <p>It runs in the group coordinator: it does no I/O, starts no thread and keeps nothing between calls but the counts of
 * {@link TaskAssignorMetricsMBean}. Where racks or topics are not known, and where the exact plan takes too many steps, fails
 * or does not pass its check, Kafka's own {@code sticky} plans; each cause is logged once and counted.
 */
public class RackAwareTaskAssignor implements TaskAssignor, Configurable {
    private final TaskAssignorMetrics metrics = TaskAssignorMetrics.OF_BROKER;
    private final String name;
    private final int trafficCost;
    private final int nonOverlapCost;
    private volatile long maxSteps = Settings.DEFAULT_MAX_STEPS;

    /** Makes an assignor with the default settings. Kafka calls {@link #configure} next. */
    public RackAwareTaskAssignor() {
        this(Settings.DEFAULT_NAME, 10, 1);
    }

    /**
     * Makes an assignor with prices of its own.
     *
     * @param name what groups call it
     * @param trafficCost what a partition costs that is read across racks
     * @param nonOverlapCost what a task costs on a process that has not had it
     */
    RackAwareTaskAssignor(String name, int trafficCost, int nonOverlapCost) {
        this.name = name;
        this.trafficCost = trafficCost;
        this.nonOverlapCost = nonOverlapCost;
    }

    @Override
    public void configure(Map<String, ?> properties) {
        Map<String, String> mistakes = new LinkedHashMap<>();
        maxSteps = Settings.number(
                properties, Settings.MAX_STEPS, Settings.DEFAULT_MAX_STEPS, 1, Long.MAX_VALUE, mistakes);
        metrics.register();
        mistakes.forEach(metrics::wrongProperty);
    }

    @Override
    public String name() {
        return name;
    }

    /** Returns the name, which the coordinator logs with each assignment. */
    @Override
    public String toString() {
        return name();
    }

    @Override
    public GroupAssignment assign(GroupSpec spec, TopologyDescriber describer) throws TaskAssignorException {
        long started = System.nanoTime();
        if (spec.memberIds().isEmpty()) {
            return new GroupAssignment(Map.of());
        }
        GroupAssignment assignment = plan(spec, describer);
        metrics.assigned(System.nanoTime() - started);
        return assignment;
    }

    private GroupAssignment plan(GroupSpec spec, TopologyDescriber describer) {
        TaskGroup group = new TaskGroup(spec, describer);
        try {
            TaskReads reads = TaskReads.of(group, describer);
            TaskPlan plan = TaskPlan.of(group, reads, trafficCost, nonOverlapCost, new Steps(maxSteps));
            String fault = plan.fault();
            if (fault == null) {
                return plan.toAssignment();
            }
            plain(AssignorMetrics.Cause.FAILED_CHECK, new IllegalStateException(fault), group);
        } catch (TaskReads.UnknownException unknown) {
            plain(unknown.cause, unknown, group);
        } catch (Steps.WorkBoundException tooMuch) {
            plain(AssignorMetrics.Cause.WORK_BOUND, tooMuch, group);
        } catch (RuntimeException | StackOverflowError | OutOfMemoryError bug) {
            plain(AssignorMetrics.Cause.ERROR, bug, group);
        }
        try {
            return new StickyTaskAssignor().assign(spec, describer);
        } catch (LinkageError gone) { // in another Kafka than 4.4
            return TaskPlan.of(group, TaskReads.none(group), 0, 1, new Steps(Long.MAX_VALUE)).toAssignment();
        }
    }

    private void plain(AssignorMetrics.Cause cause, Throwable failure, TaskGroup group) {
        metrics.plain(cause, failure, group.members.length, group.tasks() + " tasks");
    }
}
