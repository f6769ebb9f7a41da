"""The evaluator: what it puts into a condition, which rules it uses, and what it reports when."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from samerack.agent.leading.assigning import Sent
from samerack.agent.leading.parts import _pauses
from samerack.agent.policy import Action, Changes, CrossRackShare, Reason
from samerack.agent.policy.measured import Measured
from samerack.agent.policy.reasons import why_cheaper
from samerack.cluster.group import GroupView
from samerack.cluster.view import SettledCluster
from samerack.common.weights import GroupWeights, weights_of_rates
from samerack.events import EventLog
from samerack.protocol.values import from_pairs
from samerack.traffic.collect import Partition
from samerack.traffic.throughput import Rate
from tests.unit.agent.leading.bench import FAR, NEAR, VIEW, Bench
from tests.unit.agent.leading.policies import MIDNIGHT
from tests.unit.agent.values import RACKS, cluster, group, member

RATES: Mapping[Partition, Rate] = {
    ("t", number): Rate(value=value, error=0.0, seconds=480.0) for number, value in enumerate((100.0, 1.0, 20.0, 3.0))
}
STATIC = group(
    member("i-1", "t", rack="a", assigned=from_pairs([("t", 0), ("t", 1)]), instance_id="i"),
    member("j-1", "t", rack="b", assigned=from_pairs([("t", 2), ("t", 3)]), instance_id="j"),
)
RETURNED = group(
    member("i-2", "t", rack="b", assigned=from_pairs([("t", 0), ("t", 1)]), instance_id="i"),
    member("j-2", "t", rack="a", assigned=from_pairs([("t", 2), ("t", 3)]), instance_id="j"),
)
"""The same static members after a restart, in each other's racks."""
SWAPPED = group(
    member("m-a", "t", rack="b", assigned=from_pairs([("t", 0), ("t", 1)])),
    member("m-b", "t", rack="a", assigned=from_pairs([("t", 2), ("t", 3)])),
)
"""The members of before, with each other's rack."""


def test_kafka_20959_a_deleted_topic_starts_no_rebalance() -> None:
    """Java members that commit automatically would stop until `max.poll.interval.ms`, for savings as well."""
    both = cluster(RACKS, t=[[2], [1], [1], [2]], u=[[1], [2]])
    view = group(
        member("m-a", "t", "u", rack="a", assigned=from_pairs([("t", 0), ("t", 1), ("u", 0)])),
        member("m-b", "t", "u", rack="b", assigned=from_pairs([("t", 2), ("t", 3), ("u", 1)])),
    )
    bench = Bench(cluster=replace(both, topics={**both.topics, "u": ()}))
    condition = bench.evaluation(view).condition
    assert (condition.partitions_changed, condition.owns_deleted) == (False, True)
    assert condition.present.cross_rack_share > condition.possible.cross_rack_share
    decision, is_reported = bench.decide(view)
    assert (decision.action, decision.reason, is_reported) == (Action.SUPPRESS, Reason.TOPIC_DELETED, True)
    assert bench.evaluator.tokens == 3
    bench.watch.cluster = both
    assert bench.decide(view)[0].reason is not Reason.TOPIC_DELETED


@pytest.mark.parametrize(
    ("count", "reason"),
    [(1, Reason.NOTHING_TO_GAIN), (2, Reason.NOTHING_TO_GAIN), (3, Reason.PARTITIONS_CHANGED)],
)
def test_a_topic_that_was_deleted_and_created_again_counts_by_what_has_no_owner(count: int, reason: Reason) -> None:
    """Only partitions that exist and that no member owns start a rebalance, at once."""
    view = group(member("m-a", "t", rack="a", assigned=from_pairs([("t", 0), ("t", 1)])))
    bench = Bench(cluster=cluster(RACKS, t=[[1]] * count))
    assert bench.decide(view)[0].reason is reason


def test_partitions_that_the_first_poll_lacks_are_not_concluded_to_be_lost() -> None:
    """Missing partitions may be due to a broker that is behind: there is no rebalance before it has caught up."""
    bench = Bench(cluster=cluster(RACKS, t=[[2], [1]]))
    assert bench.decide()[0].action is Action.SUPPRESS
    bench.watch.cluster = NEAR
    assert bench.decide()[0].action is Action.NOTHING


