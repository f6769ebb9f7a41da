package samerack.peer;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
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
import java.util.stream.Collectors;
import java.util.stream.Stream;
import java.util.stream.StreamSupport;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.streams.processor.TaskId;
import org.apache.kafka.streams.processor.assignment.ApplicationState;
import org.apache.kafka.streams.processor.assignment.AssignmentConfigs;
import org.apache.kafka.streams.processor.assignment.KafkaStreamsAssignment;
import org.apache.kafka.streams.processor.assignment.KafkaStreamsAssignment.AssignedTask;
import org.apache.kafka.streams.processor.assignment.KafkaStreamsState;
import org.apache.kafka.streams.processor.assignment.ProcessId;
import org.apache.kafka.streams.processor.assignment.TaskAssignmentUtils;
import org.apache.kafka.streams.processor.assignment.TaskAssignmentUtils.RackAwareOptimizationParams;
import org.apache.kafka.streams.processor.assignment.TaskInfo;
import org.apache.kafka.streams.processor.assignment.TaskTopicPartition;
import org.apache.kafka.streams.state.HostInfo;

/**
 * Answers Streams applications with KIP-924's utilities of Kafka's Java client: one JSON object per line in, one out.
 *
 * <p>In: as {@code samerack assign --lines} takes them; with {@code "kind": "default"} standbys are added
 * instead. Out: {@code {"active": {client: [task, ...]}, "standby": {...}}}, sorted. Clients are in the order of the
 * question, which is that of their process ids.
 */
public final class StreamsPeer {
    private static final ObjectMapper JSON = new ObjectMapper();

    private StreamsPeer() {
    }

    /** Answers until its input ends. */
    public static void main(String[] arguments) throws IOException {
        BufferedReader questions = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream answers = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        for (String line = questions.readLine(); line != null; line = questions.readLine()) {
            answers.println(JSON.writeValueAsString(answer(JSON.readTree(line))));
        }
    }

    private static Map<String, Map<String, List<String>>> answer(JsonNode question) {
        Application application = Application.of(question);
        Map<ProcessId, KafkaStreamsAssignment> plan = plan(question);
        switch (question.get("kind").asText()) {
            case "active" -> TaskAssignmentUtils.optimizeRackAwareActiveTasks(parameters(question, application), plan);
            case "standby" -> TaskAssignmentUtils.optimizeRackAwareStandbyTasks(parameters(question, application), plan);
            default -> TaskAssignmentUtils.defaultStandbyTaskAssignment(application, plan);
        }
        return Map.of(
            "active", tasks(question, plan, AssignedTask.Type.ACTIVE),
            "standby", tasks(question, plan, AssignedTask.Type.STANDBY));
    }

    private static RackAwareOptimizationParams parameters(JsonNode question, ApplicationState application) {
        RackAwareOptimizationParams all = RackAwareOptimizationParams.of(application);
        JsonNode only = question.path("tasks_to_optimize");
        if (only.isArray()) {
            return all.forTasks(stream(only).map(task -> TaskId.parse(task.asText()))
                .collect(Collectors.toCollection(TreeSet::new)));
        }
        return switch (only.asText("")) {
            case "stateful" -> all.forStatefulTasks();
            case "stateless" -> all.forStatelessTasks();
            default -> all;
        };
    }

    private static Map<ProcessId, KafkaStreamsAssignment> plan(JsonNode question) {
        Map<ProcessId, KafkaStreamsAssignment> plan = new TreeMap<>();
        int number = 0;
        for (JsonNode client : question.get("clients")) {
            ProcessId process = process(++number);
            Set<AssignedTask> tasks = new HashSet<>();
            stream(question.path("assignment").path(client.get("id").asText())).forEach(task ->
                tasks.add(new AssignedTask(TaskId.parse(task.asText()), AssignedTask.Type.ACTIVE)));
            stream(question.path("standby").path(client.get("id").asText())).forEach(task ->
                tasks.add(new AssignedTask(TaskId.parse(task.asText()), AssignedTask.Type.STANDBY)));
            plan.put(process, KafkaStreamsAssignment.of(process, tasks));
        }
        return plan;
    }

