package io.samerack.broker;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.coordinator.group.api.streams.assignor.GroupSpec;
import org.apache.kafka.coordinator.group.api.streams.assignor.MemberAssignmentMetadata;
import org.apache.kafka.coordinator.group.api.streams.assignor.MemberAssignmentState;
import org.apache.kafka.coordinator.group.api.streams.assignor.TopologyDescriber;

/**
 * A Streams group as arrays: members (stream threads) and processes in a fixed order, tasks by number, who has what.
 *
 * <p>Tasks of one subtopology have consecutive numbers. Tasks that members have and the topology has not are left out.
 */
final class TaskGroup {
    static final int NOBODY = -1;

    /** What a member has of a task: the best first. */
    enum Held {
        ACTIVE,
        COPY,
        /** An offset that it reported: its process has files of the state, of some age. */
        FILES
    }

    final String[] members;
    final int[] processOf;
    /** By process. */
    final int[][] membersOf;
    /** By process; NOBODY where it sends none. */
    final int[] rackOf;
    /** By process: the values of the tags that keep copies apart. */
    final List<Map<String, String>> tags = new ArrayList<>();
    final String[] racks;
    final String[] subtopologies;
    /** By subtopology, and one more: the number of its first task. */
    final int[] first;
    final boolean[] stateful;
    /** By task: what members have of it. */
    final List<Map<Integer, Held>> held = new ArrayList<>();
    /** By task: the member that runs it. */
    final int[] runner;
    final int standbys;

    TaskGroup(GroupSpec spec, TopologyDescriber describer) {
        members = spec.memberIds().toArray(new String[0]);
        Arrays.sort(members, Comparator.comparing((String id) -> spec.memberMetadata(id).processId())
                .thenComparing(id -> spec.memberMetadata(id).instanceId().orElse(""))
                .thenComparing(id -> id));
        processOf = new int[members.length];
        Map<String, List<Integer>> ofProcess = new TreeMap<>();
        for (int member = 0; member < members.length; member++) {
            String process = spec.memberMetadata(members[member]).processId();
            ofProcess.computeIfAbsent(process, key -> new ArrayList<>()).add(member);
            processOf[member] = ofProcess.size() - 1; // members of one process follow each other
        }
        membersOf = ofProcess.values().stream()
                .map(list -> list.stream().mapToInt(Integer::intValue).toArray())
                .toArray(int[][]::new);
        racks = racks(spec);
        rackOf = new int[membersOf.length];
        Arrays.fill(rackOf, NOBODY);
        for (int process = 0; process < membersOf.length; process++) {
            Map<String, String> values = new HashMap<>();
            for (int member : membersOf[process]) {
                MemberAssignmentMetadata metadata = spec.memberMetadata(members[member]);
                if (metadata.rackId().isPresent()) {
                    rackOf[process] = Arrays.binarySearch(racks, metadata.rackId().get());
                }
                values.putAll(metadata.clientTags());
            }
            values.keySet().retainAll(spec.configs().rackAwareAssignmentTags());
            tags.add(values);
        }
        subtopologies = new TreeSet<>(describer.subtopologies()).toArray(new String[0]);
        first = new int[subtopologies.length + 1];
        stateful = new boolean[subtopologies.length];
        for (int index = 0; index < subtopologies.length; index++) {
            first[index + 1] = first[index] + describer.maxNumInputPartitions(subtopologies[index]);
            stateful[index] = describer.isStateful(subtopologies[index]);
        }
        runner = new int[tasks()];
        Arrays.fill(runner, NOBODY);
        for (int task = 0; task < runner.length; task++) {
            held.add(new TreeMap<>());
        }
        for (int member = 0; member < members.length; member++) {
            MemberAssignmentState state = spec.memberAssignmentState(members[member]);
            hold(state.activeTasks(), member, Held.ACTIVE);
            hold(state.standbyTasks(), member, Held.COPY);
            hold(state.warmupTasks(), member, Held.COPY);
            for (Map.Entry<String, Map<Integer, Long>> entry : state.taskOffsets().entrySet()) {
                hold(Map.of(entry.getKey(), entry.getValue().keySet()), member, Held.FILES);
            }
        }
        standbys = Math.min(spec.configs().numStandbyReplicas(), membersOf.length - 1);
    }

    private static String[] racks(GroupSpec spec) {
        Set<String> found = new TreeSet<>();
        spec.memberIds().forEach(id -> spec.memberMetadata(id).rackId().ifPresent(found::add));
        return found.toArray(new String[0]);
    }

    private void hold(Map<String, Set<Integer>> tasks, int member, Held what) {
        tasks.forEach((subtopology, partitions) -> {
            int index = Arrays.binarySearch(subtopologies, subtopology);
            for (int partition : partitions) {
                if (index >= 0 && partition >= 0 && partition < first[index + 1] - first[index]) {
                    int task = first[index] + partition;
                    held.get(task).merge(member, what, (one, other) -> one.compareTo(other) <= 0 ? one : other);
                    if (what == Held.ACTIVE) {
                        runner[task] = member;
                    }
                }
            }
        });
    }

    int tasks() {
        return first[subtopologies.length];
    }

    /** Returns the best that each process has of a task. */
    Map<Integer, Held> heldByProcess(int task) {
        Map<Integer, Held> best = new TreeMap<>();
        held.get(task).forEach((member, what) -> best.merge(
                processOf[member], what, (one, other) -> one.compareTo(other) <= 0 ? one : other));
        return best;
    }
}
