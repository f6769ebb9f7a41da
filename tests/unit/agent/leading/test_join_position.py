"""Tests of how the agent takes its place: chosen before joining where the group's leader is unsound."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import cast

import pytest
import structlog

from samerack.agent.leading.admission import refusal
from samerack.agent.leading.join_position import JoinPosition
from samerack.agent.leading.membership import Membership
from samerack.agent.leading.order import is_exposed, members_before
from samerack.agent.metrics import Metrics
from samerack.agent.policy.back_off_causes import BackOffError
from samerack.cluster.group import GroupView
from samerack.common.errors import AgentError
from samerack.common.settings import LeadingSettings
from samerack.protocol.java import spread_hash
from samerack.protocol.model import NO_PARTITIONS, TopicPartitions, from_pairs
from tests.unit.agent.values import group, member

LEADING = LeadingSettings()


@dataclass
class Broker:
    """Replaces a membership: returns ids in turn and counts requests."""

    ids: list[str]
    look: GroupView
    is_static: bool = True
    group_instance_id: str | None = "samerack"
    group_id: str = "orders"
    member_id: str = ""
    leader_id: str = ""
    leading: bool = False
    assigned: TopicPartitions = NO_PARTITIONS
    reserved: set[str] = field(default_factory=set)
    forgotten: frozenset[str] = frozenset()
    nudges: int = 0

    def reserve(self) -> str:
        """Reserve the next id."""
        name = self.ids.pop(0)
        self.reserved.add(name)
        return name

    def release(self, member_id: str) -> bool:
        """Release an id."""
        self.reserved.remove(member_id)
        return member_id not in self.forgotten

    def adopt(self, member_id: str) -> None:
        """Use the id."""
        self.member_id, self.is_static = member_id, False

    def nudge(self) -> None:
        """Ask for a rebalance."""
        self.nudges += 1


def seat() -> JoinPosition:
    """A join position that logs nowhere."""
    return JoinPosition(retry_seconds=30.0, metrics=Metrics(), log=structlog.get_logger())


def of(broker: Broker) -> Membership:
    """The broker, as the join position sees it."""
    return cast("Membership", broker)


def names(count: int) -> list[str]:
    """Some member ids."""
    return [f"agent-{number}" for number in range(count)]


def in_bucket(bucket: int) -> str:
    """A member id in that bucket, in tables of 16 and of 32."""
    return next(name for name in (f"m-{number}" for number in range(2000)) if spread_hash(name) & 31 == bucket)


STICKY = group(*(member(in_bucket(bucket), "t") for bucket in (3, 9, 14)), protocol="sticky")


def test_a_place_behind_the_first_member_is_chosen_before_joining() -> None:
    """Ids are reserved until one is right behind the first member; all others are released."""
    broker = Broker(names(200), STICKY)
    seat().enter(of(broker), STICKY)
    assert broker.reserved == {broker.member_id}
    assert not is_exposed(STICKY, broker.member_id)
    assert members_before(STICKY, broker.member_id) == 1


def test_sound_groups_are_joined_as_a_static_member() -> None:
    """Range leaders give nothing to a member without topics: no id is reserved."""
    broker = Broker([], STICKY)
    seat().enter(of(broker), group(member("m-1", "t"), protocol="range"))
    assert broker.is_static


def test_a_membership_of_the_same_instance_is_taken_over() -> None:
    """If the instance id is in the group already, joining causes no rebalance and needs no other place."""
    broker = Broker([], STICKY)
    view = group(member("m-1", "t"), member("old", instance_id="samerack"), protocol="sticky")
    seat().enter(of(broker), view)
    assert broker.is_static


def test_a_lost_dynamic_membership_chooses_a_place_again() -> None:
    """Without an instance id, like most members, it is not mistaken for one of them."""
    broker = Broker(names(200), STICKY, is_static=False, group_instance_id=None)
    seat().enter(of(broker), STICKY)
    assert members_before(STICKY, broker.member_id) == 1


def test_the_supervisor_hears_of_a_place_before_it_is_taken() -> None:
    """A worker that died within 0.2 s of joining was in the group, with an id that the supervisor did not know."""
    broker = Broker(names(200), STICKY, is_static=False, group_instance_id=None)
    heard: list[str] = []
    place = JoinPosition(
        retry_seconds=30.0,
        metrics=Metrics(),
        log=structlog.get_logger(),
        notify_supervisor=lambda: heard.append(broker.member_id),
    )
    place.enter(of(broker), STICKY)
    assert heard == [broker.member_id] != [""]


def test_no_safe_id_means_staying_outside() -> None:
    """If every id would be exposed, all are released and the agent stays out."""
    exposed = [name for name in names(2000) if is_exposed(STICKY, name)]
    broker = Broker(exposed, STICKY)
    with pytest.raises(BackOffError):
        seat().enter(of(broker), STICKY)
    assert not broker.reserved


def test_ids_that_the_coordinator_forgets_are_not_reserved_again_and_again() -> None:
    """A coordinator that does not know an id that it has just given is asked for no more: it may be another one."""
    exposed = [name for name in names(2000) if is_exposed(STICKY, name)]
    count, broker = len(exposed), Broker(exposed, STICKY, forgotten=frozenset(exposed[2:3]))
    with pytest.raises(AgentError, match="does not know a member id that was reserved a moment ago"):
        seat().enter(of(broker), STICKY)
    assert len(broker.ids) == count - 3


def test_partitions_are_given_back_a_few_times() -> None:
    """Partitions given to the agent start a rebalance; after three in a row the agent leaves."""
    safe = next(name for name in names(2000) if members_before(STICKY, name) == 1 and not is_exposed(STICKY, name))
    broker = Broker([], STICKY, member_id=safe, is_static=False, assigned=from_pairs([("t", 0)]))
    place = seat()
    for _ in range(3):
        assert place.keep(of(broker), STICKY)
    with pytest.raises(BackOffError):
        place.keep(of(broker), STICKY)
    assert broker.nudges == 3


def test_an_exposed_member_without_instance_id_leaves() -> None:
    """An exposed member that cannot rejoin in another place leaves and chooses a place again."""
    exposed = next(name for name in names(2000) if is_exposed(STICKY, name))
    with pytest.raises(BackOffError):
        seat().keep(of(Broker([], STICKY, member_id=exposed, is_static=False)), STICKY)


def test_the_rule_names_the_cause_and_the_cure() -> None:
    """Each refusal of a group has a reason that an operator can act on."""
    assert refusal(group(member("m-1", "t")), LEADING) == ""
    assert refusal(STICKY, LEADING) == ""
    assert "'ours', which the agent does not offer" in refusal(group(member("m-1", "t"), protocol="ours"), LEADING)
    assert "Kafka Streams" in refusal(group(member("m-1", "t"), protocol="stream"), LEADING)
    another = group(member("m-1", "t"), member("other"), protocol="sticky")
    assert "another agent" in refusal(another, LEADING)
    mine = group(member("m-1", "t"), member("mine", instance_id="samerack"), protocol="sticky")
    assert "another agent" not in refusal(mine, LEADING)
