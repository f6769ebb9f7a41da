package io.samerack.broker;

import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.NoSuchElementException;
import java.util.Optional;
import java.util.Random;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.coordinator.group.api.streams.assignor.AssignmentConfigs;
import org.apache.kafka.coordinator.group.api.streams.assignor.GroupAssignment;
import org.apache.kafka.coordinator.group.api.streams.assignor.GroupSpec;
import org.apache.kafka.coordinator.group.api.streams.assignor.MemberAssignmentMetadata;
import org.apache.kafka.coordinator.group.api.streams.assignor.MemberAssignmentState;
import org.apache.kafka.coordinator.group.api.streams.assignor.TopologyDescriber;

/** A Streams group that tests make and change; it names none of Kafka's classes but the interfaces. */
final class ProofTasks implements GroupSpec, AssignmentConfigs, TopologyDescriber {
    /** A member: changeable. */
    static final class Member implements MemberAssignmentMetadata, MemberAssignmentState {
        String process;
        String rack;
        Map<String, String> tags = new HashMap<>();
        Map<String, Set<Integer>> active = new TreeMap<>();
        Map<String, Set<Integer>> standby = new TreeMap<>();
        Map<String, Map<Integer, Long>> offsets = new TreeMap<>();

        /** Stops and starts: what it had are files. */
        void restart() {
            for (Map<String, Set<Integer>> had : List.of(active, standby)) {
                had.forEach((name, tasks) -> tasks.forEach(
                        task -> offsets.computeIfAbsent(name, key -> new TreeMap<>()).put(task, 7L)));
                had.clear();
            }
        }

        @Override
        public Optional<String> instanceId() {
            return Optional.empty();
        }

        @Override
        public Optional<String> rackId() {
            return Optional.ofNullable(rack);
        }

        @Override
        public String processId() {
            return process;
        }

        @Override
        public Map<String, String> clientTags() {
            return tags;
        }

        @Override
        public Map<String, Set<Integer>> activeTasks() {
            return active;
        }

        @Override
        public Map<String, Set<Integer>> standbyTasks() {
            return standby;
        }

        @Override
        public Map<String, Set<Integer>> warmupTasks() {
            return Map.of();
        }

        @Override
        public Map<String, Map<Integer, Long>> taskOffsets() {
            return offsets;
        }

        @Override
        public Map<String, Map<Integer, Long>> taskEndOffsets() {
            return Map.of();
        }
    }

    /** By partition: the racks of its replicas. Names of source topics begin with s, of changelogs with c. */
    record Subtopology(int tasks, Map<String, List<List<String>>> topics) {
        List<List<String>> of(char kind, int partition) {
            List<List<String>> found = new ArrayList<>();
            topics.forEach((name, racks) -> {
                if (name.charAt(0) == kind && partition < racks.size() && !racks.get(partition).isEmpty()) {
                    found.add(racks.get(partition));
                }
            });
            return found;
        }
    }

    Map<String, Member> members = new LinkedHashMap<>();
    final Map<String, Subtopology> topology = new TreeMap<>();
    List<String> separating = List.of();
    int standbys;

    /** The same group with its members in another order. */
    ProofTasks permuted(Random dice) {
        ProofTasks other = new ProofTasks();
        List<String> ids = new ArrayList<>(members.keySet());
        Collections.shuffle(ids, dice);
        ids.forEach(id -> other.members.put(id, members.get(id)));
        other.topology.putAll(topology);
        other.separating = separating;
        other.standbys = standbys;
        return other;
    }

    /** Gives every member what a plan says, as the coordinator does once a group has settled. */
    void accept(GroupAssignment plan) {
        members.forEach((id, member) -> {
            member.active = plan.members().get(id).activeTasks();
            member.standby = plan.members().get(id).standbyTasks();
            member.offsets = Map.of();
        });
    }

    static ProofTasks next(Random dice, int maxMembers, int maxTasks) {
        ProofTasks group = new ProofTasks();
        int racks = 1 + dice.nextInt(3);
        int left = 1 + dice.nextInt(maxTasks);
        for (int index = 0; index < 3 && left > 0; index++) {
            int tasks = index == 2 ? left : 1 + dice.nextInt(left);
            left -= tasks;
            Map<String, List<List<String>>> topics = new TreeMap<>();
            topics.put("s" + index, replicas(dice, racks, tasks));
            if (dice.nextInt(3) == 0) {
                topics.put("s-more-" + index, replicas(dice, racks, 1 + dice.nextInt(tasks)));
            }
            if (dice.nextInt(3) > 0) {
                topics.put("c" + index, replicas(dice, racks, tasks));
            }
            group.topology.put(String.valueOf(index), new Subtopology(tasks, topics));
        }
        int members = 1 + dice.nextInt(maxMembers);
        int processes = 1 + dice.nextInt(members);
        String[] rackOf = new String[processes];
        for (int process = 0; process < processes; process++) {
            rackOf[process] = process > 0 && dice.nextInt(8) == 0 ? null : "rack" + dice.nextInt(racks);
        }
        for (int index = 0; index < members; index++) {
            Member member = new Member();
            int process = index < processes ? index : dice.nextInt(processes);
            member.process = "process" + process;
            member.rack = rackOf[process];
            member.tags.put("zone", "zone" + process % 2);
            group.members.put("member" + dice.nextInt(1000) + "-" + index, member);
        }
        group.standbys = dice.nextInt(3);
        group.separating = dice.nextInt(4) == 0 ? List.of("zone") : List.of();
        if (dice.nextInt(4) > 0) {
            group.hold(dice);
        }
        return group;
    }

