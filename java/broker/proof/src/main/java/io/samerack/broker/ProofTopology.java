package io.samerack.broker;

import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.SortedMap;
import java.util.TreeMap;
import java.util.stream.Collectors;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataDelta;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataImage;
import org.apache.kafka.coordinator.group.streams.TopologyMetadata;
import org.apache.kafka.coordinator.group.streams.topics.ConfiguredInternalTopic;
import org.apache.kafka.coordinator.group.streams.topics.ConfiguredSubtopology;

/** The topology of a group as the coordinator of Kafka 4.4 describes it to assignors. */
final class ProofTopology implements CoordinatorMetadataImage {
    private record Topic(String name, List<List<String>> racks) implements TopicMetadata {
        @Override
        public Uuid id() {
            return Uuid.ZERO_UUID;
        }

        @Override
        public int partitionCount() {
            return racks.size();
        }

        @Override
        public List<String> partitionRacks(int partition) {
            return racks.get(partition);
        }
    }

    private final Map<String, Topic> topics = new HashMap<>();

    private ProofTopology() {}

    /** Half of the sources are repartition topics. */
    static TopologyMetadata of(ProofTasks group) {
        ProofTopology image = new ProofTopology();
        SortedMap<String, ConfiguredSubtopology> topology = new TreeMap<>();
        group.topology.forEach((id, subtopology) -> {
            subtopology.topics().forEach((name, racks) -> image.topics.put(name, new Topic(name, racks)));
            Set<String> sources = new HashSet<>(subtopology.topics().keySet());
            sources.removeIf(name -> name.startsWith("c") || name.startsWith("s-more"));
            topology.put(
                    id,
                    new ConfiguredSubtopology(
                            subtopology.tasks(), sources, internal(subtopology, "s-more"), Set.of(), internal(subtopology, "c")));
        });
        return new TopologyMetadata(image, topology);
    }

    private static Map<String, ConfiguredInternalTopic> internal(ProofTasks.Subtopology subtopology, String prefix) {
        return subtopology.topics().entrySet().stream()
                .filter(topic -> topic.getKey().startsWith(prefix))
                .collect(Collectors.toMap(
                        Map.Entry::getKey,
                        topic -> new ConfiguredInternalTopic(
                                topic.getKey(), topic.getValue().size(), Optional.empty(), Map.of())));
    }

    @Override
    public Set<Uuid> topicIds() {
        throw new UnsupportedOperationException();
    }

    @Override
    public Set<String> topicNames() {
        return topics.keySet();
    }

    @Override
    public Optional<TopicMetadata> topicMetadata(String name) {
        return Optional.ofNullable(topics.get(name));
    }

    @Override
    public Optional<TopicMetadata> topicMetadata(Uuid id) {
        throw new UnsupportedOperationException();
    }

    @Override
    public CoordinatorMetadataDelta emptyDelta() {
        return CoordinatorMetadataDelta.EMPTY;
    }

    @Override
    public long version() {
        return 0;
    }

    @Override
    public boolean isEmpty() {
        return topics.isEmpty();
    }
}
