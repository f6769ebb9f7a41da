"""Tests of how the agent takes its place: chosen before joining where the group's leader is unsound."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import cast

import pytest
import structlog

from samerack.agent.leading.join_position import JoinPosition
from samerack.agent.leading.membership import Membership
from samerack.agent.metrics import Metrics
from samerack.agent.policy.back_off_causes import BackOffError, Cause
from samerack.cluster.group import GroupView
from samerack.cluster.joining import counts_agents, is_exposed, members_before
from samerack.common.errors import AgentError
from samerack.protocol.java import spread_hash
from samerack.protocol.values import TopicPartitions, from_pairs, no_partitions
from samerack.settings.leading import LeadingSettings
from tests.unit.agent.values import group, member

LEADING = LeadingSettings()


@dataclass
class _Broker:
    """Replaces a membership: returns ids in turn and counts requests."""

    ids: list[str]
    view: GroupView
    is_static: bool = True
    group_instance_id: str | None = "samerack"
    group_id: str = "orders"
    member_id: str = ""
    leader_id: str = ""
    leading: bool = False
    generation_id: int = 1
    assigned: TopicPartitions = field(default_factory=no_partitions)
    reserved: set[str] = field(default_factory=set)
    forgotten: frozenset[str] = frozenset()
    nudges: int = 0

    def reserve(self) -> str:
        name = self.ids.pop(0)
        self.reserved.add(name)
        return name

    def release(self, member_id: str) -> bool:
        self.reserved.remove(member_id)
        return member_id not in self.forgotten

    def adopt(self, member_id: str) -> None:
        self.member_id, self.is_static = member_id, False

    def nudge(self) -> None:
        self.nudges += 1


def position(notify: Callable[[], None] = lambda: None) -> JoinPosition:
    """A join position that logs nowhere."""
    return JoinPosition(retry_seconds=30.0, metrics=Metrics(), log=structlog.get_logger(), notify_supervisor=notify)


def of(broker: _Broker) -> Membership:
    """The broker, as the join position sees it."""
    return cast("Membership", broker)


def names(count: int) -> list[str]:
    """Some member ids."""
    return [f"agent-{number}" for number in range(count)]


def in_bucket(bucket: int) -> str:
    """A member id in that bucket, in tables of 16 and of 32."""
    return next(name for name in (f"m-{number}" for number in range(2000)) if spread_hash(name) & 31 == bucket)


STICKY = group(*(member(in_bucket(bucket), "t") for bucket in (3, 9, 14)), protocol="sticky")


@pytest.mark.parametrize("dynamic", [False, True])
def test_a_place_behind_the_first_member_is_chosen_before_joining(*, dynamic: bool) -> None:
    """Ids are reserved until one is right behind the first member; all others are released.

    A lost dynamic membership, without instance id like most members, is not mistaken for one of them. The supervisor
    hears of the place: a worker that died within 0.2 s of joining was in the group, with an id that nobody knew.
    """
    broker = _Broker(names(200), STICKY)
    if dynamic:
        broker = _Broker(names(200), STICKY, is_static=False, group_instance_id=None)
    heard: list[str] = []
    position(lambda: heard.append(broker.member_id)).enter(of(broker), STICKY)
    assert broker.reserved == {broker.member_id}
    assert heard == [broker.member_id] != [""]
    assert not is_exposed(STICKY, broker.member_id)
    assert members_before(STICKY, broker.member_id) == 1


@pytest.mark.parametrize(
    "view",
    [
        group(member("m-1", "t"), protocol="range"),
        group(member("m-1", "t"), member("old", instance_id="samerack"), protocol="sticky"),
    ],
    ids=["range leaders give nothing to a member without topics", "the instance id is in the group: no rebalance"],
)
def test_a_static_member_reserves_no_id_where_any_place_is_good(view: GroupView) -> None:
    """There is none to be had from this broker."""
    broker = _Broker([], STICKY)
    position().enter(of(broker), view)
    assert broker.is_static


def test_no_safe_id_means_staying_outside() -> None:
    """If every id would be exposed, all are released; an exposed member that cannot rejoin elsewhere leaves."""
    exposed = [name for name in names(2000) if is_exposed(STICKY, name)]
    broker = _Broker(exposed, STICKY)
    with pytest.raises(BackOffError):
        position().enter(of(broker), STICKY)
    assert not broker.reserved
    with pytest.raises(BackOffError):
        position().keep(of(_Broker([], STICKY, member_id=exposed[0], is_static=False)), STICKY)


def test_ids_that_the_coordinator_forgets_are_not_reserved_again_and_again() -> None:
    """A coordinator that does not know an id that it has just given is asked for no more: it may be another one."""
    exposed = [name for name in names(2000) if is_exposed(STICKY, name)]
    count, broker = len(exposed), _Broker(exposed, STICKY, forgotten=frozenset(exposed[2:3]))
    with pytest.raises(AgentError, match="does not know a member id that was reserved a moment ago"):
        position().enter(of(broker), STICKY)
    assert len(broker.ids) == count - 3


def test_partitions_are_given_back_a_few_times() -> None:
    """Partitions given to the agent start a rebalance; after three in a row the agent leaves."""
    safe = next(name for name in names(2000) if members_before(STICKY, name) == 1 and not is_exposed(STICKY, name))
    broker = _Broker([], STICKY, member_id=safe, is_static=False, assigned=from_pairs([("t", 0)]))
    place = position()
    for _ in range(3):
        assert place.keep(of(broker), STICKY)
    with pytest.raises(BackOffError):
        place.keep(of(broker), STICKY)
    assert broker.nudges == 3


def test_one_gift_under_a_sound_protocol_is_enough() -> None:
    """@platformatic/kafka's roundrobin deals to every member: each return was another rebalance with the same gift."""
    view = replace(STICKY, protocol="roundrobin")
    broker = _Broker([], view, member_id="m", assigned=from_pairs([("t", 0), ("t", 1)]))
    with pytest.raises(BackOffError, match="its leader's roundrobin gave 2 partitions to the agent") as error:
        position().keep(of(broker), view)
    assert error.value.cause is Cause.ASSIGNED_WITHOUT_TOPICS
    assert broker.nudges == 0


