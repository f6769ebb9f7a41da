"""What-if promises what the agent's own plans keep, for random groups under all settings of how groups are planned."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Literal

import pytest

from samerack.agent.publishing.states import state_record
from samerack.assignors.evaluate import known_crossing, row_of
from samerack.cluster.racks import MemberRack
from samerack.cluster.view import ClusterView, PartitionView
from samerack.common.records import GroupState, encode
from samerack.common.weights import weights_of_rates
from samerack.pipeline.problem import crossing, group_of, led_plan, led_weights
from samerack.pipeline.report.chapters import ShareFacts
from samerack.pipeline.whatif_group import LEAD, Questions, outcomes
from samerack.planning.planner import make_plan
from samerack.planning.problem import problem_of
from samerack.protocol.values import from_pairs
from samerack.settings.leading import LeadingSettings, MemberRule
from samerack.traffic.shares import as_last_seen, mode_of_group
from samerack.traffic.snapshot import GroupTraffic, ObservedMember, PartitionTraffic
from tests import effort
from tests.unit.agent.measured import RACKS

_FLEETS = effort.of(40, minimum=6)
_RULES = (MemberRule(match="m[01]", max_partitions=2), MemberRule(match="m3", capacity=2.0))
_PROTOCOLS = ("range", "roundrobin", "sticky", "cooperative-sticky")


@pytest.mark.parametrize("keep", ["auto", "always", "never"])
@pytest.mark.parametrize("weigh_by", ["bytes", "partitions"])
@pytest.mark.parametrize("balance", ["partitions", "bytes", "records", "members"])
def test_whatif_promises_what_the_agent_keeps(
    keep: Literal["auto", "always", "never"],
    weigh_by: Literal["bytes", "partitions"],
    balance: Literal["partitions", "bytes", "records", "members"],
) -> None:
    """The agent leads each group after its state was published, and reads exactly what `lead` and the report said."""
    for seed in range(_FLEETS):
        random = Random(f"{keep}{weigh_by}{seed}")  # noqa: S311 - fleets, not secrets
        skew = random.choice([0, 0, 1, 3])
        leading = LeadingSettings(
            keep_copartitioned=keep,
            weigh_by=weigh_by,
            max_skew=skew,
            balance="partitions" if balance == "members" else balance,
            balance_tolerance=random.choice([0.0, 0.1]),
            members=_RULES if balance == "members" else (),
        )
        group, cluster, rates = _group(random)
        # on a busy machine a plan by load may be late within the usual deadline, and is made by counts then
        mode = replace(mode_of_group(group, leading, rack_aware_fetch=True), deadline_seconds=120.0)
        records = {one: 10 ** random.uniform(0, 6) for one in rates} if balance == "records" else None
        weights = weights_of_rates(rates, records) if leading.uses_traffic else None
        problem = problem_of(group.members, as_last_seen(cluster), mode, weights=weights)
        plan = make_plan(problem, mode)
        kept = known_crossing(problem, plan.final, row_of(problem, rates))

        seen = _published(replace(group, problem=problem), cluster, leading)
        promised = next(one for one in outcomes(seen, Questions()) if one.scenario == LEAD)
        assert promised.reads.crossing == pytest.approx(kept), (keep, weigh_by, seed)
        possible = ShareFacts().row_of(encode(seen).decode())["possible"]
        now = crossing(group_of(seen), group_of(seen).problem.owner).share
        assert possible == pytest.approx(min(now, kept / sum(rates.values()))), (keep, weigh_by, seed)


def test_an_agent_that_is_older_plans_by_the_rates() -> None:
    """Without the agent's weights what-if makes them of the rates as the agent does, and takes its defaults."""
    group, cluster, rates = _group(Random(7))  # noqa: S311 - a fleet, not a secret
    leading = LeadingSettings()
    mode = mode_of_group(group, leading, rack_aware_fetch=True)
    problem = problem_of(group.members, as_last_seen(cluster), mode, weights=weights_of_rates(rates))
    seen = _published(replace(group, problem=replace(problem, weights=None)), cluster, leading)
    seen = seen.model_copy(update={"planning": None})
    planned = group_of(seen)
    weights = led_weights(seen)
    assert weights is not None
    assert problem.weights is not None
    assert weights.tolist() == problem.weights.tolist()
    assert led_plan(planned).tolist() == make_plan(problem, mode).final.tolist()


def _group(random: Random) -> tuple[GroupTraffic, ClusterView, dict[tuple[str, int], float]]:
    """A group of some topics, half of which are co-partitioned, its cluster, and what is written to partitions."""
    sizes = {f"t{number}": random.choice([3, 6, random.randint(1, 12)]) for number in range(random.randint(1, 4))}
    partitions = [(topic, number) for topic, size in sizes.items() for number in range(size)]
    rates = {one: float(random.choice([900, 1_000, 1_100, 10 ** random.uniform(0, 6)])) for one in partitions}
    members = [f"m{number}" for number in range(random.randint(1, 7))]
    owners = {one: random.choice(members) for one in partitions}
    placed = [tuple(random.sample(sorted(RACKS), random.randint(1, 2))) for _ in partitions]
    brokers = dict(zip(partitions, placed, strict=True))
    views = {one: PartitionView(leader=there[0], replicas=there, in_sync=there) for one, there in brokers.items()}
    cluster = ClusterView(
        brokers=RACKS, topics={topic: tuple(views[topic, at] for at in range(size)) for topic, size in sizes.items()}
    )
    group = GroupTraffic(
        group="orders",
        kind="classic",
        state="Stable",
        assignor=random.choice(_PROTOCOLS),
        members=tuple(
            ObservedMember(
                id=name,
                instance_id=None,
                client_id=name,
                client_host="10.0.0.1",
                rack=MemberRack(
                    rack=random.choice([*RACKS.values()]),  # type: ignore[arg-type]  # all racks are set
                    source="subscription",
                    fetches_with_rack=random.random() < 0.8,
                ),
                topics=frozenset(sizes),
                owned=from_pairs(sorted(one for one, owner in owners.items() if owner == name)),
                sessions=False,
            )
            for name in members
        ),
        partitions=tuple(
            PartitionTraffic(
                partition=one,
                member=owners[one],
                serving_rack=None,
                bytes_per_second=rates[one],
                lag_records=None,
            )
            for one in partitions
        ),
    )
    return group, cluster, rates


def _published(group: GroupTraffic, cluster: ClusterView, leading: LeadingSettings) -> GroupState:
    """The group's state as an agent that does not lead it publishes it."""
    return GroupState(
        id="1",
        agent="a",
        cluster="c",
        group=group.group,
        at=1,
        kind=group.kind,
        state=group.state,
        assignor=group.assignor,
        role="",
        rack_aware_fetch=True,
        **state_record(group, cluster, leading)._asdict(),
    )
