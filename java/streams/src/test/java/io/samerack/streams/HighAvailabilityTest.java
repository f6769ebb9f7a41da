package io.samerack.streams;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Instant;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.Random;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionInfo;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.processor.TaskId;
import org.apache.kafka.streams.processor.assignment.AssignmentConfigs;
import org.apache.kafka.streams.processor.assignment.KafkaStreamsAssignment;
import org.apache.kafka.streams.processor.assignment.KafkaStreamsAssignment.AssignedTask;
import org.apache.kafka.streams.processor.assignment.KafkaStreamsState;
import org.apache.kafka.streams.processor.assignment.ProcessId;
import org.apache.kafka.streams.processor.assignment.TaskAssignmentUtils;
import org.apache.kafka.streams.processor.assignment.TaskAssignor.AssignmentError;
import org.apache.kafka.streams.processor.assignment.TaskAssignor.TaskAssignment;
import org.apache.kafka.streams.processor.assignment.TaskInfo;
import org.apache.kafka.streams.processor.assignment.TaskTopicPartition;
import org.apache.kafka.streams.processor.internals.InternalTopicManager;
import org.apache.kafka.streams.processor.internals.TopologyMetadata.Subtopology;
import org.apache.kafka.streams.processor.internals.assignment.ClientState;
import org.apache.kafka.streams.processor.internals.assignment.HighAvailabilityTaskAssignor;
import org.apache.kafka.streams.processor.internals.assignment.RackAwareTaskAssignor;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** The fall-back against Kafka's own class, which an application would have without a task assignor. */
class HighAvailabilityTest {
    private static final int APPLICATIONS = 500;
    private static final Instant NOW = Instant.ofEpochMilli(1_000_000);

    @Test
    void withoutRacksAndTagsItPlansAsKafkasOwnClassDoes() {
        int probing = 0;
        for (int seed = 0; seed < APPLICATIONS; seed++) {
            TestApplication application = random(new Random(seed), 10_000, "none", List.of());
            Map<ProcessId, ClientState> kafkas = new TreeMap<>();
            boolean isProbing = assignByKafka(application, kafkas);
            probing += isProbing ? 1 : 0;
            TaskAssignment ours = HighAvailability.assign(application, NOW);
            assertEquals(tasksOf(kafkas), tasksOf(ours), "application " + seed);
            List<Instant> deadlines = ours.assignment().stream()
                    .flatMap(one -> one.followupRebalanceDeadline().stream())
                    .toList();
            assertEquals(isProbing ? List.of(NOW.plusMillis(600_000)) : List.of(), deadlines, "application " + seed);
        }
        assertTrue(probing > APPLICATIONS / 4 && probing < APPLICATIONS, probing + " rebalance again");
    }

    /** The plans may differ where several cost the same. */
    @ParameterizedTest
    @CsvSource({"none, zone", "min_traffic, ''", "min_traffic, zone", "balance_subtopology, ''"})
    void withRacksAndTagsItReadsAsMuchAcrossRacksAsKafkasOwnClassDoes(String strategy, String tags) {
        for (int seed = 0; seed < APPLICATIONS; seed++) {
            TestApplication application =
                    random(new Random(seed), Long.MAX_VALUE, strategy, tags.isEmpty() ? List.of() : List.of(tags));
            Map<ProcessId, ClientState> kafkas = new TreeMap<>();
            assignByKafka(application, kafkas);
            TaskAssignment ours = HighAvailability.assign(application, NOW);
            assertEquals(AssignmentError.NONE, TaskAssignmentUtils.validateTaskAssignment(application, ours));
            assertEquals(crossing(application, tasksOf(kafkas)), crossing(application, tasksOf(ours)), "application " + seed);
            assertEquals(copies(tasksOf(kafkas)), copies(tasksOf(ours)), "application " + seed);
            if (!tags.isEmpty()) {
                Map<TaskId, Integer> kafkasZones = zones(application, tasksOf(kafkas));
                for (Map.Entry<TaskId, Integer> task : zones(application, tasksOf(ours)).entrySet()) {
                    assertTrue(task.getValue() >= kafkasZones.get(task.getKey()), "application " + seed + ", " + task);
                }
            }
        }
    }

    /** In how many zones each task is. */
    private static Map<TaskId, Integer> zones(TestApplication application, Map<ProcessId, Map<TaskId, AssignedTask.Type>> plan) {
        Map<TaskId, Set<String>> found = new TreeMap<>();
        plan.forEach((process, tasks) -> tasks.keySet().forEach(task -> found.computeIfAbsent(task, none -> new HashSet<>())
                .add(application.clients.get(process).clientTags().get("zone"))));
        Map<TaskId, Integer> counts = new TreeMap<>();
        found.forEach((task, zones) -> counts.put(task, zones.size()));
        return counts;
    }

