package samerack.peer;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.function.Supplier;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Assignment;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupAssignment;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupSubscription;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.clients.consumer.internals.ConsumerProtocol;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.utils.Utils;

/**
 * Answers groups with the assignors of Kafka's Java client: one JSON object per line in, one out.
 *
 * <p>In: {@code assignor} (range, roundrobin, sticky, cooperative-sticky), {@code brokers}, {@code topics},
 * {@code members}, as {@code samerack assign} takes them; {@code repeat} runs, and {@code subscriptions}, lists of
 * topics of which members name one by its index ({@code subscription}) instead of their {@code topics}. Out:
 * {@code {"assignment": {member: [[topic, partition], ...]}, "nanos": median of the later half of the runs}}, sorted.
 * cooperative-sticky withholds partitions that another member still owns; they are missing from its answer.
 * Where members have {@code metadata}, base64 of what they send in JoinGroup, the answer has the bytes of SyncGroup
 * instead of pairs, and the time includes reading and writing the bytes.
 */
public final class Peer {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Map<String, Supplier<ConsumerPartitionAssignor>> ASSIGNORS = Map.of(
        "range", RangeAssignor::new,
        "roundrobin", RoundRobinAssignor::new,
        "sticky", StickyAssignor::new,
        "cooperative-sticky", CooperativeStickyAssignor::new);

    private Peer() {
    }

    /** Answers until its input ends. */
    public static void main(String[] arguments) throws IOException {
        BufferedReader questions = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream answers = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        for (String line = questions.readLine(); line != null; line = questions.readLine()) {
            JsonNode question = JSON.readTree(line);
            boolean bytes = question.get("members").path(0).has("metadata");
            answers.println(JSON.writeValueAsString(bytes ? answerBytes(question) : answer(question)));
        }
    }

    private static Map<String, Object> answer(JsonNode question) {
        Cluster cluster = cluster(question);
        int runs = question.path("repeat").asInt(1);
        long[] nanos = new long[runs];
        GroupAssignment plan = null;
        for (int run = 0; run < runs; run++) {
            // fresh each time: assigning reads user data to their end
            GroupSubscription group = group(question);
            ConsumerPartitionAssignor assignor = ASSIGNORS.get(question.get("assignor").asText()).get();
            long start = System.nanoTime();
            plan = assignor.assign(cluster, group);
            nanos[run] = System.nanoTime() - start;
        }
        Arrays.sort(nanos, runs / 2, runs);
        return Map.of("assignment", pairsByMember(plan), "nanos", nanos[(runs / 2 + runs) / 2]);
    }

    /** From the metadata in JoinGroup to the assignments in SyncGroup, as the coordinator of Kafka's consumer does it. */
    private static Map<String, Object> answerBytes(JsonNode question) throws IOException {
        Cluster cluster = cluster(question);
        int runs = question.path("repeat").asInt(1);
        long[] nanos = new long[runs];
        Map<String, byte[]> metadata = new HashMap<>();
        for (JsonNode member : question.get("members")) {
            metadata.put(member.get("id").asText(), member.get("metadata").binaryValue());
        }
        Map<String, ByteBuffer> sent = new HashMap<>();
        for (int run = 0; run < runs; run++) {
            ConsumerPartitionAssignor assignor = ASSIGNORS.get(question.get("assignor").asText()).get();
            sent = new HashMap<>();
            long start = System.nanoTime();
            Map<String, Subscription> group = new HashMap<>();
            for (Map.Entry<String, byte[]> member : metadata.entrySet()) {
                group.put(member.getKey(), ConsumerProtocol.deserializeSubscription(ByteBuffer.wrap(member.getValue())));
            }
            GroupAssignment plan = assignor.assign(cluster, new GroupSubscription(group));
            for (Map.Entry<String, Assignment> member : plan.groupAssignment().entrySet()) {
                sent.put(member.getKey(), ConsumerProtocol.serializeAssignment(member.getValue()));
            }
            nanos[run] = System.nanoTime() - start;
        }
        Map<String, byte[]> result = new TreeMap<>();
        sent.forEach((member, bytes) -> result.put(member, Utils.toArray(bytes)));
        Arrays.sort(nanos, runs / 2, runs);
        return Map.of("assignment", result, "nanos", nanos[(runs / 2 + runs) / 2]);
    }

