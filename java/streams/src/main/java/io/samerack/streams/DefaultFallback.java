package io.samerack.streams;

import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.kafka.streams.processor.assignment.ApplicationState;
import org.apache.kafka.streams.processor.assignment.KafkaStreamsAssignment;
import org.apache.kafka.streams.processor.assignment.TaskAssignor;
import org.apache.kafka.streams.processor.assignment.assignors.StickyTaskAssignor;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Plans as Kafka Streams does without a task assignor.
 *
 * <p>Its default, {@code HighAvailabilityTaskAssignor}, is not public and takes other arguments, so that {@link
 * HighAvailability} does its work. Where lags are unknown, previous tasks stay and the group rebalances again after the
 * probing interval, which is what Kafka Streams does then.
 *
 * <p>Racks do not count in a large application: Kafka's step for them would take minutes, and whoever waits for it may be
 * put out of the group.
 */
final class DefaultFallback implements TaskAssignor {
    private static final Logger LOG = LoggerFactory.getLogger(AgentTaskAssignor.class);
    /**
     * Of tasks squared, times clients, times tasks and clients: the time of Kafka's step for racks grows with it, from 3 to
     * 100 clients. At this size it was measured as half a second.
     */
    private static final double MAX_RACK_WORK = 3e7;

    private static final AtomicBoolean IS_LOGGED = new AtomicBoolean();

    @Override
    public TaskAssignment assign(ApplicationState given) {
        ApplicationState state = countsRacks(given) ? given : StateWithCosts.withoutRacks(given);
        return Application.lacksLags(state) ? keptUntilTheNextProbe(state) : HighAvailability.assign(state, Instant.now());
    }

    /** Kafka's public class asks for the next rebalance at once, and would again for as long as lags are unknown. */
    private static TaskAssignment keptUntilTheNextProbe(ApplicationState state) {
        Instant next = Instant.now().plusMillis(state.assignmentConfigs().probingRebalanceIntervalMs());
        List<KafkaStreamsAssignment> found = new ArrayList<>();
        for (KafkaStreamsAssignment one : new StickyTaskAssignor(true).assign(state).assignment()) {
            found.add(one.followupRebalanceDeadline().isPresent() ? one.withFollowupRebalance(next) : one);
        }
        return new TaskAssignment(found);
    }

    private static boolean countsRacks(ApplicationState state) {
        double tasks = state.allTasks().size();
        double clients = state.kafkaStreamsStates(false).size();
        if (tasks * tasks * clients * (tasks + clients) <= MAX_RACK_WORK) {
            return true;
        }
        boolean isWanted = !StateWithCosts.NO_STRATEGY.equals(state.assignmentConfigs().rackAwareAssignmentStrategy());
        if (isWanted && !IS_LOGGED.getAndSet(true)) {
            LOG.warn(
                    "The fall-back assigns tasks without regard to racks: for {} tasks and {} clients Kafka's step for racks"
                            + " would take too long. This is logged once",
                    (int) tasks, (int) clients);
        }
        return false;
    }
}