def owning(*counts: int, protocol: str = "cooperative-sticky", topics: tuple[str, ...] = ("t", "t", "t")) -> GroupView:
    """A group whose members have so many partitions, and these topics."""
    members = zip("abc", counts, topics, strict=False)
    return group(
        *(member(name, topic, assigned=from_pairs([("t", n) for n in range(count)])) for name, count, topic in members),
        protocol=protocol,
    )


@pytest.mark.parametrize(
    ("view", "counted"),
    [
        (owning(4, 5, 3), True),
        (owning(4, 5, 3, protocol="sticky"), True),
        (owning(4, 4, 4), False),
        (owning(5, 4, 3, protocol="range"), False),
        (owning(4, 5, 3, topics=("t", "t", "u")), False),
        (owning(2, 8, 2), False),
        (owning(12), False),
    ],
    ids=["@platformatic/kafka 2.12", "sticky", "even", "range deals by topic", "other topics", "weights", "one"],
)
def test_a_leader_that_counts_the_agent_is_known_by_its_result(*, view: GroupView, counted: bool) -> None:
    """Two owned six each, a third joined: with the agent counted each has three at least, and some are larger."""
    assert counts_agents(view) is counted


def test_a_leader_that_counts_the_agent_is_left_after_some_seconds_of_one_generation() -> None:
    """As after a gift: between two rounds, or in another generation, uneven counts prove nothing yet."""
    place, broker, now = position(), _Broker([], STICKY, member_id="m"), 100.0
    place.clock = lambda: now
    for generation, view, after in ((5, owning(4, 5, 3), 4.9), (6, owning(4, 5, 3), 4.9), (6, owning(4, 4, 4), 1.0)):
        broker.generation_id = generation
        place.check_shares(of(broker), view)
        now += after
    place.check_shares(of(broker), owning(4, 5, 3))
    now += 5.0
    with pytest.raises(BackOffError, match=r"cooperative-sticky counts the agent.*: 4, 5, 3 partitions") as error:
        place.check_shares(of(broker), owning(4, 5, 3))
    assert error.value.cause is Cause.ASSIGNED_WITHOUT_TOPICS
