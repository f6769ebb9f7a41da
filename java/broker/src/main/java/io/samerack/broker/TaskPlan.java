package io.samerack.broker;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.coordinator.group.api.streams.assignor.GroupAssignment;
import org.apache.kafka.coordinator.group.api.streams.assignor.MemberAssignment;

/**
 * Assigns the tasks of a Streams group in three steps, each a minimum-cost flow: stateful tasks, then stateless ones, then
 * standbys.
 *
 * <p>Each step is exact in this order: loads of members as even as can be (of stateful tasks; of active tasks; of all
 * tasks), for standbys the fewest copies of a task in one rack and the fewest with a tag of the active one, then KIP-925's
 * cost (traffic times partitions read across racks, and non-overlap for each task on a process that has not had it; where
 * none has, as after a restart of all, that has no files of it), then the fewest changes of members, by how much state the
 * new one has. Subtopologies of active tasks are spread over members as far as all that leaves it open.
 */
final class TaskPlan {
    /** More than any difference between two members in {@link TaskGroup.Held}. */
    private static final int STRANGER = 4;
    /** The sum of costs on a path stays far below the largest long. */
    private static final double MAX_COST = 1L << 58;
    /** An arc takes as much memory as a hundred steps take time. */
    private static final long STEPS_OF_ARC = 100;

    /** By task: its member. */
    final int[] active;
    /** By task: the members that have copies. */
    final int[][] standbys;

    private final TaskGroup group;
    private final TaskReads reads;
    private final Steps steps;
    private final int[] load;

    private TaskPlan(TaskGroup group, TaskReads reads, Steps steps) {
        this.group = group;
        this.reads = reads;
        this.steps = steps;
        active = new int[group.tasks()];
        standbys = new int[active.length][group.standbys];
        load = new int[group.members.length];
    }

    static TaskPlan of(TaskGroup group, TaskReads reads, int traffic, int nonOverlap, Steps steps) {
        TaskPlan plan = new TaskPlan(group, reads, steps);
        plan.deal(true, traffic, nonOverlap);
        plan.deal(false, 1, 0); // as Kafka prices stateless tasks
        if (group.standbys > 0 && !plan.copy(traffic, nonOverlap, true)) {
            plan.copy(traffic, nonOverlap, false);
        }
        return plan;
    }

    /** Gives each stateful task, or each stateless one, to a member. */
    private void deal(boolean stateful, int traffic, int nonOverlap) {
        int units = 0;
        int widest = 0;
        for (int index = 0; index < group.subtopologies.length; index++) {
            if (group.stateful[index] == stateful) {
                units += group.first[index + 1] - group.first[index];
                widest = Math.max(widest, levels(index));
            }
        }
        if (units == 0) {
            return;
        }
        long tie = (long) units * widest + 1;
        long price = tie * ((long) STRANGER * units + 1);
        bound((double) price * highest(reads.inputs, traffic, nonOverlap));
        FlowNetwork network = new FlowNetwork(steps);
        network.nodes(load.length);
        int source = network.node();
        int sink = network.node();
        evenly(network, sink, units);
        int[] nodeOf = new int[active.length];
        for (int index = 0; index < group.subtopologies.length; index++) {
            if (group.stateful[index] != stateful) {
                continue;
            }
            int[] share = shares(network, index, units);
            int[] place = places(network, share, units);
            for (int task = group.first[index]; task < group.first[index + 1]; task++) {
                nodeOf[task] = network.node();
                network.arc(source, nodeOf[task], 1, 0);
                for (int rack = 0; rack < place.length; rack++) {
                    long cost = (long) traffic * across(reads.inputs[task], rack) + nonOverlap;
                    network.arc(nodeOf[task], place[rack], 1, price * cost + tie * STRANGER);
                }
                Map<Integer, TaskGroup.Held> held = group.heldByProcess(task);
                for (Map.Entry<Integer, TaskGroup.Held> one : held.entrySet()) {
                    boolean stays = one.getValue() == best(held);
                    long cost = (long) traffic * across(reads.inputs[task], rackOf(one.getKey())) + (stays ? 0 : nonOverlap);
                    for (int member : group.membersOf[one.getKey()]) {
                        int change = member == group.runner[task] ? 0 : 1 + one.getValue().ordinal();
                        network.arc(nodeOf[task], share[member], 1, price * cost + tie * change);
                    }
                }
            }
        }
        require(network.send(source, sink) == units);
        for (int index = 0; index < group.subtopologies.length; index++) {
            for (int task = group.first[index]; group.stateful[index] == stateful && task < group.first[index + 1]; task++) {
                active[task] = network.follow(nodeOf[task], load.length);
                load[active[task]]++;
            }
        }
    }

