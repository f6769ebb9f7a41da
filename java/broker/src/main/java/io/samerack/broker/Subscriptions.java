package io.samerack.broker;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.GroupSpec;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;

/**
 * Reads the members' subscriptions and gives equal ones the same number.
 *
 * <p>The coordinator's sets of topics must only be iterated: their hash code goes through the metadata of the whole
 * cluster. Equal sets mostly come in equal order, so a set is compared with the one that began with the same topic, and
 * only where that differs it is sorted and looked up.
 */
final class Subscriptions {
    /** Topics in the order in which they were met. */
    final List<Uuid> topics = new ArrayList<>();

    private final Map<Uuid, Integer> indexOf = new HashMap<>();
    private final Map<Uuid, Integer> byFirstTopic = new HashMap<>();
    private final Map<IntRow, Integer> byTopics = new HashMap<>();
    private final List<Uuid[]> met = new ArrayList<>();
    private final List<int[]> sorted = new ArrayList<>();
    private Uuid[] buffer = new Uuid[16];

    /**
     * Reads a group's subscriptions.
     *
     * @param subscriptionOf by member: set to the number of its subscription
     */
    Subscriptions(GroupSpec spec, String[] members, int[] subscriptionOf) {
        boolean alike = spec.subscriptionType() == SubscriptionType.HOMOGENEOUS;
        for (int member = 0; member < (alike ? Math.min(1, members.length) : members.length); member++) {
            subscriptionOf[member] = numberOf(spec.memberSubscription(members[member]).subscribedTopicIds());
        }
    }

    private int numberOf(Set<Uuid> wanted) {
        Uuid[] like = null;
        Integer candidate = null;
        int count = 0;
        for (Uuid topic : wanted) {
            if (count == 0) {
                candidate = byFirstTopic.get(topic);
                like = candidate == null ? null : met.get(candidate);
            }
            if (like != null && (count == like.length || !topic.equals(like[count]))) {
                like = null;
            }
            if (count == buffer.length) {
                buffer = Arrays.copyOf(buffer, 2 * count);
            }
            buffer[count++] = topic;
        }
        if (like != null && like.length == count) {
            return candidate;
        }
        int[] row = new int[count];
        for (int index = 0; index < count; index++) {
            Integer known = indexOf.putIfAbsent(buffer[index], topics.size());
            row[index] = known == null ? topics.size() : known;
            if (known == null) {
                topics.add(buffer[index]);
            }
        }
        Arrays.sort(row);
        Integer number = byTopics.putIfAbsent(new IntRow(row), sorted.size());
        if (number == null) {
            number = sorted.size();
            sorted.add(row);
            met.add(Arrays.copyOf(buffer, count));
        }
        if (count > 0) {
            byFirstTopic.putIfAbsent(buffer[0], number);
        }
        return number;
    }

    /** Returns the subscriptions with other numbers of topics, ascending, without those that have none. */
    int[][] renumbered(int[] topicOf) {
        int[][] result = new int[sorted.size()][];
        for (int number = 0; number < result.length; number++) {
            int[] row = new int[sorted.get(number).length];
            int count = 0;
            for (int index : sorted.get(number)) {
                if (topicOf[index] >= 0) {
                    row[count++] = topicOf[index];
                }
            }
            result[number] = Arrays.copyOf(row, count);
            Arrays.sort(result[number]);
        }
        return result;
    }
}
