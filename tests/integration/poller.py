"""An agent's measurement, driven by a test, and helpers for its snapshots."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from lab.sandbox.contract import KafkaCluster
from lab.sandbox.members.process import Member
from lab.sandbox.processes import PATIENCE
from samerack.election.leadership_state import LeadershipState
from samerack.reporting.costs import report
from samerack.settings.all_settings import Settings
from samerack.settings.loading import load
from samerack.settings.measuring import MoneySettings, price_table
from samerack.traffic.board import TrafficBoard
from samerack.traffic.metrics import TrafficMetrics
from samerack.traffic.snapshot import GroupTraffic, TrafficSnapshot
from samerack.traffic.watch import TrafficWatch


def settings_for(cluster: KafkaCluster, *groups: str) -> Settings:
    """Settings of an agent that observes these groups."""
    return load(
        flags={"kafka": {"bootstrap.servers": cluster.bootstrap}, "traffic": {"groups": list(groups)}}, environment={}
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Rest:
    """A member at rest: bytes that its client counted, and bytes and records that the agent counted."""

    received: int
    counted: int
    records: int


class Poller:
    """An agent's measurement that polls on request, for groups whose names start with `group`."""

    def __init__(self, settings: Settings, group: str, leadership: LeadershipState | None = None) -> None:
        self.group = group
        self.board = TrafficBoard()
        self.watch = TrafficWatch(
            settings,
            board=self.board,
            metrics=TrafficMetrics.silent(),
            rack_aware=lambda: True,
            leadership=leadership,
        )

    def until(self, holds: Callable[[TrafficSnapshot], bool], *, seconds: float = 45) -> TrafficSnapshot:
        """Poll until a condition holds."""
        deadline = time.monotonic() + seconds * PATIENCE
        while True:
            snapshot = self.watch.poll()
            if holds(snapshot):
                return snapshot
            assert time.monotonic() < deadline, snapshot
            time.sleep(1.0)

    def records(self, group: str) -> int:
        """The records of the group that are counted so far."""
        return sum(volume.records for key, volume in self.board.totals().items() if key.group == group)

    def at_rest(self, member: Member, group: str) -> Rest:
        """The figures of a group's only member once all records are read and committed; no producer may write."""
        self.until(lambda seen: all(one.lag_records == 0 for one in named(seen, group).partitions))
        heard = len(member.events)
        member.wait(lambda: any(event.brokers for event in member.events[heard:]), "it reports what it received")
        self.watch.poll()
        totals = self.board.totals().items()
        return Rest(
            received=sum(member.received.values()),
            counted=sum(volume.wire_bytes for key, volume in totals if key.group == group),
            records=self.records(group),
        )


def named(snapshot: TrafficSnapshot, name: str) -> GroupTraffic:
    """A group of a snapshot."""
    return next(one for one in snapshot.groups if one.group == name)


def member_rack(group: GroupTraffic, member: str | None) -> str | None:
    """The rack of a member by its id."""
    return next((one.rack.rack for one in group.members if one.id == member), None)


def costs_what_crosses(snapshot: TrafficSnapshot, name: str) -> bool:
    """Whether a group has a price: that of the bytes that crossed racks, above zero."""
    prices = price_table(MoneySettings())
    cost = next(one for one in report(snapshot, prices, roles={}).groups if one.group == name)
    return bool(cost.dollars_per_month) and cost.dollars == prices.dollars(cost.cross_rack_bytes or 0) > 0


def measured(snapshot: TrafficSnapshot, name: str) -> GroupTraffic | None:
    """A group of a snapshot, if its bytes in the window are known; else None."""
    for one in snapshot.groups:
        if one.group == name and one.shares.present_bytes is not None and one.bytes_per_second:
            return one
    return None
