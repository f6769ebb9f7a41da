"""Simulated clusters with one cause worth most each: it comes first, with the price of what its cure then saves."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Literal

import numpy as np
import pytest

from samerack.assignors.build import MemberInput, build_problem
from samerack.assignors.consumer.registry import ASSIGNORS, Options
from samerack.assignors.evaluate import share_of_owners
from samerack.assignors.problem import Int32Array, Problem
from samerack.cluster.broker_configs import ServerAssignors
from samerack.cluster.racks import MemberRack
from samerack.cluster.view import ClusterView, PartitionView
from samerack.common.money import SECONDS_PER_MONTH, shipped
from samerack.reporting import costs
from samerack.reporting.baseline import server_share, with_servers
from samerack.reporting.evidence import Code, Evidence, Findings
from samerack.reporting.report import Report
from samerack.reporting.verify import verdict
from samerack.settings.leading import LeadingSettings
from samerack.traffic import shares
from samerack.traffic.snapshot import (
    BlindSpot,
    Flow,
    GroupKind,
    GroupTraffic,
    PartitionTraffic,
    Shares,
    TrafficSnapshot,
)
from tests.unit.agent.measured import RACKS, WINDOW_SECONDS, A, B, C, flow, group, member, snapshot

PRICES: Final = shipped("aws")
MB: Final = 1_000_000
EVERYWHERE: Final = ((1, 2, 3), (2, 3, 1), (3, 1, 2)) * 6
SINGLE: Final = ((1,), (2,), (3,)) * 6
ONE_RACK: Final = ((1,),) * 18
UNIFORM: Final = ServerAssignors(by_broker=dict.fromkeys(RACKS, ("samerack", "uniform", "range")))


@dataclass(frozen=True, kw_only=True)
class Readers:
    """A group: where its members truly are, which rack each shows, and who assigns what they read of one topic."""

    name: str
    replicas: tuple[tuple[int, ...], ...]
    racks: tuple[str, ...] = (A, B, C) * 2
    shown: tuple[str | None, ...] | None = None
    plan: Literal["range", "optimal"] = "range"
    role: str = ""
    kind: GroupKind = "classic"
    size: int = 100 * MB

    @property
    def known(self) -> dict[str, str | None]:
        """The rack that each member shows."""
        shown = self.racks if self.shown is None else self.shown
        return {f"m{at}": rack for at, rack in enumerate(shown)}

    def problem(self, *, selector: bool) -> Problem:
        """The group as an assignment problem, with the plan of its assignor."""
        made = build_problem(
            topics={self.name: [[str(RACKS[broker]) for broker in one] for one in self.replicas]},
            members=[
                MemberInput(id=name, topics=(self.name,), rack=rack, reads_any_replica=selector and rack is not None)
                for name, rack in self.known.items()
            ],
        )
        return replace(made, owner=self._owners(made))

    def _owners(self, made: Problem) -> Int32Array:
        if self.plan == "optimal":
            return ASSIGNORS["optimal"].assign(made, Options())
        return np.arange(len(self.replicas), dtype=np.int32) * len(made.members) // len(self.replicas)

    def reads(self, *, selector: bool) -> list[tuple[str, str, str]]:
        """Of each partition the owner, the rack where that truly is, and the rack that serves it."""
        found = []
        for at, owner in enumerate(self.problem(selector=selector).owner.tolist()):
            near = {str(RACKS[broker]) for broker in self.replicas[at]}
            shown = self.known[f"m{owner}"]
            served = shown if selector and shown in near else RACKS[self.replicas[at][0]]
            found.append((f"m{owner}", self.racks[owner], str(served)))
        return found


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """Groups on three brokers in three racks; `selector`: whether followers may serve."""

    groups: tuple[Readers, ...]
    selector: bool = True

    def bill(self) -> float:
        """What truly crosses racks, in dollars a month."""
        crossing = sum(
            one.size * (rack != served) for one in self.groups for _, rack, served in one.reads(selector=self.selector)
        )
        return PRICES.dollars(crossing) / WINDOW_SECONDS * SECONDS_PER_MONTH

    def verdict(self) -> Findings:
        """What `verify` finds, which sees what members show."""
        taken = replace(snapshot(*map(self._observed, self.groups)), rack_aware_fetch=self.selector)
        views = {
            one.name: tuple(PartitionView(leader=at[0], replicas=at, in_sync=at) for at in one.replicas)
            for one in self.groups
        }
        taken = replace(taken, cluster=ClusterView(brokers=dict(RACKS), topics=views))
        return verdict(Evidence(snapshot=taken, report=self._report(taken), leading=LeadingSettings()))

    def _report(self, taken: TrafficSnapshot) -> Report:
        made = costs.report(taken, PRICES, roles={one.name: one.role for one in self.groups if one.role})
        return with_servers(made, taken, offered=lambda: UNIFORM, share_of=server_share)

    def _observed(self, readers: Readers) -> GroupTraffic:
        made, reads = readers.problem(selector=self.selector), readers.reads(selector=self.selector)
        flows: list[Flow] = [
            flow(readers.known[owner] or "", served, readers.size, topic=readers.name) for owner, _, served in reads
        ]
        best = ASSIGNORS["optimal"].assign(made, Options())
        now = shares.measured(flows)
        found = Shares(
            present_bytes=now,
            present_partitions=now,
            optimal=share_of_owners(made, best, None),
            optimal_by="bytes",
            random=2 / 3,
        )
        seen = group(readers.name, flows=flows, members=readers.known, kind=readers.kind, shares=found, made=made)
        fetching = {
            name: MemberRack(rack=rack, source="subscription" if rack else "none", fetches_with_rack=rack is not None)
            for name, rack in readers.known.items()
        }
        return replace(
            seen,
            members=tuple(replace(member(name, rack), rack=fetching[name]) for name, rack in readers.known.items()),
            blind_spots=(BlindSpot.SERVING_GUESSED,),
            partitions=tuple(
                PartitionTraffic(
                    partition=(readers.name, number),
                    member=owner,
                    serving_rack=served,
                    bytes_per_second=readers.size / WINDOW_SECONDS,
                    lag_records=0,
                )
                for number, (owner, _, served) in enumerate(reads)
            ),
        )


NEAR: Final = Readers(name="near", replicas=SINGLE, plan="optimal")
SMALL: Final = Readers(name="small", replicas=SINGLE, size=20 * MB)
FETCHING: Final = Readers(name="orders", replicas=EVERYWHERE)
BROKER_ASSIGNED: Final = Readers(name="payments", replicas=EVERYWHERE, kind="consumer")
RANDOM: Final = Readers(name="orders", replicas=SINGLE)
FOLDED: Final = Readers(name="orders", replicas=EVERYWHERE, shown=tuple(rack.upper() for rack in (A, B, C) * 2))
BARE: Final = Readers(name="orders", replicas=EVERYWHERE, shown=(None,) * 6)
UNEVEN: Final = Readers(name="orders", replicas=SINGLE, racks=(A,) * 4 + (B, C), plan="optimal", role="leading")
CROWDED: Final = Readers(name="orders", replicas=ONE_RACK, plan="optimal", role="leading")
CASES: Final = {
    Code.NO_RACK_AWARE_SELECTOR: (
        Cluster(groups=(FETCHING, BROKER_ASSIGNED, SMALL, NEAR), selector=False),
        Cluster(groups=(FETCHING, BROKER_ASSIGNED, SMALL, NEAR)),
    ),
    Code.AT_RANDOM_BASELINE: (
        Cluster(groups=(RANDOM, SMALL, NEAR)),
        Cluster(groups=(replace(RANDOM, plan="optimal"), SMALL, NEAR)),
    ),
    Code.RACKS_DIFFER_IN_CASE: (Cluster(groups=(SMALL, FOLDED)), Cluster(groups=(SMALL, replace(FOLDED, shown=None)))),
    Code.MEMBERS_WITHOUT_RACK: (Cluster(groups=(SMALL, BARE)), Cluster(groups=(SMALL, replace(BARE, shown=None)))),
    Code.UNEVEN_OVER_RACKS: (
        Cluster(groups=(SMALL, UNEVEN)),
        Cluster(groups=(SMALL, replace(UNEVEN, racks=(A, B, C) * 2))),
    ),
    Code.REPLICAS_PREVENT_LOCALITY: (
        Cluster(groups=(SMALL, CROWDED)),
        Cluster(groups=(SMALL, replace(CROWDED, replicas=EVERYWHERE))),
    ),
}


@pytest.mark.parametrize("code", CASES, ids=lambda code: code.value)
def test_what_saves_most_comes_first_with_what_it_saves(code: Code) -> None:
    """The price is within five per cent of what the bill is less with that cure and no other."""
    before, after = CASES[code]
    found = before.verdict()
    first = found.findings[0]
    assert (first.code, found.first) == (code, first)
    assert first.dollars_per_month == pytest.approx(before.bill() - after.bill(), rel=0.05)
    assert before.bill() > after.bill()


def test_the_brokers_assignor_is_not_advised_while_only_leaders_serve() -> None:
    """It takes any replica for near, so that it changes nothing then; with followers serving there is nothing to do."""
    found = Cluster(groups=(BROKER_ASSIGNED,), selector=False).verdict()
    assert [one.code for one in found.findings] == [Code.NO_RACK_AWARE_SELECTOR]
    assert Cluster(groups=(BROKER_ASSIGNED,)).verdict().findings == ()


def test_cures_that_save_nothing_alone_name_what_they_need_first() -> None:
    """Racks and followers that serve need each other, so each names the other, and both cost money."""
    found = Cluster(groups=(BARE,), selector=False).verdict()
    assert {one.code: one.dollars_per_month for one in found.findings} == {
        Code.NO_RACK_AWARE_SELECTOR: 0,
        Code.MEMBERS_WITHOUT_RACK: 0,
    }
    assert found.costs
    assert found.first is None
    cures = {one.code: one.cure for one in found.findings}
    assert "alone this saves nothing now, first no-rack-aware-selector" in cures[Code.MEMBERS_WITHOUT_RACK]
    assert "alone this saves nothing now, first client.rack in the members" in cures[Code.NO_RACK_AWARE_SELECTOR]
    uneven = replace(UNEVEN, plan="range", role="")
    (spread,) = (one for one in Cluster(groups=(uneven,)).verdict().findings if one.code is Code.UNEVEN_OVER_RACKS)
    assert (spread.dollars_per_month, spread.costs) == (0, True)
    assert "first let the agent lead it" in spread.cure
