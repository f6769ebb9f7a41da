package io.samerack.streams;

import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.Set;
import java.util.SortedSet;
import java.util.TreeSet;
import java.util.UUID;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.streams.processor.TaskId;
import org.apache.kafka.streams.processor.assignment.ApplicationState;
import org.apache.kafka.streams.processor.assignment.AssignmentConfigs;
import org.apache.kafka.streams.processor.assignment.KafkaStreamsState;
import org.apache.kafka.streams.processor.assignment.ProcessId;
import org.apache.kafka.streams.processor.assignment.TaskInfo;
import org.apache.kafka.streams.processor.assignment.TaskTopicPartition;
import org.apache.kafka.streams.state.HostInfo;

/** An application for tests, as Kafka Streams would hand it over. */
final class TestApplication implements ApplicationState {
    final Map<TaskId, TaskInfo> tasks = new LinkedHashMap<>();
    final Map<ProcessId, KafkaStreamsState> clients = new LinkedHashMap<>();
    AssignmentConfigs configs =
            new AssignmentConfigs(10_000, 2, 1, 600_000, List.of(), OptionalInt.empty(), OptionalInt.empty(), "none");

    static ProcessId process(int number) {
        return new ProcessId(new UUID(0, number));
    }

    /** Adds a task that reads the partition of topic "orders"; one with state has a changelog without known racks. */
    TestApplication task(int subtopology, int partition, boolean stateful, String... racks) {
        TaskId id = new TaskId(subtopology, partition);
        Set<TaskTopicPartition> partitions = stateful
                ? Set.of(new Read("orders", partition, true, false, racks), new Read("log", partition, false, true))
                : Set.of(new Read("orders", partition, true, false, racks));
        tasks.put(id, new Task(id, stateful, partitions));
        return this;
    }

    /** Adds a client of one thread. */
    TestApplication client(int number, String rack, Set<TaskId> active, Map<TaskId, Long> lags) {
        return client(number, rack, Map.of(), active, Set.of(), lags);
    }

    TestApplication client(
            int number,
            String rack,
            Map<String, String> tags,
            Set<TaskId> active,
            Set<TaskId> standby,
            Map<TaskId, Long> lags) {
        clients.put(
                process(number),
                new Client(process(number), 1, Optional.ofNullable(rack), tags, active, standby, lags, Optional.empty()));
        return this;
    }

    @Override
    public Map<ProcessId, KafkaStreamsState> kafkaStreamsStates(boolean computeTaskLags) {
        return clients;
    }

    @Override
    public AssignmentConfigs assignmentConfigs() {
        return configs;
    }

    @Override
    public Map<TaskId, TaskInfo> allTasks() {
        return tasks;
    }

    record Task(TaskId id, boolean isStateful, Set<TaskTopicPartition> topicPartitions) implements TaskInfo {
        @Override
        public Set<String> stateStoreNames() {
            return isStateful ? Set.of("store") : Set.of();
        }
    }

    record Read(TopicPartition topicPartition, boolean isSource, boolean isChangelog, Optional<Set<String>> rackIds)
            implements TaskTopicPartition {
        Read(String topic, int partition, boolean isSource, boolean isChangelog, String... racks) {
            this(
                    new TopicPartition(topic, partition),
                    isSource,
                    isChangelog,
                    racks.length == 0 ? Optional.empty() : Optional.of(Set.of(racks)));
        }
    }

    record Client(
            ProcessId processId,
            int numProcessingThreads,
            Optional<String> rackId,
            Map<String, String> clientTags,
            Collection<TaskId> active,
            Collection<TaskId> standby,
            Map<TaskId, Long> statefulTasksToLagSums,
            Optional<HostInfo> hostInfo)
            implements KafkaStreamsState {
        @Override
        public SortedSet<String> consumerClientIds() {
            return new TreeSet<>(Set.of("consumer-" + processId.id().getLeastSignificantBits()));
        }

        @Override
        public SortedSet<TaskId> previousActiveTasks() {
            return new TreeSet<>(active);
        }

        @Override
        public SortedSet<TaskId> previousStandbyTasks() {
            return new TreeSet<>(standby);
        }

        @Override
        public long lagFor(TaskId task) {
            return statefulTasksToLagSums.get(task);
        }

        @Override
        public SortedSet<TaskId> prevTasksByLag(String consumer) {
            SortedSet<TaskId> found = previousActiveTasks();
            found.addAll(standby);
            return found;
        }
    }
}
