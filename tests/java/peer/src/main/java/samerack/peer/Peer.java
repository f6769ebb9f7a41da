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
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupSubscription;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;

/**
 * Answers groups with the assignors of Kafka's Java client: one JSON object per line in, one out.
 *
 * <p>In: {@code assignor} (range, roundrobin, sticky, cooperative-sticky), {@code brokers}, {@code topics},
 * {@code members}, as {@code samerack assign} takes them. Out: {@code {"assignment": {member: [[topic, partition], ...]}}}, sorted.
 * cooperative-sticky withholds partitions that another member still owns; they are missing from its answer.
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
            answers.println(JSON.writeValueAsString(Map.of("assignment", answer(JSON.readTree(line)))));
        }
    }

    private static Map<String, List<List<Object>>> answer(JsonNode question) {
        Supplier<ConsumerPartitionAssignor> assignor = ASSIGNORS.get(question.get("assignor").asText());
        Map<String, Subscription> group = new HashMap<>();
        for (JsonNode member : question.get("members")) {
            group.put(member.get("id").asText(), subscription(member, assignor.get()));
        }
        Map<String, List<List<Object>>> result = new TreeMap<>();
        assignor.get().assign(cluster(question), new GroupSubscription(group)).groupAssignment()
            .forEach((member, assignment) -> result.put(member, pairs(assignment.partitions())));
        return result;
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
    private static Subscription subscription(JsonNode member, ConsumerPartitionAssignor assignor) {
        List<String> topics = new ArrayList<>();
        member.get("topics").forEach(topic -> topics.add(topic.asText()));
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
