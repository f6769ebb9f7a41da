package io.samerack.broker;

import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.metadata.PartitionRecord;
import org.apache.kafka.common.metadata.RegisterBrokerRecord;
import org.apache.kafka.common.metadata.TopicRecord;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataImage;
import org.apache.kafka.coordinator.common.runtime.KRaftCoordinatorMetadataImage;
import org.apache.kafka.coordinator.group.api.assignor.GroupAssignment;
import org.apache.kafka.coordinator.group.api.assignor.GroupSpec;
import org.apache.kafka.coordinator.group.api.assignor.MemberAssignment;
import org.apache.kafka.coordinator.group.api.assignor.PartitionAssignor;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.assignor.RangeAssignor;
import org.apache.kafka.coordinator.group.assignor.UniformAssignor;
import org.apache.kafka.coordinator.group.modern.Assignment;
import org.apache.kafka.coordinator.group.modern.GroupSpecImpl;
import org.apache.kafka.coordinator.group.modern.MemberSubscriptionAndAssignmentImpl;
import org.apache.kafka.coordinator.group.modern.SubscribedTopicDescriberImpl;
import org.apache.kafka.coordinator.group.modern.TopicIds;
import org.apache.kafka.image.MetadataDelta;
import org.apache.kafka.image.MetadataImage;
import org.apache.kafka.image.MetadataProvenance;
import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.BenchmarkMode;
import org.openjdk.jmh.annotations.Level;
import org.openjdk.jmh.annotations.Mode;
import org.openjdk.jmh.annotations.OutputTimeUnit;
import org.openjdk.jmh.annotations.Param;
import org.openjdk.jmh.annotations.Scope;
import org.openjdk.jmh.annotations.Setup;
import org.openjdk.jmh.annotations.State;

/**
 * Measures the assignor beside Kafka's own, with the coordinator's own classes around them.
 *
 * <p>The shapes are those of Kafka's benchmark of server-side assignors: members, partitions and topics; all members with
 * the same topics, or five buckets of them; a new group, or one that a member joins. What members have is kept as the
 * coordinator keeps it after it has read its records. Partitions have two replicas on four brokers in three racks; with
 * {@code racks=false} members name none.
 */
@State(Scope.Benchmark)
@BenchmarkMode(Mode.AverageTime)
@OutputTimeUnit(TimeUnit.MILLISECONDS)
public class AssignorBenchmark {
    private static final int RACKS = 3;
    private static final int BUCKETS = 5;

    /** Members, partitions and topics. */
    @Param({"10000x100000x100"})
    public String shape;

    /** Whether members have racks. */
    @Param({"true", "false"})
    public boolean racks;

    /** Whether members subscribe to the same topics. */
    @Param({"HOMOGENEOUS", "HETEROGENEOUS"})
    public SubscriptionType subscription;

    /** FULL for a new group, INCREMENTAL for one that a member joins. */
    @Param({"FULL", "INCREMENTAL"})
    public String change;

    /**
     * Which assignor; "reading" is the part of samerack that reads the group and plans nothing, "spread" (on request) samerack
     * with the spread of topics first.
     */
    @Param({"samerack", "reading", "uniform", "range"})
    public String assignor;

    private PartitionAssignor measured;
    private TopicIds.TopicResolver resolver;
    private SubscribedTopicDescriber describer;
    private GroupSpec group;

    /** Makes the group. */
    @Setup(Level.Trial)
    public void setUp() {
        String[] sizes = shape.split("x");
        int members = Integer.parseInt(sizes[0]);
        int partitions = Integer.parseInt(sizes[1]);
        int topics = Integer.parseInt(sizes[2]);
        measured = switch (assignor) {
            case "samerack" -> new RackAwareAssignor();
            case "reading" -> new Reading();
            case "spread" -> Proof.assignor(BruteForce.settings(BruteForce.SPREAD));
            case "uniform" -> new UniformAssignor();
            default -> new RangeAssignor();
        };
        List<String> names = new ArrayList<>();
        for (int topic = 0; topic < topics; topic++) {
            names.add("topic" + topic);
        }
        CoordinatorMetadataImage image = image(names, partitions / topics);
        resolver = new TopicIds.CachedTopicResolver(image);
        describer = new SubscribedTopicDescriberImpl(image);
        boolean joins = change.equals("INCREMENTAL");
        Map<String, MemberSubscriptionAndAssignmentImpl> specs = new HashMap<>();
        for (int member = 0; member < (joins ? members - 1 : members); member++) {
            specs.put("member" + member, spec(member, members, names, Assignment.EMPTY));
        }
        group = new GroupSpecImpl(specs, subscription, Map.of());
        if (joins) {
            PartitionAssignor before = assignor.equals("reading") ? new RackAwareAssignor() : measured;
            group = afterJoin(before.assign(group, describer), members, names);
        }
    }

