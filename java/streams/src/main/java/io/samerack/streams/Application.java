package io.samerack.streams;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.OptionalInt;
import java.util.Set;
import java.util.TreeMap;
import org.apache.kafka.streams.processor.TaskId;
import org.apache.kafka.streams.processor.assignment.ApplicationState;
import org.apache.kafka.streams.processor.assignment.AssignmentConfigs;
import org.apache.kafka.streams.processor.assignment.KafkaStreamsState;
import org.apache.kafka.streams.processor.assignment.ProcessId;
import org.apache.kafka.streams.processor.assignment.TaskInfo;
import org.apache.kafka.streams.processor.assignment.TaskTopicPartition;

/**
 * An application as the agent gets it: tasks, topics and racks are numbers, and their names stand in the document once.
 *
 * <p>Tasks and clients are in their natural order, so that equal applications give equal documents.
 */
final class Application {
    /** Version of the document and of its answer. */
    static final int VERSION = 1;

    /** What Kafka Streams has for the lag of a task when it could not fetch the end offsets of the changelogs. */
    private static final long UNKNOWN_LAG = -3;
    /** In place of the lag of a task that has none. */
    private static final long NO_LAG = Long.MIN_VALUE;
    private static final int SOURCE = 1;
    private static final int CHANGELOG = 2;

    final List<TaskInfo> tasks;
    final Map<ProcessId, KafkaStreamsState> clients;

    private final ApplicationState state;
    private final Map<TaskId, Integer> numberOf = new HashMap<>();
    private final Map<String, Integer> topics = new LinkedHashMap<>();
    private final Map<String, Integer> racks = new LinkedHashMap<>();
    /** By client, lags by the number of the task; null for a client whose lags are unknown. */
    private final Map<ProcessId, long[]> lags = new HashMap<>();
    /** The lag of all clients that name no other, so that a document need not have tasks times clients. */
    private final long[] commonLags;

    Application(ApplicationState state) {
        this.state = state;
        tasks = new ArrayList<>(new TreeMap<>(state.allTasks()).values());
        clients = new TreeMap<>(state.kafkaStreamsStates(true));
        for (TaskInfo task : tasks) {
            numberOf.put(task.id(), numberOf.size());
        }
        clients.forEach((process, client) -> lags.put(process, lags(client)));
        commonLags = commonLags();
    }

    /** Returns a client's lags; Kafka Streams makes them anew at each call, so it is asked once. */
    private long[] lags(KafkaStreamsState client) {
        Map<TaskId, Long> given = client.statefulTasksToLagSums();
        long[] found = new long[tasks.size()];
        for (int task = 0; task < found.length; task++) {
            long lag = given.getOrDefault(tasks.get(task).id(), NO_LAG);
            if (lag == UNKNOWN_LAG) {
                return null;
            }
            found[task] = lag;
        }
        return found;
    }

    /** Returns the largest lag of each task that all clients know: those without any of its state have it. */
    private long[] commonLags() {
        long[] found = null;
        for (long[] client : lags.values()) {
            if (found == null) {
                found = client == null ? null : client.clone();
            } else if (client != null) {
                for (int task = 0; task < found.length; task++) {
                    boolean isKnown = found[task] != NO_LAG && client[task] != NO_LAG;
                    found[task] = isKnown ? Math.max(found[task], client[task]) : NO_LAG;
                }
            }
        }
        return found == null ? noLags() : found;
    }

    private long[] noLags() {
        long[] found = new long[tasks.size()];
        Arrays.fill(found, NO_LAG);
        return found;
    }

    /** Says whether Kafka Streams could not compute the lags of stateful tasks. */
    static boolean lacksLags(ApplicationState state) {
        return state.kafkaStreamsStates(true).values().stream()
                .anyMatch(client -> client.statefulTasksToLagSums().containsValue(UNKNOWN_LAG));
    }

    /**
     * Says whether a task has state that another client restores. Where stores are not logged Kafka Streams calls a task
     * stateful, but has no lag for it, and its own assignor counts it as stateless.
     */
    static boolean hasLoggedState(TaskInfo task) {
        return task.isStateful() && task.topicPartitions().stream().anyMatch(TaskTopicPartition::isChangelog);
    }

    /**
     * Returns the document that asks for a plan.
     *
     * @param settings which application and which assignor
     * @param release version of Kafka Streams
     */
    String toJson(Settings settings, String release) {
        JsonWriter clientRows = new JsonWriter();
        clientRows.startArray();
        clients.forEach((process, client) -> writeClient(clientRows, process, client));
        clientRows.endArray();
        JsonWriter taskRows = new JsonWriter();
        taskRows.startArray();
        tasks.forEach(task -> writeTask(taskRows, task));
        taskRows.endArray();

        JsonWriter json = new JsonWriter();
        json.startObject().key("version").value(VERSION);
        json.key("application").value(settings.application).key("release").value(release);
        writeConfigs(json.key("configs"), settings, state.assignmentConfigs());
        writeTexts(json.key("topics"), topics.keySet());
        writeTexts(json.key("racks"), racks.keySet());
        json.key("tasks").raw(taskRows);
        writeLags(json.key("lags"), commonLags, noLags());
        json.key("clients").raw(clientRows);
        return json.endObject().toString();
    }