@pytest.mark.parametrize(
    ("planned", "view", "weights", "changes", "reason"),
    [
        (NEAR, VIEW, None, Changes(topics=("t",)), Reason.RACKS_CHANGED),
        (FAR, VIEW, {"t": (1, 1, 1, 2)}, Changes(traffic=True), Reason.TRAFFIC_CHANGED),
        (FAR, SWAPPED, None, Changes(members=("m-a", "m-b")), Reason.MEMBERS_RACKS_CHANGED),
        (FAR, VIEW, None, Changes(), Reason.CHEAPER_PLAN),
    ],
    ids=["racks", "traffic", "members", "nothing"],
)
def test_what_has_changed_since_the_plan_is_found_once_and_is_the_reason(
    planned: SettledCluster, view: GroupView, weights: GroupWeights | None, changes: Changes, reason: Reason
) -> None:
    """Nothing guesses it afterwards: the same value is in the condition, the decision and the event."""
    bench = Bench(cluster=planned)
    plan = bench.evaluation(view).plan
    bench.assigning.sent = Sent(
        generation=1, plan=plan, cluster=planned, seconds=0.0, members=2, subscriptions={}, weights=weights
    )
    bench.evaluator.forget()
    bench.watch.cluster = FAR
    condition = bench.evaluation().condition
    assert condition.changes == changes
    assert why_cheaper(condition) is reason
    bench.evaluator.forget()
    assert bench.evaluation(generation=2).condition.changes is None, "another agent planned for this generation"


def test_members_are_balanced_by_bytes_where_the_group_is_to_be() -> None:
    """One member reads nine tenths of the bytes, all of it near: by counts nothing is to be gained, by bytes it is."""
    weights = GroupWeights({"t": (4096, 4096, 1, 1)}, {"t": (900, 900, 100, 100)})
    for leading, reason in (
        ({}, Reason.NOTHING_TO_GAIN),
        ({"balance": "bytes"}, Reason.UNEVEN_LOAD),
        ({"groups": {"orders-*": {"balance": "bytes"}}}, Reason.UNEVEN_LOAD),
        ({"balance": "bytes", "groups": {"orders-*": {"balance": "partitions"}}}, Reason.NOTHING_TO_GAIN),
    ):
        bench = Bench(cluster=NEAR, leading=leading, weigh=lambda _: weights)
        assert bench.decide()[0].reason is reason
    assert bench.evaluation().condition.uneven is None
    uneven = Bench(cluster=NEAR, leading={"balance": "bytes"}, weigh=lambda _: weights).evaluation().condition.uneven
    assert uneven is not None
    assert list(uneven) == pytest.approx([0.8, 0.1])


def test_members_are_balanced_by_records_where_the_group_is_to_be() -> None:
    """All partitions have equally many bytes, and one member reads nine tenths of the records."""
    rates = {("t", number): 1000.0 for number in range(4)}
    records = {("t", number): 900.0 if number in {0, 1} else 100.0 for number in range(4)}
    by_bytes = Bench(cluster=NEAR, leading={"balance": "bytes"}, weigh=lambda _: weights_of_rates(rates))
    by_records = Bench(cluster=NEAR, leading={"balance": "records"}, weigh=lambda _: weights_of_rates(rates, records))
    assert by_bytes.decide()[0].reason is Reason.NOTHING_TO_GAIN
    assert by_records.decide()[0].reason is Reason.UNEVEN_LOAD


@pytest.mark.parametrize(
    ("rule", "counts"),
    [
        ({"match": "m-a", "max_partitions": 1}, (1, 3)),
        ({"match": "m-a", "max_partitions": 2**80}, (2, 2)),
        ({"match": "host-b", "capacity": 3.0}, (1, 3)),
        ({"match": "somebody", "capacity": 3.0}, (2, 2)),
    ],
)
def test_members_get_what_the_first_rule_that_fits_them_says(
    rule: Mapping[str, object], counts: tuple[int, int]
) -> None:
    """By client id or host here; the rest of the partitions goes to the others."""
    members = [replace(one, client_id=one.id, client_host=f"/host-{one.id[-1]}") for one in VIEW.members]
    bench = Bench(cluster=NEAR, leading={"members": [rule], "balance_tolerance": 0.0})
    plan = bench.evaluation(group(*members)).plan
    assert tuple(np.bincount(plan.final).tolist()) == counts


