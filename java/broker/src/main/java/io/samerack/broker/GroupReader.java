package io.samerack.broker;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.GroupSpec;
import org.apache.kafka.coordinator.group.api.assignor.PartitionAssignorException;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;

/** Reads what the group coordinator knows of a group into a {@link Group}. Topics that do not exist are ignored. */
final class GroupReader {
    static final int MAX_PARTITIONS = 1 << 26;

    private final GroupSpec spec;
    private final SubscribedTopicDescriber describer;
    private final String[] members;
    private final Map<Uuid, Integer> topicIndex = new HashMap<>();
    private Uuid[] topics = new Uuid[0];
    private int[] first = new int[1];
    private final int[] subscriptionOf;
    private int[][] subscriptions = new int[0][];
    private boolean canAskAssignable = true;

    private GroupReader(GroupSpec spec, SubscribedTopicDescriber describer) {
        this.spec = spec;
        this.describer = describer;
        members = sortedMembers(spec);
        subscriptionOf = new int[members.length];
    }

    /**
     * Reads a group.
     *
     * @throws PartitionAssignorException the group has more partitions than an assignor can count
     */
    static Group read(GroupSpec spec, SubscribedTopicDescriber describer, Limits limits) {
        return new GroupReader(spec, describer).read(limits);
    }

    private Group read(Limits limits) {
        readSubscriptions();
        int[] limitOf = readLimits(limits);
        int[] columnOf = new int[members.length];
        Map<String, Integer> columnOfRack = new HashMap<>();
        int columns = readColumns(columnOf, columnOfRack);
        int[] row = new int[first[topics.length]];
        boolean[][] near = readRows(row, columnOfRack, columns);
        int[] owner = new int[row.length];
        boolean[] reusable = new boolean[members.length];
        readOwners(row, owner, reusable);
        return new Group(
                members, columnOf, columns, topics, first, subscriptionOf, subscriptions, limitOf, row, near, owner,
                reusable);
    }

    /** Static members keep their place when they restart with a new member id (KIP-345). */
    private static String[] sortedMembers(GroupSpec spec) {
        List<String> dynamic = new ArrayList<>(spec.memberIds().size());
        List<String[]> fixed = new ArrayList<>();
        for (String member : spec.memberIds()) {
            String instance = spec.memberSubscription(member).instanceId().orElse(null);
            if (instance == null) {
                dynamic.add(member);
            } else {
                fixed.add(new String[] {instance, member});
            }
        }
        fixed.sort(Comparator.<String[], String>comparing(pair -> pair[0]).thenComparing(pair -> pair[1]));
        String[] sorted = new String[fixed.size() + dynamic.size()];
        for (int index = 0; index < fixed.size(); index++) {
            sorted[index] = fixed.get(index)[1];
        }
        String[] others = dynamic.toArray(new String[0]);
        Arrays.sort(others);
        System.arraycopy(others, 0, sorted, fixed.size(), others.length);
        return sorted;
    }

    private void readSubscriptions() {
        Subscriptions read = new Subscriptions(spec, members, subscriptionOf);
        int[] count = new int[read.topics.size()];
        List<Uuid> existing = new ArrayList<>();
        for (int index = 0; index < count.length; index++) {
            count[index] = describer.numPartitions(read.topics.get(index));
            if (count[index] > 0) {
                existing.add(read.topics.get(index));
            }
        }
        topics = existing.toArray(new Uuid[0]);
        Arrays.sort(topics);
        for (int topic = 0; topic < topics.length; topic++) {
            topicIndex.put(topics[topic], topic);
        }
        first = new int[topics.length + 1];
        int[] topicOf = new int[count.length];
        for (int index = 0; index < count.length; index++) {
            Integer topic = topicIndex.get(read.topics.get(index));
            topicOf[index] = topic == null ? -1 : topic;
            if (topic != null) {
                first[topic + 1] = count[index];
            }
        }
        long sum = 0;
        for (int topic = 1; topic < first.length; topic++) {
            sum += first[topic];
            if (sum > MAX_PARTITIONS) {
                throw new PartitionAssignorException("the group has more than " + MAX_PARTITIONS + " partitions");
            }
            first[topic] = (int) sum;
        }
        subscriptions = read.renumbered(topicOf);
    }

