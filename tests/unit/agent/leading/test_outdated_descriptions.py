"""A new coordinator may show a former generation: the leader knows the members of its plan."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from samerack.agent.leading.assigning import Assigning
from samerack.cluster.group import GroupView, MemberView
from samerack.cluster.group_member import Joined
from samerack.protocol.consumer import encode_subscription
from samerack.protocol.values import Subscription, from_pairs
from samerack.settings.all_settings import Settings
from tests.unit.agent.values import cluster, member

GENERATION = 7


def _assigning(*planned: tuple[str, str | None], agent: str | None = "samerack") -> Assigning:
    """A leader that sent a plan for these members, by id and instance id, in generation 7: one partition of t each."""
    watch: Any = SimpleNamespace(
        cluster=cluster(t=[[1]] * len(planned)),
        rack_aware_fetch=True,
        record_limit=None,
        show_interest=lambda _group, _topics: None,
        wait_for=lambda _topics, _seconds, _owned: frozenset(),
        denied_topics=lambda _group: frozenset(),
    )
    assigning = Assigning(group="orders", settings=Settings(kafka={"bootstrap.servers": "h:1"}), watch=watch)
    nothing, reader = (encode_subscription(Subscription(version=3, topics=topics)) for topics in ((), ("t",)))
    members = (("me", agent, nothing), *((name, instance, reader) for name, instance in planned))
    assigning.assign(Joined(generation=GENERATION, protocol="cooperative-sticky", me="me", members=members))
    return assigning


def _view(*members: MemberView, state: str = "Stable") -> GroupView:
    return GroupView(name="orders", state=state, protocol_type="consumer", protocol="range", members=members)


_A, _B = (member(name, "t", assigned=from_pairs([("t", number)])) for number, name in enumerate("ab"))


@pytest.mark.parametrize(
    ("view", "generation", "may_be"),
    [
        (_view(_A, _B), GENERATION, True),
        (_view(_B, _A, member("c", "t", readable=False)), GENERATION, True),
        (_view(_A), GENERATION, False),
        (_view(_A, _B, member("c", "t")), GENERATION, False),
        (_view(replace(_A, assigned=_B.assigned), replace(_B, assigned=_A.assigned)), GENERATION, False),
        (_view(_A), GENERATION + 1, True),
        (_view(_A, state="PreparingRebalance"), GENERATION, True),
    ],
    ids=[
        "these",
        "and one unreadable",
        "one less",
        "one more",
        "other partitions",
        "another generation",
        "a rebalance",
    ],
)
def test_a_poll_is_held_against_the_plan(view: GroupView, generation: int, may_be: bool) -> None:  # noqa: FBT001 - a column of the table
    """A stable group of a planned generation has the members of the plan, and their partitions."""
    assert _assigning(("a", None), ("b", None)).may_be_of(generation, view) is may_be


def test_a_static_member_may_come_back_under_another_id() -> None:
    """It keeps its instance id, partitions and generation."""
    view = _view(member("new", "t", instance_id="one", assigned=_A.assigned))
    assert _assigning(("old", "one")).may_be_of(GENERATION, view)


def test_an_agent_without_a_plan_has_nothing_to_compare_with() -> None:
    """It may lead a generation that it did not plan (KIP-814)."""
    assigning = _assigning(("a", None))
    assigning.sent = None
    assert assigning.may_be_of(GENERATION, _view(_B))


@pytest.mark.parametrize("instance", [None, "samerack"])
def test_a_leader_without_instance_id_believes_its_polls(instance: str | None) -> None:
    """The leader is no member of its own plan, so a poll without it may be of the same generation."""
    assigning = _assigning(("a", None), agent=instance)
    assert assigning.may_be_of(GENERATION, _view(_A))
    assert not assigning.may_be_of(GENERATION, _view(_B))