    /** Sources that active tasks read from another rack. */
    private static long crossing(TestApplication application, Map<ProcessId, Map<TaskId, AssignedTask.Type>> plan) {
        return plan.entrySet().stream()
                .flatMap(client -> client.getValue().entrySet().stream()
                        .filter(task -> task.getValue() == AssignedTask.Type.ACTIVE)
                        .flatMap(task -> application.tasks.get(task.getKey()).topicPartitions().stream())
                        .filter(read -> read.isSource()
                                && !read.rackIds()
                                        .orElseThrow()
                                        .contains(application.clients.get(client.getKey()).rackId().orElseThrow())))
                .count();
    }

    /** How often each task is active and standby. */
    private static Map<String, Integer> copies(Map<ProcessId, Map<TaskId, AssignedTask.Type>> plan) {
        Map<String, Integer> found = new TreeMap<>();
        plan.values().forEach(tasks -> tasks.forEach((task, type) -> found.merge(task + " " + type, 1, Integer::sum)));
        return found;
    }

    /** Kafka's own step for racks takes minutes for 600 tasks. */
    @ParameterizedTest
    @CsvSource({"201, true", "240, false"})
    void racksCountUpToASizeThatTakesNoLongerThanAnApplicationCanWait(int tasks, boolean count) {
        TestApplication application = withoutState(tasks, "min_traffic");
        Map<ProcessId, Map<TaskId, AssignedTask.Type>> found = tasksOf(new DefaultFallback().assign(application));
        assertEquals(tasksOf(HighAvailability.assign(withoutState(tasks, count ? "min_traffic" : "none"), NOW)), found);
        assertEquals(count, crossing(application, found) == 0);
    }

    /** Three clients in three racks, and tasks in the rack of the next client in turn. */
    private static TestApplication withoutState(int tasks, String strategy) {
        TestApplication made = new TestApplication();
        String[] racks = {"rack-a", "rack-b", "rack-c"};
        for (int partition = 0; partition < tasks; partition++) {
            made.task(0, partition, false, racks[(partition + 1) % 3]);
        }
        for (int client = 0; client < 3; client++) {
            made.client(client + 1, racks[client], Set.of(), Map.of());
        }
        made.configs = new AssignmentConfigs(
                10_000, 2, 0, 600_000, List.of(), OptionalInt.empty(), OptionalInt.empty(), strategy);
        return made;
    }

    @Test
    void anInstanceThatJoinsWithoutStateGetsAWarmupAndNoActiveTask() {
        TaskId task = new TaskId(0, 0);
        TaskId other = new TaskId(0, 1);
        TestApplication application = new TestApplication()
                .task(0, 0, true)
                .task(0, 1, true)
                .client(1, null, Set.of(task, other), Map.of(task, -2L, other, -2L))
                .client(2, null, Set.of(), Map.of(task, 1_000_000L, other, 1_000_000L));
        application.configs =
                new AssignmentConfigs(10_000, 2, 0, 600_000, List.of(), OptionalInt.empty(), OptionalInt.empty(), "none");
        Map<ProcessId, Map<TaskId, AssignedTask.Type>> found = tasksOf(HighAvailability.assign(application, NOW));
        assertEquals(
                Map.of(task, AssignedTask.Type.ACTIVE, other, AssignedTask.Type.ACTIVE), found.get(TestApplication.process(1)));
        assertEquals(Map.of(other, AssignedTask.Type.STANDBY), found.get(TestApplication.process(2)));
    }

    private static TestApplication random(Random random, long acceptableLag, String strategy, List<String> tags) {
        TestApplication made = new TestApplication();
        String[] racks = {"rack-a", "rack-b", "rack-c"};
        int subtopologies = 1 + random.nextInt(3);
        for (int subtopology = 0; subtopology < subtopologies; subtopology++) {
            boolean stateful = random.nextInt(3) > 0;
            int partitions = 1 + random.nextInt(8);
            for (int partition = 0; partition < partitions; partition++) {
                TaskId id = new TaskId(subtopology, partition);
                Set<TaskTopicPartition> read = new HashSet<>();
                read.add(new TestApplication.Read("in-" + subtopology, partition, true, false, racks[random.nextInt(3)]));
                if (stateful) {
                    read.add(new TestApplication.Read("log-" + subtopology, partition, false, true, racks[random.nextInt(3)]));
                }
                made.tasks.put(id, new TestApplication.Task(id, stateful, read));
            }
        }
        int clients = 1 + random.nextInt(6);
        List<TaskId> left = new ArrayList<>(made.tasks.keySet());
        for (int number = 1; number <= clients; number++) {
            Map<TaskId, Long> lags = new TreeMap<>();
            Set<TaskId> active = new TreeSet<>();
            for (TaskInfo task : made.tasks.values()) {
                if (task.isStateful()) {
                    boolean runs = left.contains(task.id()) && random.nextInt(clients) == 0;
                    lags.put(task.id(), runs ? -2L : random.nextInt(3) == 0 ? random.nextInt(12_000) : 50_000L);
                    if (runs) {
                        left.remove(task.id());
                        active.add(task.id());
                    }
                }
            }
            String rack = racks[random.nextInt(3)];
            ProcessId process = TestApplication.process(number);
            made.clients.put(
                    process,
                    new TestApplication.Client(
                            process,
                            1 + random.nextInt(3),
                            Optional.of(rack),
                            Map.of("zone", rack),
                            active,
                            Set.of(),
                            lags,
                            Optional.empty()));
        }
        made.configs = new AssignmentConfigs(
                acceptableLag,
                1 + random.nextInt(4),
                random.nextInt(3),
                600_000,
                tags,
                OptionalInt.empty(),
                OptionalInt.empty(),
                strategy);
        return made;
    }

