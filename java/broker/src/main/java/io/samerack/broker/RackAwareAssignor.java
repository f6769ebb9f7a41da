package io.samerack.broker;

import java.util.Map;
import org.apache.kafka.common.Configurable;
import org.apache.kafka.coordinator.group.api.assignor.ConsumerGroupPartitionAssignor;
import org.apache.kafka.coordinator.group.api.assignor.GroupAssignment;
import org.apache.kafka.coordinator.group.api.assignor.GroupSpec;
import org.apache.kafka.coordinator.group.api.assignor.PartitionAssignorException;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;

/**
 * Assigns partitions of consumer groups (KIP-848) inside the broker so that members read in their own rack.
 */
public final class RackAwareAssignor implements ConsumerGroupPartitionAssignor, Configurable {
    private final AssignorMetrics metrics = AssignorMetrics.OF_BROKER;
    private volatile Settings settings = Settings.defaults();

    /** Makes an assignor with the default settings. Kafka calls {@link #configure} next. */
    public RackAwareAssignor() {}

    @Override
    public void configure(Map<String, ?> properties) {
        Settings read = Settings.of(properties);
        metrics.register();
        read.mistakes.forEach(metrics::wrongProperty);
        settings = read;
    }

    @Override
    public String name() {
        return "samerack";
    }

    @Override
    public GroupAssignment assign(GroupSpec spec, SubscribedTopicDescriber describer)
            throws PartitionAssignorException {
        long started = System.nanoTime();
        if (spec.memberIds().isEmpty()) {
            return new GroupAssignment(Map.of());
        }
        Group group = GroupReader.read(spec, describer);
        GroupAssignment assignment = Plans.toAssignment(group, plan(group, settings), spec);
        metrics.assigned(System.nanoTime() - started);
        return assignment;
    }

    /** Returns the exact plan, or a plain one where that fails. */
    private int[] plan(Group group, Settings now) {
        try {
            int[] plan = ExactPlan.of(group, now, new Steps(now.maxSteps));
            String fault = PlanCheck.faultOf(group, plan, now.areLoadsEven());
            if (fault == null) {
                return plan;
            }
            metrics.plain(AssignorMetrics.Cause.FAILED_CHECK, new IllegalStateException(fault), group);
        } catch (Steps.WorkBoundException tooMuch) {
            metrics.plain(AssignorMetrics.Cause.WORK_BOUND, tooMuch, group);
        } catch (RuntimeException | StackOverflowError bug) {
            metrics.plain(AssignorMetrics.Cause.ERROR, bug, group);
        }
        return PlainPlan.of(group);
    }
}
