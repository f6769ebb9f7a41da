package io.samerack.streams;

import java.time.Instant;
import org.apache.kafka.streams.processor.assignment.ApplicationState;
import org.apache.kafka.streams.processor.assignment.TaskAssignor;
import org.apache.kafka.streams.processor.assignment.assignors.StickyTaskAssignor;

/**
 * Plans as Kafka Streams does without a task assignor.
 *
 * <p>Its default, {@code HighAvailabilityTaskAssignor}, is not public and takes other arguments, so that {@link
 * HighAvailability} does its work. Where lags are unknown, previous tasks stay and the group rebalances again, which is
 * what Kafka Streams does then, with this public class.
 */
final class DefaultFallback implements TaskAssignor {
    @Override
    public TaskAssignment assign(ApplicationState state) {
        return Application.lacksLags(state)
                ? new StickyTaskAssignor(true).assign(state)
                : HighAvailability.assign(state, Instant.now());
    }
}
