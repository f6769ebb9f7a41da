package io.samerack.broker;

import java.util.AbstractMap;
import java.util.AbstractSet;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Iterator;
import java.util.Map;
import java.util.NoSuchElementException;
import java.util.Set;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.GroupAssignment;
import org.apache.kafka.coordinator.group.api.assignor.GroupSpec;
import org.apache.kafka.coordinator.group.api.assignor.MemberAssignment;

/**
 * Turns an owner per partition into the coordinator's types.
 *
 * <p>A member whose partitions do not change gets the very assignment that it has. The others get sorted arrays behind
 * the interfaces of maps and sets, which take a tenth of the memory of hash tables.
 */
final class Plans {
    private Plans() {}

    static GroupAssignment toAssignment(Group group, int[] owner, GroupSpec spec) {
        int members = group.members.length;
        int[] begin = new int[members + 2];
        boolean[] changed = new boolean[members];
        for (int partition = 0; partition < owner.length; partition++) {
            int now = owner[partition];
            int before = group.owner[partition];
            if (now != before) {
                if (now >= 0) {
                    changed[now] = true;
                }
                if (before >= 0) {
                    changed[before] = true;
                }
            }
        }
        for (int member = 0; member < members; member++) {
            changed[member] |= !group.reusable[member];
        }
        for (int now : owner) {
            if (now >= 0 && changed[now]) {
                begin[now + 2]++;
            }
        }
        for (int member = 0; member < members; member++) {
            begin[member + 2] += begin[member + 1];
        }
        int[] partitions = new int[begin[members + 1]];
        for (int partition = 0; partition < owner.length; partition++) {
            int now = owner[partition];
            if (now >= 0 && changed[now]) {
                partitions[begin[now + 1]++] = partition;
            }
        }
        Map<String, MemberAssignment> result = new HashMap<>((int) (members / 0.75f) + 1);
        for (int member = 0; member < members; member++) {
            String id = group.members[member];
            result.put(
                    id,
                    changed[member]
                            ? new Assigned(topicsOf(group, partitions, begin[member], begin[member + 1]))
                            : spec.memberAssignment(id));
        }
        return new GroupAssignment(result);
    }

    private static Map<Uuid, Set<Integer>> topicsOf(Group group, int[] partitions, int begin, int end) {
        int topics = 0;
        int topic = -1;
        int limit = 0;
        int[] numbers = new int[end - begin];
        int[] topicAt = new int[Math.min(numbers.length, group.topics.length)];
        int[] startAt = new int[topicAt.length + 1];
        for (int index = begin; index < end; index++) {
            int partition = partitions[index];
            if (partition >= limit) {
                topic = topicOf(group.first, partition, topic + 1);
                limit = group.first[topic + 1];
                topicAt[topics] = topic;
                startAt[topics++] = index - begin;
            }
            numbers[index - begin] = partition - group.first[topic];
        }
        startAt[topics] = numbers.length;
        Uuid[] ids = new Uuid[topics];
        Numbers[] sets = new Numbers[topics];
        for (int index = 0; index < topics; index++) {
            ids[index] = group.topics[topicAt[index]];
            sets[index] = new Numbers(numbers, startAt[index], startAt[index + 1]);
        }
        return new Topics(ids, sets);
    }

    /** Returns the topic of the partition, which is {@code from} or a later one: the search doubles its steps. */
    private static int topicOf(int[] first, int partition, int from) {
        int low = from;
        int step = 1;
        while (low + step < first.length - 1 && first[low + step] <= partition) {
            low += step;
            step *= 2;
        }
        int high = Math.min(low + step, first.length - 1);
        while (high - low > 1) {
            int middle = (low + high) >>> 1;
            if (first[middle] <= partition) {
                low = middle;
            } else {
                high = middle;
            }
        }
        return low;
    }

    private static final class Assigned implements MemberAssignment {
        private final Map<Uuid, Set<Integer>> partitions;

        Assigned(Map<Uuid, Set<Integer>> partitions) {
            this.partitions = partitions;
        }

        @Override
        public Map<Uuid, Set<Integer>> partitions() {
            return partitions;
        }

        @Override
        public boolean equals(Object other) {
            return other instanceof MemberAssignment
                    && partitions.equals(((MemberAssignment) other).partitions());
        }

        @Override
        public int hashCode() {
            return partitions.hashCode();
        }

        @Override
        public String toString() {
            return partitions.toString();
        }
    }

    /** Partition numbers as a part of a sorted array. */
    private static final class Numbers extends AbstractSet<Integer> {
        private final int[] values;
        private final int begin;
        private final int end;

        Numbers(int[] values, int begin, int end) {
            this.values = values;
            this.begin = begin;
            this.end = end;
        }

        @Override
        public int size() {
            return end - begin;
        }

        @Override
        public boolean contains(Object value) {
            return value instanceof Integer && Arrays.binarySearch(values, begin, end, (Integer) value) >= 0;
        }

        @Override
        public Iterator<Integer> iterator() {
            return new Iterator<>() {
                private int next = begin;

                @Override
                public boolean hasNext() {
                    return next < end;
                }

                @Override
                public Integer next() {
                    if (next >= end) {
                        throw new NoSuchElementException();
                    }
                    return values[next++];
                }
            };
        }
    }

    /** Topics with their partitions as two sorted arrays. */
    private static final class Topics extends AbstractMap<Uuid, Set<Integer>> {
        private final Uuid[] ids;
        private final Numbers[] sets;

        Topics(Uuid[] ids, Numbers[] sets) {
            this.ids = ids;
            this.sets = sets;
        }

        @Override
        public Set<Integer> get(Object id) {
            int index = id instanceof Uuid ? Arrays.binarySearch(ids, id) : -1;
            return index < 0 ? null : sets[index];
        }

        @Override
        public boolean containsKey(Object id) {
            return get(id) != null;
        }

        @Override
        public Set<Entry<Uuid, Set<Integer>>> entrySet() {
            return new AbstractSet<>() {
                @Override
                public int size() {
                    return ids.length;
                }

                @Override
                public Iterator<Entry<Uuid, Set<Integer>>> iterator() {
                    return new Iterator<>() {
                        private int next;

                        @Override
                        public boolean hasNext() {
                            return next < ids.length;
                        }

                        @Override
                        public Entry<Uuid, Set<Integer>> next() {
                            if (next >= ids.length) {
                                throw new NoSuchElementException();
                            }
                            return new SimpleImmutableEntry<>(ids[next], sets[next++]);
                        }
                    };
                }
            };
        }
    }
}