    private static Map<String, List<List<Object>>> pairsByMember(GroupAssignment plan) {
        Map<String, List<List<Object>>> result = new TreeMap<>();
        plan.groupAssignment().forEach((member, assignment) -> result.put(member, pairs(assignment.partitions())));
        return result;
    }

    private static GroupSubscription group(JsonNode question) {
        Supplier<ConsumerPartitionAssignor> assignor = ASSIGNORS.get(question.get("assignor").asText());
        List<List<String>> shared = new ArrayList<>();
        question.path("subscriptions").forEach(topics -> shared.add(texts(topics)));
        Map<String, Subscription> group = new HashMap<>();
        for (JsonNode member : question.get("members")) {
            JsonNode named = member.path("subscription");
            List<String> topics = named.isMissingNode() ? texts(member.get("topics")) : shared.get(named.asInt());
            group.put(member.get("id").asText(), subscription(member, topics, assignor.get()));
        }
        return new GroupSubscription(group);
    }

    private static Cluster cluster(JsonNode question) {
        Map<Integer, Node> nodes = new HashMap<>();
        for (JsonNode broker : question.get("brokers")) {
            int id = broker.get("id").asInt();
            nodes.put(id, new Node(id, "host", 9092, text(broker, "rack").orElse(null)));
        }
        List<PartitionInfo> partitions = new ArrayList<>();
        question.get("topics").properties().forEach(topic -> {
            int number = 0;
            for (JsonNode replicas : topic.getValue()) {
                Node[] hosts = new Node[replicas.size()];
                for (int index = 0; index < hosts.length; index++) {
                    int id = replicas.get(index).asInt();
                    hosts[index] = nodes.getOrDefault(id, new Node(id, "", -1));
                }
                Node leader = hosts.length == 0 ? null : hosts[0];
                partitions.add(new PartitionInfo(topic.getKey(), number++, leader, hosts, hosts));
            }
        });
        return new Cluster("cluster", nodes.values(), partitions, Set.of(), Set.of());
    }

    /** What the member would send: its user data is written by an assignor of its own that got the partitions before. */
    @SuppressWarnings("removal") // there is no other way to make a ConsumerGroupMetadata
    private static Subscription subscription(JsonNode member, List<String> topics, ConsumerPartitionAssignor assignor) {
        List<TopicPartition> owned = new ArrayList<>();
        member.path("owned").forEach(pair -> owned.add(new TopicPartition(pair.get(0).asText(), pair.get(1).asInt())));
        int generation = member.path("generation").asInt(-1);
        Optional<String> instance = text(member, "instance_id");
        if (generation >= 0) {
            String id = member.get("id").asText();
            assignor.onAssignment(new Assignment(owned), new ConsumerGroupMetadata("group", generation, id, instance));
        }
        ByteBuffer userData = assignor.subscriptionUserData(Set.copyOf(topics));
        boolean eager = assignor instanceof StickyAssignor;
        Subscription subscription = new Subscription(
            topics, userData, eager ? List.of() : owned, generation, text(member, "rack"));
        subscription.setGroupInstanceId(instance);
        return subscription;
    }

    private static List<String> texts(JsonNode array) {
        List<String> result = new ArrayList<>();
        array.forEach(text -> result.add(text.asText()));
        return result;
    }

    private static Optional<String> text(JsonNode object, String key) {
        return Optional.ofNullable(object.path(key).asText(null));
    }

    private static List<List<Object>> pairs(List<TopicPartition> partitions) {
        List<List<Object>> pairs = new ArrayList<>();
        partitions.stream()
            .sorted(Comparator.comparing(TopicPartition::topic).thenComparing(TopicPartition::partition))
            .forEach(partition -> pairs.add(List.of(partition.topic(), partition.partition())));
        return pairs;
    }
}
