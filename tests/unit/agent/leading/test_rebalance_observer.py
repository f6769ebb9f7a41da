"""What the agent reports of rebalances as a member, with polls that are answered in the middle of one."""

from __future__ import annotations

from collections.abc import Sequence

from samerack.agent.leading.rebalance_observer import RebalanceObserver
from samerack.cluster.group import GroupView
from samerack.common.settings import Settings
from samerack.events import EventLog
from samerack.events.rebalance_tracker import RebalanceTracker
from samerack.protocol.model import from_pairs
from tests.unit.agent.values import cluster, group, member

LEADING = Settings(kafka={"bootstrap.servers": "h:1"}).leading
CLUSTER = cluster(t=[[1], [2], [3]])


def owning(one: Sequence[int], two: Sequence[int]) -> GroupView:
    """Two members that own these partitions of t."""
    owned = {"one": one, "two": two}
    return group(*(member(name, "t", assigned=from_pairs([("t", n) for n in has])) for name, has in owned.items()))


BEFORE, AFTER = owning([0, 1], [2]), owning([0], [1, 2])


def test_a_look_between_joingroup_and_syncgroup_does_not_undo_what_the_agent_began() -> None:
    """Such a poll shows Stable, before or after the rebalance: moves were reported as "not known; 0 of 9 moved"."""
    now = 100.0
    events = EventLog()
    chronicle = RebalanceTracker(events, cooperative=(), clock=lambda: now)
    observer = RebalanceObserver(chronicle.of("orders"), leading=LEADING, clock=lambda: now)
    observer.rejoins(expected=False)
    observer.joined(7)
    for _ in range(2):
        observer.sees(BEFORE, condition=None, cluster=CLUSTER)
    observer.begins("racks-changed")
    observer.rejoins(expected=False)
    now += 3.0  # the members' heartbeats
    observer.sees(BEFORE, condition=None, cluster=CLUSTER)
    observer.sees(AFTER, condition=None, cluster=CLUSTER)
    observer.joined(8)
    for _ in range(2):
        observer.sees(AFTER, condition=None, cluster=CLUSTER)
    told = [(event.generation, event.reason, event.moved) for event in reversed(events.latest())]
    assert told == [(7, "joined", None), (8, "racks-changed", 1)]