    /** Processes of three threads in three racks, three subtopologies, and a standby of each task. */
    static ProofTasks large(Random dice, int tasks, int threads) {
        ProofTasks group = new ProofTasks();
        for (int index = 0; index < 3; index++) {
            Map<String, List<List<String>>> topics = new TreeMap<>();
            topics.put("s" + index, replicas(dice, 3, tasks / 3));
            topics.put("c" + index, replicas(dice, 3, tasks / 3));
            group.topology.put(String.valueOf(index), new Subtopology(tasks / 3, topics));
        }
        for (int index = 0; index < threads; index++) {
            Member member = new Member();
            member.process = "process" + index / 3;
            member.rack = "rack" + index / 3 % 3;
            group.members.put("member" + index, member);
        }
        group.standbys = 1;
        return group;
    }

    private static List<List<String>> replicas(Random dice, int racks, int partitions) {
        int replication = 1 + dice.nextInt(2);
        List<List<String>> replicas = new ArrayList<>();
        for (int partition = 0; partition < partitions; partition++) {
            Set<String> of = new TreeSet<>();
            for (int replica = 0; replica < replication; replica++) {
                of.add("rack" + dice.nextInt(racks));
            }
            replicas.add(dice.nextInt(12) == 0 ? List.of() : List.copyOf(of));
        }
        return replicas;
    }

    private void hold(Random dice) {
        List<Member> all = new ArrayList<>(members.values());
        int holders = 1 + dice.nextInt(all.size());
        topology.forEach((name, subtopology) -> {
            for (int partition = 0; partition < subtopology.tasks() + dice.nextInt(2); partition++) {
                if (dice.nextInt(4) > 0) {
                    all.get(dice.nextInt(holders)).active.computeIfAbsent(name, key -> new TreeSet<>()).add(partition);
                }
                if (isStateful(name) && dice.nextInt(3) > 0) {
                    all.get(dice.nextInt(holders)).standby.computeIfAbsent(name, key -> new TreeSet<>()).add(partition);
                    all.get(dice.nextInt(holders)).offsets.computeIfAbsent(name, key -> new TreeMap<>()).put(partition, 7L);
                }
            }
        });
        members.values().forEach(member -> member.active.forEach((name, active) -> { // not in both roles
            Set<Integer> copies = member.standby.getOrDefault(name, new TreeSet<>());
            copies.removeAll(active);
        }));
        if (dice.nextInt(4) == 0) {
            members.values().forEach(Member::restart);
        }
    }

    @Override
    public Collection<String> memberIds() {
        return members.keySet();
    }

    @Override
    public MemberAssignmentMetadata memberMetadata(String id) {
        return members.get(id);
    }

    @Override
    public MemberAssignmentState memberAssignmentState(String id) {
        return members.get(id);
    }

    @Override
    public AssignmentConfigs configs() {
        return this;
    }

    @Override
    public int numStandbyReplicas() {
        return standbys;
    }

    @Override
    public List<String> rackAwareAssignmentTags() {
        return separating;
    }

    @Override
    public List<String> subtopologies() {
        return List.copyOf(topology.keySet());
    }

    @Override
    public int maxNumInputPartitions(String subtopology) throws NoSuchElementException {
        return topology.get(subtopology).tasks();
    }

    @Override
    public boolean isStateful(String subtopology) {
        return topology.get(subtopology).topics().keySet().stream().anyMatch(name -> name.startsWith("c"));
    }

    @Override
    public String toString() {
        StringBuilder text = new StringBuilder();
        members.forEach((id, member) -> text.append(id)
                .append(' ').append(member.process)
                .append(" rack=").append(member.rack)
                .append(" active=").append(member.active)
                .append(" standby=").append(member.standby)
                .append(" offsets=").append(member.offsets)
                .append('\n'));
        return text + "standbys=" + standbys + " tags=" + separating + "\n" + topology;
    }
}
