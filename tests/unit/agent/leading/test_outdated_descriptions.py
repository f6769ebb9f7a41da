"""A new coordinator may show a former generation: the leader knows the members of its plan."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from samerack.agent.leading.assigning import Assigning
from samerack.cluster.group import GroupView, MemberView
from samerack.cluster.group_member import Joined
from samerack.protocol.consumer import encode_subscription
from samerack.protocol.values import Subscription
from samerack.settings.all_settings import Settings
from tests.unit.agent.values import cluster, member

GENERATION = 7


def _assigning(*planned: tuple[str, str | None]) -> Assigning:
    """A leader that sent a plan for these members, by id and instance id, in generation 7."""
    watch: Any = None
    assigning = Assigning(group="orders", settings=Settings(kafka={"bootstrap.servers": "h:1"}), watch=watch)
    problem = SimpleNamespace(
        members=tuple(name for name, _ in planned), instance_ids=tuple(instance for _, instance in planned)
    )
    sent: Any = SimpleNamespace(generation=GENERATION, plan=SimpleNamespace(problem=problem))
    assigning.sent = sent
    return assigning


def _view(*members: MemberView, state: str = "Stable") -> GroupView:
    return GroupView(name="orders", state=state, protocol_type="consumer", protocol="range", members=members)


@pytest.mark.parametrize(
    ("view", "generation", "may_be"),
    [
        (_view(member("a", "t"), member("b", "t")), GENERATION, True),
        (_view(member("b", "t"), member("a", "t"), member("c", "t", readable=False)), GENERATION, True),
        (_view(member("a", "t")), GENERATION, False),
        (_view(member("a", "t"), member("b", "t"), member("c", "t")), GENERATION, False),
        (_view(member("a", "t")), GENERATION + 1, True),
        (_view(member("a", "t"), state="PreparingRebalance"), GENERATION, True),
    ],
    ids=["these", "and one unreadable", "one less", "one more", "another generation", "a rebalance"],
)
def test_a_poll_is_held_against_the_plan(view: GroupView, generation: int, may_be: bool) -> None:  # noqa: FBT001 - a column of the table
    """A stable group of a planned generation has the members of the plan."""
    assert _assigning(("a", None), ("b", None)).may_be_of(generation, view) is may_be


def test_a_static_member_may_come_back_under_another_id() -> None:
    """It keeps its instance id, partitions and generation; an agent without a plan has nothing to compare with."""
    follows = _assigning()
    follows.sent = None
    assert follows.may_be_of(GENERATION, _view(member("a", "t")))
    view = _view(member("new", "t", instance_id="one"))
    assert _assigning(("old", "one")).may_be_of(GENERATION, view)


@pytest.mark.parametrize("instance", [None, "samerack"])
def test_a_leader_without_instance_id_believes_its_polls(instance: str | None) -> None:
    """The leader is no member of its own plan, so a poll without it may be of the same generation."""
    watch: Any = SimpleNamespace(
        cluster=cluster(t=[[1], [2]]),
        rack_aware_fetch=True,
        record_limit=None,
        show_interest=lambda _group, _topics: None,
        wait_for=lambda _topics, _seconds, _owned: frozenset(),
        denied_topics=lambda _group: frozenset(),
    )
    assigning = Assigning(group="orders", settings=Settings(kafka={"bootstrap.servers": "h:1"}), watch=watch)
    agent, reader = (encode_subscription(Subscription(version=3, topics=topics)) for topics in ((), ("t",)))
    members = (("me", instance, agent), ("a", None, reader))
    assigning.assign(Joined(generation=GENERATION, protocol="cooperative-sticky", me="me", members=members))
    assert assigning.may_be_of(GENERATION, _view(member("a", "t")))
    assert not assigning.may_be_of(GENERATION, _view(member("b", "t")))
