"""Which replica serves: by the rule, and when to ask again."""

from __future__ import annotations

from agent.traffic.probe import Served, due, guess
from tests.unit.agent.values import look, partition

VIEW = partition(1, 2, 3, in_sync=(1, 2))


def test_the_rule_without_permission() -> None:
    """An in-sync replica in the rack where brokers select by rack, else the leader."""
    cluster = look(t=[VIEW])
    assert guess(cluster, VIEW, "b", rack_aware=True) == 2
    assert guess(cluster, VIEW, "c", rack_aware=True) == 1, "its replica fell behind"
    assert guess(cluster, VIEW, "b", rack_aware=False) == 1
    assert guess(cluster, VIEW, None, rack_aware=True) == 1
    assert guess(cluster, partition(1, leader=-1, in_sync=()), "c", rack_aware=True) is None


def test_the_leader_serves_its_own_rack() -> None:
    """Of several near replicas the leader is taken."""
    view = partition(4, 1)
    assert guess(look(brokers={1: "a", 4: "a"}, t=[view]), view, "a", rack_aware=True) == 4


def test_readers_are_asked_for_when_something_changed() -> None:
    """A new reader, another leader or in-sync set, or an old answer; never while there is no leader."""
    reader = (("t", 0), "b")
    cluster = look(t=[VIEW])
    known = {reader: Served(broker=2, view=VIEW, at=100.0)}
    assert due([reader], {}, cluster, now=100.0, after=60.0) == [reader]
    assert due([reader], known, cluster, now=130.0, after=60.0) == []
    assert due([reader], known, cluster, now=160.0, after=60.0) == [reader]
    assert due([reader], known, look(t=[partition(1, 2, 3)]), now=100.0, after=60.0) == [reader]
    assert due([reader], {}, look(t=[partition(1, leader=-1)]), now=100.0, after=60.0) == []
    assert due([(("gone", 0), "b")], {}, cluster, now=100.0, after=60.0) == []