    /** Returns the limits by subscription; from here on, members with different limits have different ones. */
    private int[] readLimits(Limits limits) {
        int[] limit = new int[members.length];
        Arrays.fill(limit, Limits.NONE);
        boolean limited = false;
        for (int member = 0; limits != Limits.OF_NOBODY && member < members.length; member++) {
            Optional<String> instance = spec.memberSubscription(members[member]).instanceId();
            if (instance.isEmpty()) {
                break; // static members come first
            }
            limit[member] = limits.of(instance.get());
            limited |= limit[member] != Limits.NONE;
        }
        if (!limited) {
            return Arrays.copyOf(limit, subscriptions.length); // as many as members at most
        }
        int[][] topicsOf = subscriptions;
        subscriptions = new int[members.length][];
        Map<IntRow, Integer> known = new HashMap<>();
        for (int member = 0; member < members.length; member++) {
            int number = known.size();
            Integer before = known.putIfAbsent(new IntRow(new int[] {subscriptionOf[member], limit[member]}), number);
            number = before == null ? number : before;
            subscriptions[number] = topicsOf[subscriptionOf[member]];
            limit[number] = limit[member];
            subscriptionOf[member] = number;
        }
        subscriptions = Arrays.copyOf(subscriptions, known.size());
        return Arrays.copyOf(limit, known.size());
    }

    private int readColumns(int[] columnOf, Map<String, Integer> columnOfRack) {
        String[] rackOf = new String[members.length];
        Set<String> distinct = new HashSet<>();
        boolean someWithout = false;
        for (int member = 0; member < members.length; member++) {
            String rack = spec.memberSubscription(members[member]).rackId().orElse("");
            rackOf[member] = rack;
            if (rack.isEmpty()) {
                someWithout = true;
            } else {
                distinct.add(rack);
            }
        }
        TreeSet<String> racks = new TreeSet<>(distinct);
        for (String rack : racks) {
            columnOfRack.put(rack, columnOfRack.size());
        }
        for (int member = 0; member < members.length; member++) {
            columnOf[member] = rackOf[member].isEmpty() ? racks.size() : columnOfRack.get(rackOf[member]);
        }
        return racks.size() + (someWithout ? 1 : 0);
    }

    private boolean[][] readRows(int[] row, Map<String, Integer> columnOfRack, int columns) {
        boolean withRacks = columns > 1; // with one column every plan reads the same across racks
        Rows rows = new Rows(columnOfRack, columns);
        for (int topic = 0; topic < topics.length; topic++) {
            Uuid id = topics[topic];
            int begin = first[topic];
            for (int partition = begin; partition < first[topic + 1]; partition++) {
                int number = partition - begin;
                if (!isAssignable(id, number)) {
                    row[partition] = Group.NOBODY;
                } else if (withRacks) {
                    row[partition] = rows.codeOf(describer.racksForPartition(id, number));
                }
            }
        }
        return renumbered(row, rows, columns);
    }

    /** Kafka has this question from 4.1 on; before, every partition may be assigned. */
    private boolean isAssignable(Uuid topic, int partition) {
        try {
            return !canAskAssignable || spec.isPartitionAssignable(topic, partition);
        } catch (NoSuchMethodError | AbstractMethodError olderKafka) {
            canAskAssignable = false;
            return true;
        }
    }

    /** Numbers the rows by first use, equal ones alike, and returns which columns are near by row. */
    private static boolean[][] renumbered(int[] row, Rows rows, int columns) {
        int[] number = new int[rows.codes()];
        Arrays.fill(number, -1);
        Map<String, Integer> distinct = new HashMap<>();
        List<boolean[]> near = new ArrayList<>();
        for (int partition = 0; partition < row.length; partition++) {
            int code = row[partition];
            if (code < 0) {
                continue;
            }
            if (number[code] < 0) {
                boolean[] columnsNear = rows.near(code);
                String key = Arrays.toString(columnsNear);
                Integer index = distinct.get(key);
                if (index == null) {
                    index = near.size();
                    distinct.put(key, index);
                    near.add(columnsNear);
                }
                number[code] = index;
            }
            row[partition] = number[code];
        }
        return near.toArray(new boolean[0][]);
    }

    /** A partition that two members have is nobody's: the coordinator never lets that happen, but it decides nothing. */
    private void readOwners(int[] row, int[] owner, boolean[] reusable) {
        final int contested = -2;
        Arrays.fill(owner, Group.NOBODY);
        boolean anyContested = false;
        for (int member = 0; member < members.length; member++) {
            boolean all = true;
            for (Map.Entry<Uuid, Set<Integer>> entry :
                    spec.memberAssignment(members[member]).partitions().entrySet()) {
                Integer topic = topicIndex.get(entry.getKey());
                if (topic == null || Arrays.binarySearch(subscriptions[subscriptionOf[member]], topic) < 0) {
                    all = false;
                    continue;
                }
                int begin = first[topic];
                int count = first[topic + 1] - begin;
                for (int number : entry.getValue()) {
                    int partition = begin + number;
                    if (number < 0 || number >= count || row[partition] < 0) {
                        all = false;
                    } else if (owner[partition] == Group.NOBODY) {
                        owner[partition] = member;
                    } else {
                        anyContested = true;
                        owner[partition] = contested;
                    }
                }
            }
            reusable[member] = all;
        }
        if (anyContested) {
            Arrays.fill(reusable, false);
            for (int partition = 0; partition < owner.length; partition++) {
                owner[partition] = Math.max(owner[partition], Group.NOBODY);
            }
        }
    }
}
