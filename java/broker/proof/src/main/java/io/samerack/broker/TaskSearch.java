package io.samerack.broker;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import org.apache.kafka.coordinator.group.api.streams.assignor.GroupAssignment;

/**
 * Scores a plan of tasks by each step's objectives, and goes through every plan of a step for the best score there is.
 *
 * <p>It shares no code with the assignor.
 */
final class TaskSearch {
    private record Task(String subtopology, int partition) {}

    private final ProofTasks group;
    private final int traffic;
    private final int nonOverlap;
    private final List<String> ids;
    private final List<ProofTasks.Member> members;

    TaskSearch(ProofTasks group, int traffic, int nonOverlap) {
        this.group = group;
        this.traffic = traffic;
        this.nonOverlap = nonOverlap;
        ids = new ArrayList<>(group.members.keySet());
        members = new ArrayList<>(group.members.values());
    }

    /** Returns what is worse in a plan than in the best, or null. */
    String worse(GroupAssignment plan) {
        int[] load = new int[members.size()];
        Map<Task, Integer> active = new HashMap<>();
        for (boolean stateful : new boolean[] {true, false}) {
            List<Task> tasks = tasks(stateful);
            int[] chosen = tasks.stream().mapToInt(task -> runner(plan, task)).toArray();
            long[] reached = score(tasks, chosen, load, stateful);
            long[] best = deal(tasks, new int[tasks.size()], 0, load, stateful, null);
            if (Arrays.compare(reached, best) != 0) {
                return (stateful ? "stateful" : "stateless") + " best " + Arrays.toString(best) + ", reached " + Arrays.toString(reached);
            }
            for (int index = 0; index < chosen.length; index++) {
                load[chosen[index]]++;
                active.put(tasks.get(index), chosen[index]);
            }
        }
        List<Task> tasks = tasks(true);
        int processes = (int) members.stream().map(member -> member.process).distinct().count();
        int copies = Math.min(group.standbys, processes - 1);
        int[][] chosen = tasks.stream().map(task -> holders(plan, task)).toArray(int[][]::new);
        for (int index = 0; index < chosen.length; index++) {
            Set<String> apart = new HashSet<>(Set.of(members.get(active.get(tasks.get(index))).process));
            for (int member : chosen[index]) {
                if (!apart.add(members.get(member).process)) {
                    return "a process has two copies of " + tasks.get(index);
                }
            }
            if (chosen[index].length != copies) {
                return tasks.get(index) + " has " + chosen[index].length + " standbys, not " + copies;
            }
        }
        long[] reached = score(tasks, chosen, active, load);
        long[] best = copy(tasks, new int[tasks.size()][], 0, active, load, copies, null);
        return Arrays.compare(reached, best) == 0
                ? null
                : "standbys best " + Arrays.toString(best) + ", reached " + Arrays.toString(reached);
    }

    /** Partitions that active tasks read across racks. */
    long crossing(GroupAssignment plan) {
        long sum = 0;
        for (boolean stateful : new boolean[] {true, false}) {
            for (Task task : tasks(stateful)) {
                sum += across('s', task, members.get(runner(plan, task)));
            }
        }
        return sum;
    }

    private List<Task> tasks(boolean stateful) {
        List<Task> tasks = new ArrayList<>();
        group.topology.forEach((name, subtopology) -> {
            for (int partition = 0; partition < subtopology.tasks() && group.isStateful(name) == stateful; partition++) {
                tasks.add(new Task(name, partition));
            }
        });
        return tasks;
    }

    private int runner(GroupAssignment plan, Task task) {
        int found = -1;
        for (int index = 0; index < ids.size(); index++) {
            if (has(plan.members().get(ids.get(index)).activeTasks(), task)) {
                if (found >= 0) {
                    throw new AssertionError(task + " runs twice");
                }
                found = index;
            }
        }
        if (found < 0) {
            throw new AssertionError(task + " runs nowhere");
        }
        return found;
    }

    private int[] holders(GroupAssignment plan, Task task) {
        List<Integer> found = new ArrayList<>();
        for (int index = 0; index < ids.size(); index++) {
            if (has(plan.members().get(ids.get(index)).standbyTasks(), task)) {
                found.add(index);
            }
        }
        return found.stream().mapToInt(Integer::intValue).toArray();
    }

    private static boolean has(Map<String, Set<Integer>> tasks, Task task) {
        return tasks.getOrDefault(task.subtopology(), Set.of()).contains(task.partition());
    }

    private int across(char kind, Task task, ProofTasks.Member member) {
        return (int) group.topology.get(task.subtopology()).of(kind, task.partition()).stream()
                .filter(racks -> member.rack != null && !racks.contains(member.rack))
                .count();
    }