    /** By member, a node for its tasks of a subtopology; each one more costs more, up to a fair share. */
    private int[] shares(FlowNetwork network, int index, int units) {
        int[] share = new int[load.length];
        for (int member = 0; member < load.length; member++) {
            share[member] = network.node();
            for (int level = 0; level < levels(index); level++) {
                arc(network, share[member], member, 1, level);
            }
            arc(network, share[member], member, units, levels(index));
        }
        return share;
    }

    /** By rack, and last for members without one: a node for tasks that come to any member there. */
    private int[] places(FlowNetwork network, int[] share, int units) {
        int[] place = new int[group.racks.length + 1];
        for (int rack = 0; rack < place.length; rack++) {
            place[rack] = network.node();
        }
        for (int member = 0; member < load.length; member++) {
            arc(network, place[rackOf(group.processOf[member])], share[member], units, 0);
        }
        return place;
    }

    /** Gives each stateful task its standbys; says whether all have room if loads are as even as can be. */
    private boolean copy(int traffic, int nonOverlap, boolean even) {
        List<Integer> tasks = new ArrayList<>();
        for (int index = 0; index < group.subtopologies.length; index++) {
            for (int task = group.first[index]; group.stateful[index] && task < group.first[index + 1]; task++) {
                tasks.add(task);
            }
        }
        int units = tasks.size() * group.standbys;
        long price = (long) STRANGER * units + 1;
        double highest = highest(reads.changelogs, traffic, nonOverlap);
        bound(price * (highest * units + 1));
        long apart = price * ((long) highest * units + 1);
        int together = group.standbys + group.tags.stream().mapToInt(Map::size).max().orElse(0);
        bound((double) apart * together * units * (even ? 1 : tasks.size()));
        FlowNetwork network = new FlowNetwork(steps);
        network.nodes(load.length);
        int source = network.node();
        int sink = network.node();
        if (even) {
            evenly(network, sink, units);
        } else {
            bySquares(network, sink, tasks.size(), apart * ((long) together * units + 1));
        }
        int[] any = new int[group.membersOf.length];
        for (int process = 0; process < any.length; process++) {
            any[process] = network.node();
            for (int member : group.membersOf[process]) {
                arc(network, any[process], member, units, 0);
            }
        }
        int[] nodeOf = new int[active.length];
        for (int task : tasks) {
            nodeOf[task] = network.node();
            arc(network, source, nodeOf[task], group.standbys, 0);
            int runner = group.processOf[active[task]];
            int[] place = copyPlaces(network, nodeOf[task], rackOf(runner), apart);
            Map<Integer, TaskGroup.Held> held = group.heldByProcess(task);
            held.remove(runner);
            for (int process = 0; process < any.length; process++) {
                if (process == runner) {
                    continue;
                }
                TaskGroup.Held what = held.get(process);
                boolean stays = what != null && (what != TaskGroup.Held.FILES || what == best(held));
                long read = (long) traffic * across(reads.changelogs[task], rackOf(process));
                long cost = apart * equalTags(process, runner) + price * (read + (stays ? 0 : nonOverlap));
                int from = place[rackOf(process)];
                if (what == null) {
                    arc(network, from, any[process], 1, cost + STRANGER - 1);
                    continue;
                }
                int here = network.node();
                arc(network, from, here, 1, cost);
                for (int member : group.membersOf[process]) {
                    boolean same = group.held.get(task).get(member) == TaskGroup.Held.COPY;
                    arc(network, here, member, 1, same ? 0 : what == TaskGroup.Held.FILES ? 2 : 1);
                }
            }
        }
        if (network.send(source, sink) < units) {
            require(even);
            return false;
        }
        for (int task : tasks) {
            for (int copy = 0; copy < group.standbys; copy++) {
                standbys[task][copy] = network.follow(nodeOf[task], load.length);
            }
        }
        return true;
    }

    /** By rack, a node for a task's standbys there: each costs as much as there are copies already. */
    private int[] copyPlaces(FlowNetwork network, int task, int runnersRack, long apart) {
        int[] place = new int[group.racks.length + 1];
        for (int rack = 0; rack < place.length; rack++) {
            place[rack] = network.node();
            for (int copy = 0; copy < group.standbys; copy++) {
                int there = rack == group.racks.length ? 0 : copy + (rack == runnersRack ? 1 : 0);
                arc(network, task, place[rack], 1, apart * there);
            }
        }
        return place;
    }

