package io.samerack.broker;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.GroupAssignment;

/** Finds the best cost of small groups with co-partitioned topics kept together, by trying every plan. */
final class BundleSearch {
    private static final class Bundle {
        int league;
        int number;
        List<Uuid> topics = new ArrayList<>();
        List<Integer> members = new ArrayList<>();
    }

    private final ProofGroup group;
    private final List<ProofGroup.Member> members;
    private final List<Bundle> bundles = new ArrayList<>();
    private final List<Integer> floor = new ArrayList<>();
    private final int[] owner;
    private final Settings.Order order;
    private long[] best;

    private BundleSearch(ProofGroup group, Settings.Order order) {
        this.group = group;
        this.order = order;
        members = new ArrayList<>(group.members.values());
        Map<List<Object>, List<Uuid>> leagues = new HashMap<>();
        group.topics.forEach((topic, partitions) -> {
            Set<String> wanting = new HashSet<>();
            group.members.forEach((id, member) -> {
                if (member.topics.contains(topic)) {
                    wanting.add(id);
                }
            });
            if (!wanting.isEmpty() && !partitions.isEmpty()) {
                leagues.computeIfAbsent(List.of(wanting, partitions.size()), key -> new ArrayList<>()).add(topic);
            }
        });
        leagues.values().forEach(this::addLeague);
        owner = new int[bundles.size()];
    }

    private void addLeague(List<Uuid> topics) {
        int before = bundles.size();
        int size = 0;
        for (int number = 0; number < group.numPartitions(topics.get(0)); number++) {
            Bundle bundle = new Bundle();
            bundle.league = floor.size();
            bundle.number = number;
            for (Uuid topic : topics) {
                if (group.isPartitionAssignable(topic, number)) {
                    bundle.topics.add(topic);
                }
            }
            for (int index = 0; index < members.size(); index++) {
                if (members.get(index).topics.contains(topics.get(0))) {
                    bundle.members.add(index);
                }
            }
            size = bundle.members.size();
            if (!bundle.topics.isEmpty()) {
                bundles.add(bundle);
            }
        }
        floor.add((bundles.size() - before) / size);
    }

    static long[] best(ProofGroup group, Settings.Order order) {
        BundleSearch search = new BundleSearch(group, order);
        search.search(0);
        return search.best;
    }

    static long[] cost(ProofGroup group, GroupAssignment plan, Settings.Order order) {
        BundleSearch search = new BundleSearch(group, order);
        List<String> ids = new ArrayList<>(group.members.keySet());
        for (int index = 0; index < search.owner.length; index++) {
            Bundle bundle = search.bundles.get(index);
            for (Uuid topic : bundle.topics) {
                for (int member : bundle.members) {
                    if (plan.members().get(ids.get(member)).partitions()
                            .getOrDefault(topic, Set.of()).contains(bundle.number)) {
                        if (topic != bundle.topics.get(0) && search.owner[index] != member) {
                            throw new AssertionError("a bundle is torn");
                        }
                        search.owner[index] = member;
                    }
                }
            }
        }
        return search.cost();
    }

    private void search(int bundle) {
        if (bundle == owner.length) {
            long[] found = cost();
            if (best == null || Score.compare(found, best) < 0) {
                best = found;
            }
            return;
        }
        for (int index : bundles.get(bundle).members) {
            owner[bundle] = index;
            search(bundle + 1);
        }
    }

    private long[] cost() {
        long[][] load = new long[floor.size()][members.size()];
        long crossing = 0;
        long moves = 0;
        for (int index = 0; index < owner.length; index++) {
            Bundle bundle = bundles.get(index);
            ProofGroup.Member member = members.get(owner[index]);
            load[bundle.league][owner[index]]++;
            for (Uuid topic : bundle.topics) {
                if (member.rack != null && !group.racksForPartition(topic, bundle.number).contains(member.rack)) {
                    crossing++;
                }
                for (ProofGroup.Member other : members) {
                    if (other != member && other.topics.contains(topic)
                            && other.owned.getOrDefault(topic, Set.of()).contains(bundle.number)) {
                        moves++;
                    }
                }
            }
        }
        long uneven = 0;
        long[] more = new long[members.size()];
        for (int league = 0; league < load.length; league++) {
            for (int index = 0; index < more.length; index++) {
                uneven += load[league][index] * load[league][index];
                more[index] += Math.max(0, load[league][index] - floor.get(league));
            }
        }
        long spread = 0;
        for (long extras : more) {
            spread += extras * extras;
        }
        boolean movesFirst = order == Settings.Order.BALANCE_MOVES_RACKS;
        return new long[] {uneven, spread, movesFirst ? moves : crossing, movesFirst ? crossing : moves};
    }
}