    private boolean anyOf(String process, java.util.function.Predicate<ProofTasks.Member> wanted) {
        return members.stream().anyMatch(member -> member.process.equals(process) && wanted.test(member));
    }

    /** How strange a task is to a member's process: 0 it runs there, 1 a copy, 2 files, 3 nothing. */
    private int strange(Task task, ProofTasks.Member member) {
        if (anyOf(member.process, one -> has(one.active, task))) {
            return 0;
        }
        if (anyOf(member.process, one -> has(one.standby, task))) {
            return 1;
        }
        return anyOf(member.process, one -> one.offsets.getOrDefault(task.subtopology(), Map.of()).containsKey(task.partition()))
                ? 2
                : 3;
    }

    /** How strange a task is to the least strange process but one; no less strange than files where it has nothing. */
    private int least(Task task, String but) {
        return members.stream()
                .filter(member -> !member.process.equals(but))
                .mapToInt(member -> strange(task, member))
                .reduce(2, Math::min);
    }

    private static long squares(int[] load) {
        return Arrays.stream(load).mapToLong(units -> (long) units * units).sum();
    }

    private long[] score(List<Task> tasks, int[] chosen, int[] before, boolean stateful) {
        int[] load = before.clone();
        long cost = 0;
        long changes = 0;
        long spread = 0;
        Map<String, int[]> of = new HashMap<>();
        for (int index = 0; index < chosen.length; index++) {
            Task task = tasks.get(index);
            ProofTasks.Member member = members.get(chosen[index]);
            int count = group.topology.get(task.subtopology()).tasks();
            int[] share = of.computeIfAbsent(task.subtopology(), key -> new int[load.length]);
            spread += Math.min(share[chosen[index]]++, (count + load.length - 1) / load.length);
            load[chosen[index]]++;
            int strange = strange(task, member);
            int price = stateful && strange > least(task, null) ? nonOverlap : 0;
            cost += (long) (stateful ? traffic : 1) * across('s', task, member) + price;
            changes += has(member.active, task) ? 0 : strange + 1;
        }
        return new long[] {squares(load), cost, changes, spread};
    }

    private long[] deal(List<Task> tasks, int[] chosen, int at, int[] before, boolean stateful, long[] best) {
        if (at == chosen.length) {
            long[] found = score(tasks, chosen, before, stateful);
            return best == null || Arrays.compare(found, best) < 0 ? found : best;
        }
        long[] least = best;
        for (int member = 0; member < members.size(); member++) {
            chosen[at] = member;
            least = deal(tasks, chosen, at + 1, before, stateful, least);
        }
        return least;
    }

    private long[] score(List<Task> tasks, int[][] chosen, Map<Task, Integer> active, int[] before) {
        int[] load = before.clone();
        long together = 0;
        long cost = 0;
        long changes = 0;
        for (int index = 0; index < chosen.length; index++) {
            Task task = tasks.get(index);
            ProofTasks.Member runner = members.get(active.get(task));
            List<String> racks = new ArrayList<>();
            racks.add(runner.rack);
            for (int number : chosen[index]) {
                ProofTasks.Member member = members.get(number);
                load[number]++;
                together += racks.stream().filter(rack -> rack != null && rack.equals(member.rack)).count();
                racks.add(member.rack);
                together += group.separating.stream()
                        .filter(tag -> Objects.equals(member.tags.get(tag), runner.tags.get(tag)))
                        .count();
                int strange = strange(task, member);
                int price = strange > Math.max(1, least(task, runner.process)) ? nonOverlap : 0;
                cost += (long) traffic * across('c', task, member) + price;
                changes += has(member.standby, task) ? 0 : Math.max(1, strange);
            }
        }
        return new long[] {squares(load), together, cost, changes};
    }

    private long[] copy(
            List<Task> tasks, int[][] chosen, int at, Map<Task, Integer> active, int[] before, int copies, long[] best) {
        if (at == chosen.length) {
            long[] found = score(tasks, chosen, active, before);
            return best == null || Arrays.compare(found, best) < 0 ? found : best;
        }
        long[] least = best;
        for (int set = 0; set < 1 << members.size(); set++) {
            if (Integer.bitCount(set) != copies) {
                continue;
            }
            int[] holders = new int[copies];
            int next = 0;
            Set<String> apart = new HashSet<>(Set.of(members.get(active.get(tasks.get(at))).process));
            for (int member = 0; member < members.size(); member++) {
                if ((set >> member & 1) == 1) {
                    holders[next++] = member;
                    apart.add(members.get(member).process);
                }
            }
            if (apart.size() == copies + 1) {
                chosen[at] = holders;
                least = copy(tasks, chosen, at + 1, active, before, copies, least);
            }
        }
        return least;
    }
}
