package samerack.peer;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.management.ManagementFactory;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.Set;
import java.util.SortedSet;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.UUID;
import javax.management.ObjectName;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.streams.processor.TaskId;
import org.apache.kafka.streams.processor.assignment.ApplicationState;
import org.apache.kafka.streams.processor.assignment.AssignmentConfigs;
import org.apache.kafka.streams.processor.assignment.KafkaStreamsAssignment;
import org.apache.kafka.streams.processor.assignment.KafkaStreamsAssignment.AssignedTask;
import org.apache.kafka.streams.processor.assignment.KafkaStreamsState;
import org.apache.kafka.streams.processor.assignment.ProcessId;
import org.apache.kafka.streams.processor.assignment.TaskAssignor;
import org.apache.kafka.streams.processor.assignment.TaskInfo;
import org.apache.kafka.streams.processor.assignment.TaskTopicPartition;
import org.apache.kafka.streams.state.HostInfo;

/**
 * Asks samerack's task assignor of the application's side, as Kafka Streams does: one JSON object per line in, one out.
 *
 * <p>In: the agent's address as {@code "url"}, and as {@code "question"} an application in the form in which the
 * assignor posts it; it is read here and handed to the assignor as an {@code ApplicationState}, from which the assignor
 * makes its own document. Out: tasks of each client, whether it gets a follow-up, and the number of fall-backs so far.
 */
public final class JarPeer {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final String ASSIGNOR = "io.samerack.streams.AgentTaskAssignor";

    private JarPeer() {
    }

    /** Answers until its input ends. */
    public static void main(String[] arguments) throws Exception {
        BufferedReader questions = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream answers = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        for (String line = questions.readLine(); line != null; line = questions.readLine()) {
            answers.println(JSON.writeValueAsString(answer(JSON.readTree(line))));
        }
    }

    private static Map<String, Object> answer(JsonNode line) throws Exception {
        String name = line.get("question").get("application").asText();
        TaskAssignor assignor = (TaskAssignor) Class.forName(ASSIGNOR).getConstructor().newInstance();
        assignor.configure(Map.of(
            "application.id", name, "samerack.url", line.get("url").asText(), "samerack.timeout.ms", "60000"));
        List<Map<String, Object>> clients = new ArrayList<>();
        for (KafkaStreamsAssignment found : assignor.assign(new Given(line.get("question"))).assignment()) {
            clients.add(Map.of(
                "process", found.processId().id().toString(),
                "active", tasks(found, AssignedTask.Type.ACTIVE),
                "standby", tasks(found, AssignedTask.Type.STANDBY),
                "followup", found.followupRebalanceDeadline().isPresent()));
        }
        ObjectName metrics = new ObjectName("io.samerack:type=AgentTaskAssignor,application=" + ObjectName.quote(name));
        Object fallbacks = ManagementFactory.getPlatformMBeanServer().getAttribute(metrics, "Fallbacks");
        return Map.of("clients", clients, "fallbacks", fallbacks);
    }

    private static List<String> tasks(KafkaStreamsAssignment found, AssignedTask.Type type) {
        return found.tasks().values().stream().filter(task -> task.type() == type)
            .map(AssignedTask::id).sorted().map(TaskId::toString).toList();
    }

    /** The application of a question. */
    private static final class Given implements ApplicationState {
        private final JsonNode question;
        private final List<TaskId> ids = new ArrayList<>();
        private final Map<TaskId, TaskInfo> tasks = new LinkedHashMap<>();
        private final Map<ProcessId, KafkaStreamsState> clients = new TreeMap<>();

        Given(JsonNode question) {
            this.question = question;
            for (JsonNode row : question.get("tasks")) {
                TaskId id = TaskId.parse(row.get(0).asText());
                Set<TaskTopicPartition> partitions = new HashSet<>();
                row.get(2).forEach(read -> partitions.add(partition(read)));
                ids.add(id);
                tasks.put(id, new StreamsTask(id, row.get(1).asInt() == 1, Set.of(), partitions));
            }
            for (JsonNode row : question.get("clients")) {
                ProcessId process = new ProcessId(UUID.fromString(row.get("process").asText()));
                clients.put(process, client(process, row));
            }
        }

        private StreamsPartition partition(JsonNode read) {
            Set<String> racks = new HashSet<>();
            read.get(3).forEach(rack -> racks.add(question.get("racks").get(rack.asInt()).asText()));
            int kind = read.get(2).asInt();
            TopicPartition place = new TopicPartition(
                question.get("topics").get(read.get(0).asInt()).asText(), read.get(1).asInt());
            return new StreamsPartition(place, (kind & 1) != 0, (kind & 2) != 0,
                racks.isEmpty() ? Optional.empty() : Optional.of(racks));
        }

        private Client client(ProcessId process, JsonNode row) {
            Map<String, String> tags = new HashMap<>();
            row.get("tags").properties().forEach(tag -> tags.put(tag.getKey(), tag.getValue().asText()));
            Map<TaskId, Long> lags = new HashMap<>();
            row.get("lags").forEach(lag -> lags.put(ids.get(lag.get(0).asInt()), lag.get(1).asLong()));
            Optional<String> rack = row.get("rack").isNull()
                ? Optional.empty()
                : Optional.of(question.get("racks").get(row.get("rack").asInt()).asText());
            SortedSet<String> consumers = new TreeSet<>();
            row.get("consumers").forEach(consumer -> consumers.add(consumer.asText()));
            return new Client(process, row.get("threads").asInt(), consumers, previous(row.get("active")),
                previous(row.get("standby")), lags, tags, rack);
        }

        private SortedSet<TaskId> previous(JsonNode numbers) {
            SortedSet<TaskId> found = new TreeSet<>();
            numbers.forEach(number -> found.add(ids.get(number.asInt())));
            return found;
        }

        @Override
        public AssignmentConfigs assignmentConfigs() {
            JsonNode configs = question.get("configs");
            List<String> tags = new ArrayList<>();
            configs.get("rack_aware_assignment_tags").forEach(tag -> tags.add(tag.asText()));
            return new AssignmentConfigs(
                configs.get("acceptable_recovery_lag").asLong(), configs.get("max_warmup_replicas").asInt(),
                configs.get("num_standby_replicas").asInt(), configs.get("probing_rebalance_interval_ms").asLong(), tags,
                optional(configs.get("rack_aware_traffic_cost")), optional(configs.get("rack_aware_non_overlap_cost")),
                configs.get("rack_aware_strategy").asText());
        }

        private static OptionalInt optional(JsonNode given) {
            return given.isNull() ? OptionalInt.empty() : OptionalInt.of(given.asInt());
        }

        @Override
        public Map<TaskId, TaskInfo> allTasks() {
            return tasks;
        }

        @Override
        public Map<ProcessId, KafkaStreamsState> kafkaStreamsStates(boolean computeTaskLags) {
            return clients;
        }
    }

    private record Client(ProcessId processId, int numProcessingThreads, SortedSet<String> consumerClientIds,
                          SortedSet<TaskId> previousActiveTasks, SortedSet<TaskId> previousStandbyTasks,
                          Map<TaskId, Long> statefulTasksToLagSums, Map<String, String> clientTags,
                          Optional<String> rackId) implements KafkaStreamsState {
        @Override
        public long lagFor(TaskId task) {
            return statefulTasksToLagSums.get(task);
        }

        @Override
        public SortedSet<TaskId> prevTasksByLag(String consumer) {
            throw new UnsupportedOperationException();
        }

        @Override
        public Optional<HostInfo> hostInfo() {
            return Optional.empty();
        }
    }
}
