package io.samerack.broker;

import java.util.AbstractSet;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Random;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.GroupAssignment;
import org.apache.kafka.coordinator.group.api.assignor.GroupSpec;
import org.apache.kafka.coordinator.group.api.assignor.MemberAssignment;
import org.apache.kafka.coordinator.group.api.assignor.MemberSubscription;
import org.apache.kafka.coordinator.group.api.assignor.PartitionAssignor;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;

/** A group that tests make and change; it answers an assignor as the group coordinator does. */
final class ProofGroup implements GroupSpec, SubscribedTopicDescriber {
    /** Kafka 4.0 cannot say that a partition may not be assigned. */
    private static final boolean CAN_WITHHOLD = Arrays.stream(GroupSpec.class.getMethods())
            .anyMatch(method -> method.getName().equals("isPartitionAssignable"));

    /** A member: changeable, but for its id. */
    static final class Member implements MemberSubscription, MemberAssignment {
        String rack;
        String instance;
        Set<Uuid> topics = new HashSet<>();
        Map<Uuid, Set<Integer>> owned = new HashMap<>();

        @Override
        public Optional<String> rackId() {
            return Optional.ofNullable(rack);
        }

        @Override
        public Optional<String> instanceId() {
            return Optional.ofNullable(instance);
        }

        @Override
        public Set<Uuid> subscribedTopicIds() {
            return new OnlyIterated(topics);
        }

        @Override
        public Map<Uuid, Set<Integer>> partitions() {
            return Collections.unmodifiableMap(owned); // as the coordinator's, and uniform insists on it
        }
    }

    /** The coordinator's sets of topics have a hash code that goes through the metadata of the whole cluster. */
    private static final class OnlyIterated extends AbstractSet<Uuid> {
        private final Set<Uuid> topics;

        OnlyIterated(Set<Uuid> topics) {
            this.topics = topics;
        }

        @Override
        public Iterator<Uuid> iterator() {
            return topics.iterator();
        }

        @Override
        public int size() {
            return topics.size();
        }

        @Override
        public boolean equals(Object other) {
            throw new AssertionError("sets of topics must not be compared: that takes seconds in a broker");
        }

        @Override
        public int hashCode() {
            throw new AssertionError("sets of topics must not be hashed: that takes seconds in a broker");
        }
    }

    Map<String, Member> members = new LinkedHashMap<>();
    /** By topic and partition: the racks of its replicas. */
    final Map<Uuid, List<Set<String>>> topics = new TreeMap<>();
    /** Partitions that may not be assigned. */
    final Map<Uuid, Set<Integer>> withheld = new HashMap<>();

    static Uuid topic(int number) {
        return new Uuid(0x4000L, number + 1L);
    }

    /** The same group with its members and their topics in another order. */
    ProofGroup permuted(Random dice) {
        ProofGroup other = new ProofGroup();
        List<String> ids = new ArrayList<>(members.keySet());
        Collections.shuffle(ids, dice);
        for (String id : ids) {
            Member member = members.get(id);
            Member copy = new Member();
            copy.rack = member.rack;
            copy.instance = member.instance;
            List<Uuid> wanted = new ArrayList<>(member.topics);
            Collections.shuffle(wanted, dice);
            copy.topics = new java.util.LinkedHashSet<>(wanted);
            copy.owned = new TreeMap<>(member.owned);
            other.members.put(id, copy);
        }
        other.topics.putAll(topics);
        other.withheld.putAll(withheld);
        return other;
    }

    /** Gives every member what a plan says, as the coordinator does once a group has settled. */
    void accept(GroupAssignment plan) {
        members.forEach((id, member) -> {
            Map<Uuid, Set<Integer>> owned = new HashMap<>();
            MemberAssignment given = plan.members().get(id);
            if (given != null) {
                given.partitions().forEach((topic, numbers) -> owned.put(topic, new HashSet<>(numbers)));
            }
            member.owned = owned;
        });
    }

    GroupAssignment assign(PartitionAssignor assignor) {
        return assignor.assign(this, this);
    }

    @Override
    public Collection<String> memberIds() {
        return members.keySet();
    }

    @Override
    public SubscriptionType subscriptionType() {
        Set<Set<Uuid>> distinct = new HashSet<>();
        members.values().forEach(member -> distinct.add(member.topics));
        return distinct.size() <= 1 ? SubscriptionType.HOMOGENEOUS : SubscriptionType.HETEROGENEOUS;
    }

    @Override
    public boolean isPartitionAssigned(Uuid topic, int partition) {
        return members.values().stream()
                .anyMatch(member -> member.owned.getOrDefault(topic, Set.of()).contains(partition));
    }

    @Override
    public boolean isPartitionAssignable(Uuid topic, int partition) {
        return !CAN_WITHHOLD || !withheld.getOrDefault(topic, Set.of()).contains(partition);
    }

    @Override
    public MemberSubscription memberSubscription(String id) {
        return members.get(id);
    }

    @Override
    public MemberAssignment memberAssignment(String id) {
        return members.get(id);
    }

    @Override
    public int numPartitions(Uuid topic) {
        return topics.containsKey(topic) ? topics.get(topic).size() : -1;
    }

    @Override
    public Set<String> racksForPartition(Uuid topic, int partition) {
        return topics.get(topic).get(partition);
    }

    @Override
    public String toString() {
        StringBuilder text = new StringBuilder();
        members.forEach((id, member) -> text.append(id)
                .append(" rack=").append(member.rack)
                .append(" instance=").append(member.instance)
                .append(" topics=").append(new TreeSet<>(member.topics))
                .append(" owned=").append(new TreeMap<>(member.owned))
                .append('\n'));
        return text + "topics=" + topics + "\nwithheld=" + withheld;
    }
}
