"""What permits a clean takeover, and what a poll in the middle of one means."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from types import SimpleNamespace
from typing import cast
from uuid import UUID

import pytest

from samerack.agent.leading.membership import Membership
from samerack.agent.leading.takeover import (
    MAX_AHEAD,
    PREPARING,
    StepResult,
    is_back,
    may_evict,
    no_position_reason,
    place_refusal,
    refusal,
)
from samerack.cluster.group import GroupView, MemberView
from samerack.cluster.joining import places_share
from samerack.protocol.java import spread_hash
from samerack.protocol.values import from_pairs
from samerack.settings.leading import LeadingSettings
from tests.unit.agent.values import group, member

OWNED = from_pairs([("orders", 0)])
AGENT = member("agent", instance_id="samerack", client_id="samerack")
M1, M2, M3 = (member(f"m-{number}", "orders", client_id=f"c-{number}", assigned=OWNED) for number in (1, 2, 3))
STABLE = group(AGENT, M1, M2, M3)


def following(leader: str = "m-1", *, is_static: bool = True) -> Membership:
    """The agent's membership while another member leads the group."""
    return cast(Membership, SimpleNamespace(member_id="agent", leader_id=leader, is_static=is_static))


FOLLOWING = following()


def bare(one: MemberView) -> MemberView:
    """The member as described before assignments exist."""
    return replace(one, subscription=None, assigned=from_pairs([]))


def held(*members: MemberView, state: str = PREPARING) -> GroupView:
    """The group while it is held."""
    return group(*map(bare, members), state=state, protocol="")


def named(client: str, number: int) -> str:
    """A member id in the brokers' form, always the same for the same number."""
    return f"{client}-{UUID(int=Random(number).getrandbits(128), version=4)}"  # noqa: S311 - the same each time


@pytest.mark.parametrize(
    ("view", "membership", "words"),
    [
        (replace(STABLE, state="CompletingRebalance"), FOLLOWING, "CompletingRebalance, not Stable"),
        (replace(STABLE, state=PREPARING), FOLLOWING, "PreparingRebalance, not Stable"),
        (replace(STABLE, protocol="cooperative-sticky"), FOLLOWING, "is cooperative"),
        (replace(STABLE, protocol="own-assignor"), FOLLOWING, "with protocol 'own-assignor'"),
        (STABLE, following("m-9"), "its leader is not among its members"),
        (group(AGENT, replace(M1, instance_id="pod-1"), M2), FOLLOWING, "a static member (pod-1), which is never"),
        (group(AGENT, M1, member("m-4", instance_id="other-agent")), FOLLOWING, "another agent (other-agent)"),
    ],
)
def test_each_refusal_says_why(view: GroupView, membership: Membership, words: str) -> None:
    """Each refusal has its own reason."""
    assert words in refusal(view, membership, LeadingSettings())


def test_who_stands_ahead_is_evicted_too_unless_static_or_many() -> None:
    """A place behind a static member, or behind more members than may be evicted, is refused."""
    assert place_refusal(group(M2, AGENT, M1, M3), FOLLOWING) == ""
    assert "never evicted: c-2 (pod-2)" in place_refusal(group(replace(M2, instance_id="pod-2"), AGENT, M1), FOLLOWING)
    many = [member(f"n-{number}", "orders") for number in range(MAX_AHEAD + 1)]
    assert place_refusal(group(*many[1:], AGENT, M1), FOLLOWING) == ""
    assert f"{MAX_AHEAD + 1} members would lead" in place_refusal(group(*many, AGENT, M1), FOLLOWING)
    dynamic = following(is_static=False)  # it keeps the place that it joined with
    assert refusal(replace(STABLE, protocol="sticky"), dynamic, LeadingSettings()) == ""
    assert no_position_reason(group(*many[1:], AGENT, M1), dynamic) == ""
    assert f"{MAX_AHEAD + 1} members would lead" in no_position_reason(group(*many, AGENT, M1), dynamic)


def test_a_dry_run_of_a_large_group_shows_whether_a_place_can_be_had() -> None:
    """With 82 members one place of twenty has few before it: a dry run said yes, then the call found 74 before it."""
    ids = sorted((named("app", number) for number in range(82)), key=lambda name: spread_hash(name) & 127)
    large = group(*(member(name, "orders") for name in ids))
    membership = following(ids[40])
    share = places_share(large, "agent", ids[40], MAX_AHEAD)
    tried = [named("samerack", number) for number in range(20_000)]
    buckets = [spread_hash(name) & 127 for name in tried]
    others = [spread_hash(one) & 127 for one in ids if one != ids[40]]
    few = sum(sum(other <= bucket for other in others) <= MAX_AHEAD for bucket in buckets)
    assert share == pytest.approx(few / len(tried), abs=0.01)
    assert no_position_reason(large, membership) == ""
    crowd = [name for name in (named("app", number) for number in range(100, 2_000)) if spread_hash(name) & 127 == 0]
    crowded = group(*(member(name, "orders") for name in (*crowd[: MAX_AHEAD + 1], *ids)))
    assert "in nearly every place" in no_position_reason(crowded, membership)


@pytest.mark.parametrize("state", ["CompletingRebalance", "Stable", "Empty", "Dead"])
def test_nobody_is_evicted_in_another_state(state: str) -> None:
    """Members are evicted only while all join: one whose SyncGroup is parked would get no answer."""
    assert not may_evict(STABLE, held(AGENT, M1, M2, M3, state=state), FOLLOWING).go
    assert state in is_back(STABLE, held(AGENT, M1, M2, M3, state=state), frozenset({"m-1"})).trouble


def test_a_group_that_has_changed_is_left_alone() -> None:
    """Members that joined or left since the group was stable, and a lost place, end the attempt."""
    assert "members left meanwhile: c-3" in may_evict(STABLE, held(AGENT, M1, M2), FOLLOWING).trouble
    new = member("m-4", "orders", client_id="c-4")
    assert "members came meanwhile: c-4" in may_evict(STABLE, held(AGENT, M1, M2, M3, new), FOLLOWING).trouble
    static = replace(M2, instance_id="pod-2")
    before = group(AGENT, M1, static, M3)
    assert "never evicted" in may_evict(before, held(static, AGENT, M1, M3), FOLLOWING).trouble


def test_everybody_is_back_when_the_evicted_have_joined_under_other_ids() -> None:
    """Members are counted by client id, which several may share."""
    alike = [replace(one, client_id="app") for one in (M1, M2, M3)]
    before, evicted = group(AGENT, *alike), frozenset({"m-1", "m-2"})
    assert is_back(before, held(AGENT, alike[2]), evicted) == StepResult(missing=2)
    again = [member(name, client_id="app") for name in ("n-1", "n-2")]
    assert is_back(before, held(AGENT, alike[2], again[0]), evicted) == StepResult(missing=1)
    assert is_back(before, held(AGENT, alike[2], *again), evicted) == StepResult(go=True)
    assert "left meanwhile" in is_back(before, held(AGENT, *again), evicted).trouble