    private static void writeConfigs(JsonWriter json, Settings settings, AssignmentConfigs configs) {
        json.startObject().key("assignor").value(settings.assignor);
        json.key("acceptable_recovery_lag").value(configs.acceptableRecoveryLag());
        json.key("max_warmup_replicas").value(configs.maxWarmupReplicas());
        json.key("num_standby_replicas").value(configs.numStandbyReplicas());
        json.key("probing_rebalance_interval_ms").value(configs.probingRebalanceIntervalMs());
        writeTexts(json.key("rack_aware_assignment_tags"), configs.rackAwareAssignmentTags());
        json.key("rack_aware_strategy").value(configs.rackAwareAssignmentStrategy());
        writeOptional(json.key("rack_aware_traffic_cost"), configs.rackAwareTrafficCost());
        writeOptional(json.key("rack_aware_non_overlap_cost"), configs.rackAwareNonOverlapCost());
        json.endObject();
    }

    private void writeTask(JsonWriter json, TaskInfo task) {
        json.startArray().value(task.id().toString()).value(hasLoggedState(task) ? 1 : 0).startArray();
        for (TaskTopicPartition partition : inOrder(task.topicPartitions())) {
            int kind = (partition.isSource() ? SOURCE : 0) | (partition.isChangelog() ? CHANGELOG : 0);
            json.startArray().value(number(topics, partition.topicPartition().topic()));
            json.value(partition.topicPartition().partition()).value(kind);
            Set<String> found = partition.rackIds().orElse(Set.of());
            if (found.isEmpty()) { // a partition has replicas: no rack means that none is known
                json.nothing();
            } else {
                json.startArray();
                found.stream().sorted().forEach(rack -> json.value(number(racks, rack)));
                json.endArray();
            }
            json.endArray();
        }
        json.endArray().endArray();
    }

    private void writeClient(JsonWriter json, ProcessId process, KafkaStreamsState client) {
        json.startObject().key("process").value(process.id().toString());
        json.key("threads").value(client.numProcessingThreads());
        writeTexts(json.key("consumers"), client.consumerClientIds());
        writeTasks(json.key("active"), client.previousActiveTasks());
        writeTasks(json.key("standby"), client.previousStandbyTasks());
        json.key("lags");
        if (lags.get(process) == null) {
            json.nothing();
        } else {
            writeLags(json, lags.get(process), commonLags);
        }
        json.key("host").value(client.hostInfo().map(host -> host.host() + ":" + host.port()).orElse(null));
        json.key("tags").startObject();
        new TreeMap<>(client.clientTags()).forEach((key, value) -> json.key(key).value(value));
        json.endObject().key("rack");
        if (client.rackId().isPresent()) {
            json.value(number(racks, client.rackId().get()));
        } else {
            json.nothing();
        }
        json.endObject();
    }

    /** Tasks that no longer exist are left out: an older topology had them. */
    private void writeTasks(JsonWriter json, Collection<TaskId> given) {
        json.startArray();
        given.stream().map(numberOf::get).filter(number -> number != null).sorted().forEach(number -> json.value(number));
        json.endArray();
    }

    /** Lags that are equal to the others are left out. */
    private static void writeLags(JsonWriter json, long[] given, long[] others) {
        json.startArray();
        for (int task = 0; task < given.length; task++) {
            if (given[task] != NO_LAG && given[task] != others[task]) {
                json.startArray().value(task).value(given[task]).endArray();
            }
        }
        json.endArray();
    }

    private static void writeTexts(JsonWriter json, Collection<String> given) {
        json.startArray();
        given.forEach(json::value);
        json.endArray();
    }

    private static void writeOptional(JsonWriter json, OptionalInt given) {
        if (given.isPresent()) {
            json.value(given.getAsInt());
        } else {
            json.nothing();
        }
    }

    private static List<TaskTopicPartition> inOrder(Collection<TaskTopicPartition> given) {
        Map<String, List<TaskTopicPartition>> byTopic = new TreeMap<>();
        given.forEach(one -> byTopic.computeIfAbsent(one.topicPartition().topic(), none -> new ArrayList<>()).add(one));
        List<TaskTopicPartition> found = new ArrayList<>();
        for (List<TaskTopicPartition> some : byTopic.values()) {
            some.sort((one, other) -> one.topicPartition().partition() - other.topicPartition().partition());
            found.addAll(some);
        }
        return found;
    }

    private static int number(Map<String, Integer> names, String name) {
        Integer known = names.putIfAbsent(name, names.size());
        return known == null ? names.size() - 1 : known;
    }
}
