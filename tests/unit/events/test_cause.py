"""The cause of a rebalance by two snapshots and other facts: a table of cases, and properties of all."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samerack.events.cause import (
    GroupSnapshot,
    Known,
    MemberSnapshot,
    Partition,
    Released,
    Signs,
    cause_of,
    moved,
    pause,
    release,
)
from samerack.events.event import Cause

T = frozenset({"t"})
A, B = frozenset({"a"}), frozenset({"b"})


def one(name: str, *numbers: int, static: bool = False, topics: frozenset[str] = T) -> tuple[str, MemberSnapshot]:
    """A member with client id `client-NAME` that owns these partitions of t."""
    owned = frozenset(("t", number) for number in numbers)
    return name, MemberSnapshot(client_id=f"client-{name}", static=static, topics=topics, owned=owned)


def snapshot(*members: tuple[str, MemberSnapshot], cooperative: bool = False, count: int = 4) -> GroupSnapshot:
    """A group that reads t, which has this many partitions."""
    return GroupSnapshot(members=dict(members), cooperative=cooperative, partitions={"t": count})


TWO = snapshot(one("a", 0, 1), one("b", 2, 3))
WITHHELD = snapshot(one("a", 0, 1), one("b", 2), cooperative=True)
TAKEN = snapshot(one("a", 0, 1, 3), one("b", 2), cooperative=True, count=5)
MORE = snapshot(one("a", 0, 1, 3, 4), one("b", 2), cooperative=True, count=5)
BOTH = replace(snapshot(one("a", 0, 1), one("b", 2, 3, topics=frozenset("tu"))), partitions={"t": 4, "u": 1})
RELEASED = {("t", 3): Released(owner="b", at=10.0)}


@pytest.mark.parametrize(
    ("before", "after", "known", "cause"),
    [
        (TWO, TWO, Known(agent_reason="racks-changed", agent_leads=True), "agent"),
        (TWO, snapshot(one("a", 0, 1, 2, 3)), Known(agent_reason="racks-changed"), "agent"),
        (TWO, snapshot(one("a", 0, 1), one("b", 2), one("c", 3)), Known(agent_leads=True), "member-joined"),
        (TWO, TWO, Known(agent_leads=True, passing={"c": "client-c"}), "member-joined"),
        (TWO, TWO, Known(agent_leads=True, passing={"a": "client-a"}), "unknown"),
        (TWO, snapshot(one("a", 0, 1, 2, 3)), Known(agent_leads=True, signs=Signs(alive=B)), "member-left"),
        (TWO, snapshot(one("a", 0, 1, 2, 3)), Known(agent_leads=True), "member-gone"),
        (TWO, snapshot(one("a", 0, 1, 2, 3)), Known(signs=Signs(alive=A)), "member-gone"),
        (TWO, snapshot(one("a", 0, 1, 2, 3)), Known(signs=Signs(silent=B, alive=B)), "session-expired"),
        (TWO, snapshot(one("a", 0, 1, 2, 3)), Known(signs=Signs(silent=A, alive=B)), "member-left"),
        (TWO, snapshot(), Known(signs=Signs(alive=B)), "member-gone"),
        (TWO, snapshot(), Known(signs=Signs(alive=A | B)), "member-left"),
        (snapshot(one("a", 0), one("b", 1, static=True)), snapshot(one("a", 0, 1)), Known(), "session-expired"),
        (TWO, snapshot(one("a", 0, 1), one("c", 2, 3)), Known(), "member-gone"),
        (snapshot(), TWO, Known(), "member-joined"),
        (TWO, BOTH, Known(), "subscription-changed"),
        (BOTH, TWO, Known(agent_leads=True), "subscription-changed"),
        (replace(BOTH, partitions={"t": 4}), TWO, Known(agent_leads=True), "unknown"),
        (TWO, snapshot(one("a", 0, 1, 4), one("b", 2, 3), count=5), Known(agent_leads=True), "partitions-changed"),
        (TWO, snapshot(one("a", 0, 1), one("b", 2), count=3), Known(), "partitions-changed"),
        (replace(TWO, cooperative=True), WITHHELD, Known(), "leader"),
        (WITHHELD, TAKEN, Known(released=RELEASED), "second-round"),
        (WITHHELD, MORE, Known(released=RELEASED), "partitions-changed"),
        (TWO, snapshot(one("b", 0, 1), one("a", 2, 3)), Known(), "leader"),
        (TWO, snapshot(one("b", 0, 1), one("a", 2, 3)), Known(agent_leads=True), "unknown"),
        (None, TWO, Known(), "unknown"),
        (None, TWO, Known(agent_reason="joined"), "agent"),
        (TWO, None, Known(), "unknown"),
    ],
)  # fmt: skip
def test_causes(before: GroupSnapshot | None, after: GroupSnapshot | None, known: Known, cause: Cause) -> None:
    """Each row has the expected cause."""
    assert cause_of(before, after, known).cause == cause


def test_who_came_and_went_is_named_whatever_the_cause() -> None:
    """Joined and left members are named by client id, in order; those that were only member in between joined too."""
    after = snapshot(one("a", 0, 1), one("d", 2), one("c", 3))
    found = cause_of(TWO, after, Known(agent_reason="racks-changed", passing={"e": "client-e", "a": "client-a"}))
    assert (found.joined, found.left) == (("client-c", "client-d", "client-e"), ("client-b",))


@pytest.mark.parametrize(
    ("before", "after", "released", "begun", "seconds"),
    [
        (TWO, TWO, {}, 8.0, 4.0),
        (TWO, TWO, {}, None, None),
        (snapshot(), TWO, {}, 8.0, None),
        (replace(TWO, cooperative=True), WITHHELD, {}, 8.0, 0.0),
        (replace(TWO, cooperative=True), WITHHELD, {}, None, 0.0),
        (WITHHELD, TAKEN, RELEASED, 11.0, 2.0),
        (replace(TWO, cooperative=True), snapshot(one("a", 0, 1, 2, 3), cooperative=True), {}, 8.0, 4.0),
    ],
)
def test_pauses(
    before: GroupSnapshot,
    after: GroupSnapshot,
    released: dict[Partition, Released],
    begun: float | None,
    seconds: float | None,
) -> None:
    """Eager members pause for the whole rebalance, cooperative ones for moved partitions and those of gone members."""
    assert pause(before, after, released, begun=begun, ended=12.0) == seconds


def test_what_is_given_up_waits_until_somebody_has_it() -> None:
    """The pause lasts from the end of the revoking round until an owner exists; a removed partition has none."""
    first = release(replace(TWO, cooperative=True), WITHHELD, {}, ended=10.0)
    assert first == RELEASED
    assert release(WITHHELD, WITHHELD, first, ended=11.0) == RELEASED
    assert release(WITHHELD, snapshot(one("a", 3), cooperative=True), first, ended=11.0).keys() == {
        ("t", 0),
        ("t", 1),
        ("t", 2),
    }
    assert release(replace(TWO, cooperative=True), replace(WITHHELD, partitions={"t": 3}), {}, ended=10.0) == {}
    assert release(TWO, snapshot(one("a", 0)), {}, ended=10.0) == {}


def test_a_move_counts_once_though_it_takes_two_rounds() -> None:
    """A move counts where the partition gets its new owner, not where it is revoked."""
    assert moved(replace(TWO, cooperative=True), WITHHELD, {}) == 0
    assert moved(WITHHELD, TAKEN, RELEASED) == 1
    assert moved(WITHHELD, replace(TWO, cooperative=True), RELEASED) == 0


def test_what_an_evicted_member_keeps_under_another_key_does_not_move() -> None:
    """A takeover evicts members, which come back with new ids."""
    again = {f"{key}-again": key for key in TWO.members}
    renamed = replace(TWO, members={new: TWO.members[key] for new, key in again.items()})
    assert (moved(TWO, renamed, {}), moved(TWO, renamed, {}, again)) == (len(TWO.owners()), 0)


NAMES = st.sampled_from(["a", "b", "c", "d"])


@st.composite
def pictures(draw: st.DrawFn) -> GroupSnapshot:
    """Some members; each of four partitions is owned by one of them or by none."""
    names = draw(st.sets(NAMES))
    owners = draw(st.lists(st.sampled_from([None, *sorted(names)]), min_size=4, max_size=4))
    members = [one(name, *(n for n, owner in enumerate(owners) if owner == name)) for name in sorted(names)]
    return snapshot(*members, cooperative=draw(st.booleans()))


@given(
    before=pictures(),
    after=pictures(),
    agent_reason=st.sampled_from(["", "joined"]),
    signs=st.builds(Signs, silent=st.frozensets(NAMES), alive=st.frozensets(NAMES)),
)
def test_what_holds_for_all(before: GroupSnapshot, after: GroupSnapshot, agent_reason: str, signs: Signs) -> None:
    """The agent's own request is the cause; otherwise members that left or joined are named and are the cause."""
    found = cause_of(before, after, Known(agent_reason=agent_reason, signs=signs))
    gone, came = before.members.keys() - after.members.keys(), after.members.keys() - before.members.keys()
    assert found.left == tuple(sorted(f"client-{name}" for name in gone))
    assert found.joined == tuple(sorted(f"client-{name}" for name in came))
    assert (found.cause == "agent") is bool(agent_reason)
    if not agent_reason:
        assert (found.cause in ("member-left", "session-expired", "member-gone")) is bool(gone)
        assert (found.cause == "session-expired") is bool(gone & signs.silent)
        assert (found.cause == "member-gone") is bool(not gone & signs.silent and gone - signs.alive)
        assert (found.cause == "member-joined") is (bool(came) and not gone)


@given(before=pictures(), after=pictures(), begun=st.floats(0, 10))
def test_no_pause_is_longer_than_what_was_seen(before: GroupSnapshot, after: GroupSnapshot, begun: float) -> None:
    """A pause lies within the rebalance, unless an earlier round revoked partitions."""
    seconds = pause(before, after, {}, begun=begun, ended=10.0)
    assert seconds is None or 0 <= seconds <= 10.0 - begun
    assert 0 <= moved(before, after, {}) <= len(before.owners().keys() & after.owners().keys())
