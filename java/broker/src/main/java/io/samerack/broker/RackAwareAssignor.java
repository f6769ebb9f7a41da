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
 *
 * <p>Objective, lexicographic and exact:
 *
 * <ol>
 *   <li>balance: the least sum of squared loads that the subscriptions and limits allow; members with equal subscriptions
 *       and limits differ by one partition at most,
 *   <li>racks: the fewest partitions read by a member whose rack has no replica; a member without a rack reads none so,
 *   <li>moves: the fewest partitions whose new member is not the one that has them.
 * </ol>
 *
 * <p>Among plans that are equal in these, topics are spread over members. That fourth level is not exact in general, since
 * it would need a flow of topics times members. It is exact for a new group whose members have equal subscriptions and
 * one rack or none: no member has more than one partition of a topic more than another. Elsewhere partitions are taken
 * from the topics of which a member has most, and given to members with the fewest of the topic where members are few.
 * With {@code spread,balance,racks,moves} the spread is the first level, and exact: that flow takes longer.
 *
 * <p>Equal groups get equal plans whatever the order of the input. Static members keep their place when they restart. A
 * second run on its own plan moves nothing. Partitions that may not be assigned go to nobody, and topics that do not exist
 * are ignored.
 *
 * <p>Properties, in the broker's file: {@value Settings#OBJECTIVES} ({@code balance,racks,moves} unless it is
 * {@code balance,moves,racks}, {@code racks,balance,moves} or {@code spread,balance,racks,moves}), {@value
 * Settings#MAX_SKEW}, {@value Settings#KEEP_COPARTITIONED}, {@value Settings#MAX_PARTITIONS} (no member has more than its
 * limit), {@value Settings#MAX_STEPS} and {@value Settings#NAME}. A wrong value is logged and its default is used, as it
 * must not stop a broker; only a wrong name does.
 *
 * <p>The assignor runs in the group coordinator: it does no I/O, starts no thread and keeps nothing between calls but
 * counts, which {@link AssignorMetricsMBean} shows. So threads may call it at once for different groups, and drop what
 * comes too late (KIP-1263). An interrupted thread gets its plan all the same, and stays interrupted. An exact plan that
 * takes too many steps, fails or does not pass its check is replaced by a plain one, balanced and sticky; each cause is
 * logged once and counted.
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
        return settings.name;
    }

    @Override
    public GroupAssignment assign(GroupSpec spec, SubscribedTopicDescriber describer)
            throws PartitionAssignorException {
        long started = System.nanoTime();
        Settings now = settings;
        if (spec.memberIds().isEmpty()) {
            return new GroupAssignment(Map.of());
        }
        try {
            Group group = GroupReader.read(spec, describer, now.limits);
            GroupAssignment assignment = Plans.toAssignment(group, plan(group, now), spec);
            metrics.assigned(System.nanoTime() - started);
            return assignment;
        } catch (PartitionAssignorException refused) {
            throw refused;
        } catch (RuntimeException unreadable) {
            throw new PartitionAssignorException("samerack cannot read the group: " + unreadable, unreadable);
        }
    }

    /** Returns the exact plan, or a plain one where that fails. */
    private int[] plan(Group group, Settings now) {
        try {
            Steps steps = new Steps(now.maxSteps);
            Limits.makeRoom(group, steps);
            int[] plan = ExactPlan.of(group, now, steps);
            String fault = PlanCheck.faultOf(group, plan, now.areLoadsEven());
            if (fault == null) {
                return plan;
            }
            metrics.plain(AssignorMetrics.Cause.FAILED_CHECK, new IllegalStateException(fault), group);
        } catch (Steps.WorkBoundException tooMuch) {
            metrics.plain(AssignorMetrics.Cause.WORK_BOUND, tooMuch, group);
        } catch (RuntimeException | StackOverflowError | OutOfMemoryError bug) {
            metrics.plain(AssignorMetrics.Cause.ERROR, bug, group);
        }
        return PlainPlan.of(group);
    }
}