    private static Map<String, List<String>> tasks(
            JsonNode question, Map<ProcessId, KafkaStreamsAssignment> plan, AssignedTask.Type type) {
        Map<String, List<String>> tasks = new LinkedHashMap<>();
        int number = 0;
        for (JsonNode client : question.get("clients")) {
            tasks.put(client.get("id").asText(), plan.get(process(++number)).tasks().values().stream()
                .filter(task -> task.type() == type)
                .map(AssignedTask::id).sorted().map(TaskId::toString).toList());
        }
        return tasks;
    }

    private static ProcessId process(int number) {
        return new ProcessId(new UUID(0, number));
    }

    private static Stream<JsonNode> stream(JsonNode array) {
        return StreamSupport.stream(array.spliterator(), false);
    }

    private static TaskTopicPartition partition(JsonNode given) {
        Set<String> racks = stream(given.path("racks")).map(JsonNode::asText).collect(Collectors.toSet());
        return new StreamsPartition(
            new TopicPartition(given.get("topic").asText(), given.get("partition").asInt()),
            given.path("source").asBoolean(true), given.path("changelog").asBoolean(false), Optional.of(racks));
    }

    private record Application(Map<ProcessId, KafkaStreamsState> states, AssignmentConfigs assignmentConfigs,
                               Map<TaskId, TaskInfo> allTasks) implements ApplicationState {
        static Application of(JsonNode question) {
            Map<ProcessId, KafkaStreamsState> states = new TreeMap<>();
            for (JsonNode client : question.get("clients")) {
                ProcessId process = process(states.size() + 1);
                Map<String, String> tags = new HashMap<>();
                client.path("tags").properties().forEach(tag -> tags.put(tag.getKey(), tag.getValue().asText()));
                Optional<String> rack = Optional.ofNullable(client.path("rack").asText(null));
                states.put(process, new Client(process, client.path("threads").asInt(1), tags, rack));
            }
            Map<TaskId, TaskInfo> tasks = new LinkedHashMap<>();
            for (JsonNode task : question.get("tasks")) {
                TaskId id = new TaskId(task.get("subtopology").asInt(), task.get("partition").asInt());
                Set<TaskTopicPartition> partitions = stream(task.path("partitions")).map(StreamsPeer::partition)
                    .collect(Collectors.toSet());
                tasks.put(id, new StreamsTask(id, task.path("stateful").asBoolean(), Set.of(), partitions));
            }
            return new Application(states, configs(question), tasks);
        }

        private static AssignmentConfigs configs(JsonNode question) {
            List<String> tags = stream(question.path("rack_aware_assignment_tags")).map(JsonNode::asText).toList();
            return new AssignmentConfigs(10_000L, 2, question.path("num_standby_replicas").asInt(0), 600_000L, tags,
                OptionalInt.of(question.path("traffic_cost").asInt(0)),
                OptionalInt.of(question.path("non_overlap_cost").asInt(0)),
                question.path("strategy").asText("none"));
        }

        @Override
        public Map<ProcessId, KafkaStreamsState> kafkaStreamsStates(boolean computeTaskLags) {
            return states;
        }
    }

    /** A client of which nothing is known but who it is: what these utilities ask for. */
    private record Client(ProcessId processId, int numProcessingThreads, Map<String, String> clientTags,
                          Optional<String> rackId) implements KafkaStreamsState {
        @Override
        public SortedSet<String> consumerClientIds() {
            return new TreeSet<>();
        }

        @Override
        public SortedSet<TaskId> previousActiveTasks() {
            return new TreeSet<>();
        }

        @Override
        public SortedSet<TaskId> previousStandbyTasks() {
            return new TreeSet<>();
        }

        @Override
        public long lagFor(TaskId task) {
            throw new UnsupportedOperationException();
        }

        @Override
        public SortedSet<TaskId> prevTasksByLag(String consumer) {
            throw new UnsupportedOperationException();
        }

        @Override
        public Map<TaskId, Long> statefulTasksToLagSums() {
            throw new UnsupportedOperationException();
        }

        @Override
        public Optional<HostInfo> hostInfo() {
            return Optional.empty();
        }
    }
}
