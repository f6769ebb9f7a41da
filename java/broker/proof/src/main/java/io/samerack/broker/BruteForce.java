package io.samerack.broker;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.Uuid;

/** Finds the best cost of small groups by trying every plan. */
final class BruteForce {
    /** The settings with the spread of topics first. */
    static final int SPREAD = 4;

    private final ProofGroup group;
    private final List<ProofGroup.Member> members;
    private final List<Uuid> topic = new ArrayList<>();
    private final List<Integer> number = new ArrayList<>();
    private final int[][] allowed;
    private final boolean[][] crosses;
    private final int[] owner;
    private final Map<Uuid, int[]> ofTopic = new HashMap<>();
    private final int[] load;
    private final int[] limit;
    private int[] share;
    private long leastSquares = Long.MAX_VALUE;
    private long[] best;
    private Settings.Order order;

    private BruteForce(ProofGroup group) {
        this.group = group;
        members = new ArrayList<>(group.members.values());
        group.topics.forEach((id, partitions) -> {
            for (int index = 0; index < partitions.size(); index++) {
                int at = index;
                boolean wanted = members.stream().anyMatch(member -> member.topics.contains(id));
                if (wanted && group.isPartitionAssignable(id, at)) {
                    topic.add(id);
                    number.add(at);
                    ofTopic.put(id, new int[members.size()]);
                }
            }
        });
        allowed = new int[topic.size()][];
        crosses = new boolean[topic.size()][members.size()];
        owner = new int[topic.size()];
        for (int partition = 0; partition < allowed.length; partition++) {
            Uuid id = topic.get(partition);
            int at = number.get(partition);
            int[] subscribers = new int[members.size()];
            int count = 0;
            owner[partition] = -1;
            for (int index = 0; index < members.size(); index++) {
                ProofGroup.Member member = members.get(index);
                if (member.topics.contains(id)) {
                    subscribers[count++] = index;
                    if (member.owned.getOrDefault(id, java.util.Set.of()).contains(at)) {
                        owner[partition] = index;
                    }
                }
                crosses[partition][index] =
                        member.rack != null && !group.racksForPartition(id, at).contains(member.rack);
            }
            allowed[partition] = Arrays.copyOf(subscribers, count);
        }
        load = new int[members.size()];
        limit = new int[members.size()];
        share = new int[members.size()];
    }

    /** Returns the limit of each member, raised by the least number with which there is a plan. */
    static int[] limits(ProofGroup group, String rules) {
        BruteForce search = new BruteForce(group);
        for (int index = 0; index < search.limit.length; index++) {
            search.limit[index] = limit(search.members.get(index).instance, rules);
        }
        int raise = search.excess(0);
        return Arrays.stream(search.limit).map(most -> most == Integer.MAX_VALUE ? most : most + raise).toArray();
    }

    private static int limit(String instance, String rules) {
        for (String rule : rules.split(",")) {
            String[] parts = rule.split(":");
            if (instance != null && instance.matches(parts[0].replace("?", ".").replace("*", ".*"))) {
                return Integer.parseInt(parts[1]);
            }
        }
        return Integer.MAX_VALUE;
    }

    /** The least of what a member of a plan may have to have beyond its limit. */
    private int excess(int partition) {
        int least = Integer.MAX_VALUE;
        if (partition == allowed.length) {
            least = 0;
            for (int index = 0; index < load.length; index++) {
                least = Math.max(least, load[index] - limit[index]);
            }
            return least;
        }
        for (int index : allowed[partition]) {
            load[index]++;
            least = Math.min(least, excess(partition + 1));
            load[index]--;
        }
        return least;
    }

    /** Returns squares, crossing and moves in the order of the objectives, and before them topics where these are first. */
    static long[] best(ProofGroup group, Settings settings, int[] limits) {
        if (settings.keepCopartitioned) {
            return BundleSearch.best(group, settings.order);
        }
        BruteForce search = new BruteForce(group);
        search.order = settings.order;
        System.arraycopy(limits, 0, search.limit, 0, limits.length);
        if (settings.maxSkew > 0) {
            search.shares(0);
            for (int index = 0; index < search.limit.length; index++) {
                search.limit[index] = Math.min(limits[index], search.share[index] + settings.maxSkew);
            }
            search.order = Settings.Order.RACKS_BALANCE_MOVES;
        }
        search.search(0, 0, 0);
        return search.best;
    }

    /** The most that each member has in any plan of least squares. */
    private void shares(int partition) {
        if (partition < allowed.length) {
            for (int index : allowed[partition]) {
                if (load[index] < limit[index]) {
                    load[index]++;
                    shares(partition + 1);
                    load[index]--;
                }
            }
            return;
        }
        long squares = squares();
        if (squares < leastSquares) {
            leastSquares = squares;
            share = load.clone();
        } else if (squares == leastSquares) {
            for (int index = 0; index < load.length; index++) {
                share[index] = Math.max(share[index], load[index]);
            }
        }
    }

    private long squares() {
        long sum = 0;
        for (int units : load) {
            sum += (long) units * units;
        }
        return sum;
    }

    private void search(int partition, int crossing, int moves) {
        if (partition == allowed.length) {
            Score score = new Score();
            score.squares = squares();
            score.crossing = crossing;
            score.moves = moves;
            score.topics = ofTopic.values().stream().flatMapToInt(Arrays::stream).map(share -> share * share).sum();
            long[] found = score.inOrder(order);
            if (best == null || Score.compare(found, best) < 0) {
                best = found;
            }
            return;
        }
        for (int index : allowed[partition]) {
            if (load[index] < limit[index]) {
                load[index]++;
                ofTopic.get(topic.get(partition))[index]++;
                search(
                        partition + 1,
                        crossing + (crosses[partition][index] ? 1 : 0),
                        moves + (owner[partition] >= 0 && owner[partition] != index ? 1 : 0));
                ofTopic.get(topic.get(partition))[index]--;
                load[index]--;
            }
        }
    }

    static Map<String, Object> settings(int number) {
        switch (number % 10) {
            case 8:
                return Map.of(Settings.KEEP_COPARTITIONED, "true");
            case 9:
                return Map.of(Settings.KEEP_COPARTITIONED, "true", Settings.OBJECTIVES, "balance,moves,racks");
            case SPREAD:
                return Map.of(Settings.OBJECTIVES, "spread,balance,racks,moves");
            case 5:
                return Map.of(Settings.OBJECTIVES, "balance,moves,racks");
            case 6:
                return Map.of(Settings.OBJECTIVES, "racks,balance,moves");
            case 7:
                return Map.of(Settings.MAX_SKEW, 1 + number / 10 % 3);
            default:
                return Map.of();
        }
    }
}