    private GroupSpec afterJoin(GroupAssignment first, int members, List<String> names) {
        Map<String, MemberSubscriptionAndAssignmentImpl> specs = new HashMap<>();
        Map<Uuid, Map<Integer, String>> owners = new HashMap<>();
        for (int member = 0; member < members - 1; member++) {
            String id = "member" + member;
            MemberAssignment given = first.members().get(id);
            Map<Uuid, Set<Integer>> owned = new HashMap<>();
            if (given != null) {
                given.partitions().forEach((topic, numbers) -> {
                    owned.put(topic, new HashSet<>(numbers));
                    numbers.forEach(number ->
                            owners.computeIfAbsent(topic, key -> new HashMap<>()).put(number, id));
                });
            }
            Assignment assignment = new Assignment(Collections.unmodifiableMap(owned));
            specs.put(id, spec(member, members, names, assignment));
        }
        specs.put("newMember", spec(members - 1, members, names, Assignment.EMPTY));
        return new GroupSpecImpl(specs, subscription, owners);
    }

    private MemberSubscriptionAndAssignmentImpl spec(
            int member, int members, List<String> names, Assignment assignment) {
        List<String> wanted = names;
        if (subscription == SubscriptionType.HETEROGENEOUS) {
            int bucket = member / ((members + BUCKETS - 1) / BUCKETS);
            int size = (names.size() + BUCKETS - 1) / BUCKETS;
            wanted = names.subList(bucket * size, Math.min((bucket + 1) * size, names.size()));
        }
        return new MemberSubscriptionAndAssignmentImpl(
                racks ? Optional.of("rack" + member % RACKS) : Optional.empty(),
                Optional.empty(),
                new TopicIds(new LinkedHashSet<>(wanted), resolver),
                assignment);
    }

    private static CoordinatorMetadataImage image(List<String> names, int partitions) {
        MetadataDelta delta = new MetadataDelta.Builder().setImage(MetadataImage.EMPTY).build();
        for (int broker = 0; broker < 4; broker++) {
            delta.replay(new RegisterBrokerRecord()
                    .setBrokerId(broker)
                    .setIncarnationId(new Uuid(7, broker))
                    .setBrokerEpoch(broker)
                    .setRack("rack" + broker % RACKS));
        }
        for (int topic = 0; topic < names.size(); topic++) {
            Uuid id = new Uuid(0x4000L + 0x9E3779B97F4A7C15L * topic, topic + 1L);
            delta.replay(new TopicRecord().setTopicId(id).setName(names.get(topic)));
            for (int number = 0; number < partitions; number++) {
                delta.replay(new PartitionRecord()
                        .setTopicId(id)
                        .setPartitionId(number)
                        .setLeader(number % 4)
                        .setReplicas(List.of(number % 4, (number + 1) % 4))
                        .setIsr(List.of(number % 4, (number + 1) % 4)));
            }
        }
        return new KRaftCoordinatorMetadataImage(delta.apply(MetadataProvenance.EMPTY));
    }

    /**
     * Computes one assignment.
     *
     * @return the assignment
     */
    @Benchmark
    public GroupAssignment assign() {
        if (resolver instanceof TopicIds.CachedTopicResolver cached) {
            cached.clear();
        }
        return measured.assign(group, describer);
    }

    /** Reads a group as the assignor does, and gives nobody anything. */
    private static final class Reading implements PartitionAssignor {
        private int partitions;

        @Override
        public String name() {
            return "reading";
        }

        @Override
        public GroupAssignment assign(GroupSpec spec, SubscribedTopicDescriber describer) {
            partitions += GroupReader.read(spec, describer, Limits.OF_NOBODY).partitions(); // kept, so that no reading can be left out
            return new GroupAssignment(Map.of());
        }
    }
}
