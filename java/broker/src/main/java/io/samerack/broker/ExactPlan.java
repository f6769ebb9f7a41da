package io.samerack.broker;

/** Computes the exact plan from its parts: loads, flow, dealing. */
final class ExactPlan {
    private ExactPlan() {}

    /**
     * Returns the owner of each partition.
     *
     * @throws Steps.WorkBoundException it would take too long
     */
    static int[] of(Group group, Settings settings, Steps steps) {
        if (settings.isSpreadFirst()) {
            return BundledPlan.of(group, settings.keepCopartitioned, settings.order, steps);
        }
        Kinds kinds = Kinds.of(group, steps);
        Pools pools = new Pools(group, kinds, steps);
        Balance balance = Balance.of(kinds, group.limitOf, steps);
        Loads loads = settings.areRacksFirst()
                ? SkewedLoads.of(group, kinds, pools, balance, settings.skew(), steps)
                : new Loads(group, kinds, balance);
        Claims claims = new Claims(group, kinds, pools, loads, steps);
        Placement placement = new Placement(group, kinds, pools, loads, claims, settings.order, steps);
        return Dealer.deal(group, kinds, pools, claims, placement, steps);
    }
}
