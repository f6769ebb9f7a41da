package io.samerack.streams;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.streams.processor.TaskId;
import org.apache.kafka.streams.processor.assignment.ApplicationState;
import org.apache.kafka.streams.processor.assignment.KafkaStreamsAssignment;
import org.apache.kafka.streams.processor.assignment.KafkaStreamsAssignment.AssignedTask;
import org.apache.kafka.streams.processor.assignment.KafkaStreamsState;
import org.apache.kafka.streams.processor.assignment.ProcessId;
import org.apache.kafka.streams.processor.assignment.TaskAssignor.TaskAssignment;

/**
 * The plan where every assignor has failed: tasks stay where they are, and new ones go to the clients with the fewest per
 * thread. Standbys stay, and there are no new ones.
 */
final class LastResort {
    private LastResort() {}

    static TaskAssignment assign(ApplicationState state) {
        Map<ProcessId, KafkaStreamsState> clients = new TreeMap<>(state.kafkaStreamsStates(false));
        Map<ProcessId, Set<TaskId>> active = new TreeMap<>();
        Set<TaskId> left = new TreeSet<>(state.allTasks().keySet());
        clients.forEach((process, client) -> {
            Set<TaskId> kept = new TreeSet<>(client.previousActiveTasks());
            kept.retainAll(left);
            left.removeAll(kept);
            active.put(process, kept);
        });
        for (TaskId task : left) {
            active.entrySet().stream()
                    .min(Comparator.comparingDouble(entry ->
                            entry.getValue().size() / (double) clients.get(entry.getKey()).numProcessingThreads()))
                    .orElseThrow()
                    .getValue()
                    .add(task);
        }
        List<KafkaStreamsAssignment> found = new ArrayList<>();
        active.forEach((process, tasks) -> {
            Set<AssignedTask> given = new HashSet<>();
            tasks.forEach(task -> given.add(new AssignedTask(task, AssignedTask.Type.ACTIVE)));
            clients.get(process).previousStandbyTasks().stream()
                    .filter(task -> !tasks.contains(task)
                            && state.allTasks().containsKey(task)
                            && state.allTasks().get(task).isStateful())
                    .forEach(task -> given.add(new AssignedTask(task, AssignedTask.Type.STANDBY)));
            found.add(KafkaStreamsAssignment.of(process, given));
        });
        return new TaskAssignment(found);
    }
}