    /** Returns the most state of a task that a process has; files are of some age, so they count where nothing else is. */
    private static TaskGroup.Held best(Map<Integer, TaskGroup.Held> held) {
        return Collections.min(held.values());
    }

    private int equalTags(int process, int other) {
        int equal = 0;
        for (Map.Entry<String, String> tag : group.tags.get(process).entrySet()) {
            equal += tag.getValue().equals(group.tags.get(other).get(tag.getKey())) ? 1 : 0;
        }
        return equal;
    }

    /** Lets members have units so that all loads are as even as can be. */
    private void evenly(FlowNetwork network, int sink, int units) {
        int level = 0;
        while (missing(level + 1) <= units) {
            level++;
        }
        int more = network.node();
        arc(network, more, sink, (int) (units - missing(level)), 0);
        for (int member = 0; member < load.length; member++) {
            if (load[member] <= level) {
                arc(network, member, sink, level - load[member], 0);
                arc(network, member, more, 1, 0);
            }
        }
    }

    /** The units that bring all members to a level. */
    private long missing(int level) {
        return Arrays.stream(load).mapToLong(have -> Math.max(0, level - have)).sum();
    }

    /** Lets members have any number of units; each costs as much as the member has already. */
    private void bySquares(FlowNetwork network, int sink, int most, long cost) {
        int least = Arrays.stream(load).min().orElse(0);
        for (int member = 0; member < load.length; member++) {
            for (int unit = 0; unit < most; unit++) {
                arc(network, member, sink, 1, cost * (load[member] - least + unit));
            }
        }
    }

    private int levels(int index) {
        return (group.first[index + 1] - group.first[index] + load.length - 1) / load.length;
    }

    private int rackOf(int process) {
        return group.rackOf[process] == TaskGroup.NOBODY ? group.racks.length : group.rackOf[process];
    }

    /** A member without a rack reads nothing across racks. */
    private static int across(int[] counts, int rack) {
        return rack == counts.length ? 0 : counts[rack];
    }

    private static double highest(int[][] counts, int traffic, int nonOverlap) {
        int most = Arrays.stream(counts).flatMapToInt(Arrays::stream).max().orElse(0);
        return (double) traffic * most + nonOverlap + 1;
    }

    private void arc(FlowNetwork network, int from, int to, int capacity, long cost) {
        steps.take(STEPS_OF_ARC);
        network.arc(from, to, capacity, cost);
    }

    private static void bound(double cost) {
        if (cost > MAX_COST) {
            throw new Steps.WorkBoundException();
        }
    }

    private static void require(boolean holds) {
        if (!holds) {
            throw new IllegalStateException("not all tasks have a place");
        }
    }

    /** Returns what is wrong with the plan, or null. */
    String fault() {
        int[] tasks = new int[load.length];
        for (int index = 0; index < group.subtopologies.length; index++) {
            for (int task = group.first[index]; task < group.first[index + 1]; task++) {
                tasks[active[task]]++;
                Set<Integer> processes = new TreeSet<>(Set.of(group.processOf[active[task]]));
                for (int copy = 0; group.stateful[index] && copy < group.standbys; copy++) {
                    if (!processes.add(group.processOf[standbys[task][copy]])) {
                        return "a process has two copies of a task of subtopology " + group.subtopologies[index];
                    }
                }
            }
        }
        return Arrays.stream(tasks).max().orElse(0) - Arrays.stream(tasks).min().orElse(0) > 1
                ? "members have active tasks that differ by more than one"
                : null;
    }

    GroupAssignment toAssignment() {
        List<Map<String, Set<Integer>>> actives = new ArrayList<>();
        List<Map<String, Set<Integer>>> copies = new ArrayList<>();
        for (int member = 0; member < load.length; member++) {
            actives.add(new TreeMap<>());
            copies.add(new TreeMap<>());
        }
        for (int index = 0; index < group.subtopologies.length; index++) {
            String name = group.subtopologies[index];
            for (int task = group.first[index]; task < group.first[index + 1]; task++) {
                int partition = task - group.first[index];
                actives.get(active[task]).computeIfAbsent(name, key -> new TreeSet<>()).add(partition);
                for (int copy = 0; group.stateful[index] && copy < group.standbys; copy++) {
                    copies.get(standbys[task][copy]).computeIfAbsent(name, key -> new TreeSet<>()).add(partition);
                }
            }
        }
        Map<String, MemberAssignment> result = new HashMap<>();
        for (int member = 0; member < load.length; member++) {
            result.put(group.members[member], new MemberAssignment(actives.get(member), copies.get(member)));
        }
        return new GroupAssignment(result);
    }
}