def test_static_members_that_return_in_other_racks_are_the_reason() -> None:
    """Two generations are compared by instance id: a restart gives a static member another member id."""
    bench = Bench(cluster=NEAR)
    plan = bench.evaluation(STATIC).plan
    bench.assigning.sent = Sent(generation=1, plan=plan, cluster=NEAR, seconds=0.0, members=2, subscriptions={})
    before = bench.evaluation(STATIC).condition.conditions
    same = group(*(replace(one, id=f"{one.id}-again") for one in STATIC.members))
    assert bench.evaluation(same).condition.conditions == before, "nothing has changed that planning goes by"
    condition = bench.evaluation(RETURNED).condition
    assert condition.changes == Changes(members=("i", "j"))
    assert why_cheaper(condition) is Reason.MEMBERS_RACKS_CHANGED
    assert condition.conditions == before + 1


def test_rates_are_summed_by_what_crosses_racks() -> None:
    """Rates are summed under the assignment in force and under the plan, in measured bytes, not in weights."""
    rates = Bench(measured=Measured(rates=lambda _: RATES)).evaluation().condition.rates
    assert rates is not None
    assert (rates.whole, rates.present, rates.possible) == (124.0, 120.0, 0.0)


def test_rates_are_summed_up_anew_every_few_seconds() -> None:
    """Rates, of possibly many partitions, are summed every few seconds; the measured crossing is read each time."""
    asked: list[str] = []

    def rates(name: str) -> Mapping[Partition, Rate]:
        asked.append(name)
        return RATES

    bench = Bench(measured=Measured(rates=rates, crossing=lambda _: CrossRackShare(share=0.3, at=7.0)))
    evaluation = bench.evaluation()
    for _ in range(26):
        bench.evaluator.decide(evaluation)
        bench.now += 0.2
    assert asked == ["orders-eu"] * 2
    assert evaluation.condition.crossing == CrossRackShare(share=0.3, at=7.0)


@pytest.mark.parametrize(
    ("groups", "mode", "action"),
    [
        ({}, "act", Action.REBALANCE),
        ({"orders-*": {"mode": "propose"}}, "propose", Action.PROPOSE),
        ({"payments": {"mode": "propose"}}, "act", Action.REBALANCE),
        ({"orders-eu": {"min_saving": 0.5}, "orders-*": {"mode": "propose"}}, "act", Action.SUPPRESS),
    ],
)
def test_the_first_pattern_has_the_rules(groups: Mapping[str, Mapping[str, Any]], mode: str, action: Action) -> None:
    """What the pattern does not set is taken from the section."""
    bench = Bench(policy={"groups": groups, "min_saving": 0.1})
    decision, _ = bench.decide()
    assert decision.action is action
    assert bench.evaluator.mode == mode


def test_a_trigger_that_waits_is_reported_once() -> None:
    """A trigger that waits is reported once, and again when racks or members have changed; no gain never is.

    After a restart the cause is unknown, not `racks-changed`, because the plan in force was made before.
    """
    nothing, news = Bench(cluster=NEAR).decide()
    assert (nothing.action, news) == (Action.NOTHING, False)
    assert Bench().decide()[0].reason is Reason.CHEAPER_PLAN
    bench = Bench(policy={"min_saving": 0.5})
    assert bench.decide()[1]
    assert not bench.decide()[1]
    other = replace(VIEW, members=VIEW.members)
    assert other is not VIEW
    assert not bench.decide(other)[1]
    bench.watch.cluster = cluster(RACKS, t=[[2], [1], [1], [3]])
    decision, news = bench.decide()
    assert (decision.reason, news) == (Reason.BELOW_MIN_SAVING, True)
    bench.watch.cluster = FAR
    assert bench.decide()[1]


def test_the_status_is_of_the_group_as_it_is() -> None:
    """The evaluator has the decision, its wait and the saving, and is deleted with the evaluation."""
    bench = Bench(
        policy={"windows": [{"cron": "0 2 * * *", "minutes": 60}]}, measured=Measured(rates=lambda _: RATES), now=0.0
    )
    bench.decide()
    evaluator = bench.evaluator
    assert evaluator.decision is not None
    assert (evaluator.decision.reason, evaluator.decision.until) == (Reason.OUTSIDE_WINDOW, MIDNIGHT + 7200)
    assert evaluator.saved_bytes_per_second == 120.0
    assert evaluator.saved_dollars_per_day == pytest.approx(120.0 * 86_400 * 0.02 / 2**30)
    bench.evaluator.forget()
    assert bench.evaluator.decision is None
    assert bench.evaluator.saved_bytes_per_second is None


