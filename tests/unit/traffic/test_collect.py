"""Which replica serves: by the rule, and when to ask again."""

from __future__ import annotations

from samerack.traffic.collect import Served, due_readers, serving_by_rule, settle_serving
from tests.unit.agent.values import partition, view_of

VIEW = partition(1, 2, 3, in_sync=(1, 2))


def test_the_rule_without_permission() -> None:
    """An in-sync replica in the reader's rack serves if brokers select by rack, else the leader."""
    cluster = view_of(t=[VIEW])
    assert serving_by_rule(cluster, VIEW, "b", rack_aware=True) == 2
    assert serving_by_rule(cluster, VIEW, "c", rack_aware=True) == 1, "its replica fell behind"
    assert serving_by_rule(cluster, VIEW, "b", rack_aware=False) == 1
    assert serving_by_rule(cluster, VIEW, None, rack_aware=True) == 1
    assert serving_by_rule(cluster, partition(1, leader=-1, in_sync=()), "c", rack_aware=True) is None


def test_the_leader_serves_its_own_rack() -> None:
    """Of several near replicas the leader serves."""
    view = partition(4, 1)
    assert serving_by_rule(view_of(brokers={1: "a", 4: "a"}, t=[view]), view, "a", rack_aware=True) == 4


def test_readers_are_asked_for_when_something_changed() -> None:
    """A new reader, another leader or in-sync set, and an old answer are asked for, but not without a leader."""
    reader, readers = (("t", 0), "b"), {"b": [("t", 0)]}
    cluster = view_of(t=[VIEW])
    known = {"b": {("t", 0): Served(broker=2, view=VIEW, at=100.0, seconds=60.0)}}
    assert due_readers(readers, {}, cluster, now=100.0) == [reader]
    assert due_readers(readers, known, cluster, now=130.0) == []
    assert due_readers(readers, known, cluster, now=160.0) == [reader]
    assert due_readers(readers, known, view_of(t=[partition(1, 2, 3)]), now=100.0) == [reader]
    assert due_readers(readers, {}, view_of(t=[partition(1, leader=-1)]), now=100.0) == []
    assert due_readers({"b": [("gone", 0)]}, {}, cluster, now=100.0) == []


def test_an_unexpected_answer_is_asked_for_again_soon() -> None:
    """A new topic's leader names itself until it knows its followers; if that stays so, the pause doubles."""
    reader = (("t", 0), "b")
    cluster = view_of(t=[VIEW])

    def updated(broker: int, last: Served | None = None) -> Served:
        known = {"b": {("t", 0): last}} if last is not None else {}
        return settle_serving({reader: broker}, known, cluster, now=0.0, rack_aware=True)[reader]

    first = updated(1)
    again = updated(1, first)
    assert first.seconds < 10
    assert again.seconds == 2 * first.seconds
    assert updated(1, Served(broker=1, view=VIEW, at=0.0, seconds=50.0)).seconds == 60.0
    assert updated(2, again).seconds == 60.0