    /** Knows where changelogs are, in place of an admin client. */
    private static final class Topics extends InternalTopicManager {
        private final List<PartitionInfo> infos;

        Topics(List<PartitionInfo> infos) {
            super(
                    Time.SYSTEM,
                    null,
                    new StreamsConfig(Map.of(
                            StreamsConfig.APPLICATION_ID_CONFIG, "any", StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, "localhost:1")));
            this.infos = infos;
        }

        @Override
        public Map<String, List<TopicPartitionInfo>> getTopicPartitionInfo(Set<String> topics) {
            Map<String, List<TopicPartitionInfo>> found = new HashMap<>();
            for (PartitionInfo info : infos) {
                List<Node> replicas = List.of(info.replicas());
                found.computeIfAbsent(info.topic(), none -> new ArrayList<>())
                        .add(new TopicPartitionInfo(info.partition(), info.leader(), replicas, replicas));
            }
            found.keySet().retainAll(topics);
            return found;
        }
    }

    private static boolean assignByKafka(TestApplication application, Map<ProcessId, ClientState> clients) {
        Map<String, Node> nodes = new LinkedHashMap<>();
        List<PartitionInfo> infos = new ArrayList<>();
        Map<TaskId, Set<TopicPartition>> sources = new HashMap<>();
        Map<TaskId, Set<TopicPartition>> changelogs = new HashMap<>();
        Map<Subtopology, Set<TaskId>> groups = new HashMap<>();
        Set<TaskId> stateful = new TreeSet<>();
        for (TaskInfo task : application.tasks.values()) {
            groups.computeIfAbsent(new Subtopology(task.id().subtopology(), null), none -> new HashSet<>()).add(task.id());
            sources.put(task.id(), new HashSet<>());
            changelogs.put(task.id(), new HashSet<>());
            if (task.isStateful()) {
                stateful.add(task.id());
            }
            for (TaskTopicPartition partition : task.topicPartitions()) {
                Node[] replicas = partition.rackIds().orElseThrow().stream()
                        .map(rack -> nodes.computeIfAbsent(rack, none -> new Node(nodes.size(), "host", 9092, rack)))
                        .toArray(Node[]::new);
                TopicPartition read = partition.topicPartition();
                infos.add(new PartitionInfo(read.topic(), read.partition(), replicas[0], replicas, replicas));
                (partition.isSource() ? sources : changelogs).get(task.id()).add(read);
            }
        }
        Map<ProcessId, Map<String, Optional<String>>> racks = new HashMap<>();
        for (KafkaStreamsState client : application.clients.values()) {
            racks.put(client.processId(), Map.of(client.consumerClientIds().first(), client.rackId()));
            clients.put(
                    client.processId(),
                    new ClientState(
                            client.previousActiveTasks(),
                            client.previousStandbyTasks(),
                            client.statefulTasksToLagSums(),
                            client.clientTags(),
                            client.numProcessingThreads(),
                            client.processId()));
        }
        Cluster cluster = new Cluster("cluster", nodes.values(), infos, Set.of(), Set.of());
        RackAwareTaskAssignor rackAware = new RackAwareTaskAssignor(
                cluster, sources, changelogs, groups, racks, new Topics(infos), application.configs, Time.SYSTEM);
        return new HighAvailabilityTaskAssignor()
                .assign(clients, application.tasks.keySet(), stateful, rackAware, application.configs);
    }

    private static Map<ProcessId, Map<TaskId, AssignedTask.Type>> tasksOf(Map<ProcessId, ClientState> clients) {
        Map<ProcessId, Map<TaskId, AssignedTask.Type>> found = new TreeMap<>();
        clients.forEach((process, client) -> {
            Map<TaskId, AssignedTask.Type> tasks = new TreeMap<>();
            client.activeTasks().forEach(task -> tasks.put(task, AssignedTask.Type.ACTIVE));
            client.standbyTasks().forEach(task -> tasks.put(task, AssignedTask.Type.STANDBY));
            found.put(process, tasks);
        });
        return found;
    }

    private static Map<ProcessId, Map<TaskId, AssignedTask.Type>> tasksOf(TaskAssignment assignment) {
        Map<ProcessId, Map<TaskId, AssignedTask.Type>> found = new TreeMap<>();
        for (KafkaStreamsAssignment one : assignment.assignment()) {
            Map<TaskId, AssignedTask.Type> tasks = new TreeMap<>();
            one.tasks().forEach((task, assigned) -> tasks.put(task, assigned.type()));
            found.put(one.processId(), tasks);
        }
        return found;
    }
}