def test_what_was_triggered_before_a_restart_counts_once() -> None:
    """Rebalances before a restart count once, however often they are reported; new ones are added."""
    bench = Bench(
        policy={"max_per_hour": 3},
        recent=lambda since: [at for at in (MIDNIGHT - 4000, MIDNIGHT + 10, MIDNIGHT + 20) if at >= since],
    )
    for turn in range(3):
        view = replace(VIEW, members=VIEW.members)
        decision, _ = bench.decide(view)
        if turn == 0:
            assert decision.action is Action.REBALANCE
        else:
            assert (decision.reason, decision.until) == (Reason.HOURLY_CAP, MIDNIGHT + 10 + 3600)
        bench.now += 1


def test_a_clock_that_was_set_back_does_not_lift_the_cap() -> None:
    """Rebalances that are in the future by the clock count for an hour from the start of the agent."""
    later = MIDNIGHT + 1000 + 7200
    bench = Bench(policy={"max_per_hour": 2}, recent=lambda since: [at for at in (later, later + 1) if at >= since])
    decision, _ = bench.decide(VIEW)
    assert decision.reason is Reason.HOURLY_CAP
    assert decision.until == pytest.approx(MIDNIGHT + 1000 + 3600, abs=1)
    bench.now += 3601
    decision, _ = bench.decide(replace(VIEW, members=VIEW.members))
    assert decision.action is Action.REBALANCE


def test_conditions_are_numbered() -> None:
    """The number changes with members or cluster, and not with another poll of the same."""
    bench = Bench()
    first = bench.evaluation().condition.conditions
    assert bench.evaluation(replace(VIEW, members=VIEW.members)).condition.conditions == first
    fewer = bench.evaluation(group(VIEW.members[0])).condition.conditions
    bench.watch.cluster = NEAR
    assert len({first, fewer, bench.evaluation(group(VIEW.members[0])).condition.conditions}) == 3


def test_a_group_with_an_unknown_topic_is_not_evaluated() -> None:
    """A group with an unknown topic is not evaluated until that topic has been polled."""
    bench = Bench(cluster=cluster(RACKS))
    assert bench.evaluator.evaluate(VIEW, leading=True) == (None, False)
    assert bench.evaluator.condition is None
    bench = Bench()
    view = group(member("m-a", "t", "new", rack="a", assigned=from_pairs([("t", 0)])))
    assert bench.evaluator.evaluate(view, leading=True) == (None, False)
    bench.watch.cluster = cluster(RACKS, t=[[1]], new=[[1]])
    evaluation, _ = bench.evaluator.evaluate(view, leading=True)
    assert evaluation is not None
    assert evaluation.condition.partitions_changed


def test_the_pause_is_that_of_the_last_rebalances() -> None:
    """The median of what was seen is expected, and decides; without any it is not known."""
    decision, _ = Bench(pauses=lambda _since: (0.0, 24.0, 21.0), policy={"max_pause_seconds": 10}).decide()
    assert (decision.reason, decision.pause_seconds) == (Reason.PAUSE_TOO_LONG, 21.0)
    assert Bench().decide()[0].pause_seconds is None
    log = EventLog(clock=lambda: 200.0)
    for number, seconds in enumerate((30.0, None, 1.0, 2.0, 3.0, 4.0)):
        log.add("rebalance", "orders", generation=number, pause_seconds=seconds, ago=100.0 - number)
    log.add("rebalance", "other", pause_seconds=9.0)
    assert _pauses(log, "orders", 0.0) == (4.0, 3.0, 2.0, 1.0)
    assert _pauses(log, "orders", 104.5) == (4.0,)


def test_a_pause_that_was_long_for_once_is_forgotten() -> None:
    """Only pauses of the last six hours count, by the wall clock, so also after a restart."""
    sinces: list[float] = []

    def pauses(since: float) -> tuple[float, ...]:
        sinces.append(since)
        return (25.0,) if since < MIDNIGHT else ()

    bench = Bench(pauses=pauses, policy={"max_pause_seconds": 10})
    assert bench.decide()[0].reason is Reason.PAUSE_TOO_LONG
    bench.now += 6 * 3600.0
    assert bench.decide()[0].action is Action.REBALANCE
    assert sinces == [MIDNIGHT + 1000.0 - 6 * 3600.0, MIDNIGHT + 1000.0]
