package io.samerack.streams;

import java.util.Set;
import java.util.TreeSet;
import org.apache.kafka.streams.processor.TaskId;
import org.apache.kafka.streams.processor.assignment.KafkaStreamsState;

/** A client, and what it has by now. */
final class TaskHolder {
    final KafkaStreamsState state;
    final int threads;
    final Set<TaskId> active = new TreeSet<>();
    final Set<TaskId> standby = new TreeSet<>();

    TaskHolder(KafkaStreamsState state) {
        this.state = state;
        threads = state.numProcessingThreads();
    }

    boolean has(TaskId task) {
        return active.contains(task) || standby.contains(task);
    }

    int count() {
        return active.size() + standby.size();
    }

    double load() {
        return count() / (double) threads;
    }

    double activeLoad() {
        return active.size() / (double) threads;
    }

    long lag(TaskId task) {
        return state.lagFor(task);
    }

    boolean isCloser(TaskId task, TaskHolder other) {
        int byLag = Long.compare(lag(task), other.lag(task));
        return byLag < 0 || byLag == 0 && state.processId().compareTo(other.state.processId()) < 0;
    }

    /** Whether a standby may move from there to here whatever the tags of its other copies. */
    static boolean hasTagsOf(TaskHolder there, TaskHolder here) {
        return there.state.clientTags().entrySet().stream()
                .allMatch(tag -> tag.getValue().equals(here.state.clientTags().get(tag.getKey())));
    }
}
