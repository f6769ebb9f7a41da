"""Which agents take part in the election, and which wait outside."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from samerack.cluster.group import DescribedGroup
from samerack.election.member import (
    CANDIDATES,
    ROOM,
    WAITING_GROUPS,
    Place,
    choose,
    place_for,
    poll_pause,
    surplus,
    waiting_group,
    waiting_groups,
    waiting_instance,
)
from samerack.election.messages import Advertisement, encode, lead, observe
from tests.unit.election.described import agent, agents_group

ORDERS, PAYMENTS = lead("orders"), lead("payments")
RESPONSIBILITIES = (ORDERS, PAYMENTS, observe("*"))

fleets = st.lists(st.lists(st.sampled_from(RESPONSIBILITIES), unique=True).map(tuple), min_size=1, max_size=40).map(
    lambda all_responsibilities: {
        f"m{number:02}": Advertisement(identity=f"i{number:02}", responsibilities=responsibilities)
        for number, responsibilities in enumerate(all_responsibilities)
    }
)


def described(present: dict[str, Advertisement], *, stable: bool = True) -> DescribedGroup:
    """The election's group as a broker describes it."""
    return agents_group(
        (
            agent(member, instance=advertisement.identity, metadata=encode(advertisement) if stable else b"")
            for member, advertisement in present.items()
        ),
        stable=stable,
    )


def agents(count: int, *responsibilities: str) -> dict[str, Advertisement]:
    """This many members with these responsibilities."""
    return {
        f"m{number:02}": Advertisement(identity=f"i{number:02}", responsibilities=responsibilities)
        for number in range(count)
    }


def test_everybody_takes_part_while_there_is_room() -> None:
    """An agent without responsibilities may take part too, so that its rack is known."""
    assert place_for(Advertisement(identity="new"), described(agents(ROOM - 1, ORDERS))) is Place.INSIDE
    assert place_for(Advertisement(identity="new"), described(agents(ROOM, ORDERS))) is Place.OUTSIDE


def test_one_that_is_needed_takes_part_though_there_is_no_room() -> None:
    """Each responsibility gets an active agent and two standbys, if that many agents can do it."""
    fleet = agents(ROOM, ORDERS)
    new = Advertisement(identity="new", responsibilities=(PAYMENTS,))
    for number in range(CANDIDATES):
        assert place_for(new, described(fleet)) is Place.INSIDE
        fleet[f"p{number}"] = Advertisement(identity=f"p{number}", responsibilities=(PAYMENTS,))
    assert place_for(new, described(fleet)) is Place.OUTSIDE


def test_one_that_was_inside_goes_back() -> None:
    """After a restart within its session an agent keeps the responsibilities for which it was active."""
    fleet = agents(ROOM + 5, ORDERS)
    assert place_for(Advertisement(identity="i03", responsibilities=(ORDERS,)), described(fleet)) is Place.INSIDE


def test_while_the_group_rebalances_nobody_knows_who_is_needed() -> None:
    """An agent is undecided then; one without responsibilities is not needed in any case."""
    hidden = described(agents(ROOM, ORDERS), stable=False)
    assert place_for(Advertisement(identity="new", responsibilities=(PAYMENTS,)), hidden) is Place.UNDECIDED
    assert place_for(Advertisement(identity="new"), hidden) is Place.OUTSIDE


@given(fleets)
def test_the_election_keeps_whom_it_needs_and_no_more(present: dict[str, Advertisement]) -> None:
    """Each responsibility keeps its candidates and its active agent; an agent sent away would not return at once."""
    verdicts = choose(present, 1)
    kept = {member: advertisement for member, advertisement in present.items() if not verdicts[member].waits}
    assert not any(verdict.waits and verdict.active for verdict in verdicts.values())
    assert len(kept) >= min(ROOM, len(present))
    assert len(kept) <= max(ROOM, CANDIDATES * len(RESPONSIBILITIES))
    for responsibility in RESPONSIBILITIES:
        able = sum(responsibility in advertisement.responsibilities for advertisement in present.values())
        assert sum(responsibility in advertisement.responsibilities for advertisement in kept.values()) >= min(
            CANDIDATES, able
        )
    for member, verdict in verdicts.items():
        if verdict.waits:
            assert place_for(present[member], described(kept)) is Place.OUTSIDE


@given(fleets)
def test_an_election_without_those_sent_away_sends_nobody_away(present: dict[str, Advertisement]) -> None:
    """One round is enough."""
    away = surplus(present, ())
    assert not surplus({member: one for member, one in present.items() if member not in away}, ())


def test_agents_outside_share_many_small_groups() -> None:
    """Two thousand agents are spread about evenly; each has always the same group, and a short name of its own."""
    names = [f"orders-7d9f8b6c5-{number:05}" for number in range(2_000)]
    groups = [waiting_group("samerack", name) for name in names]
    assert set(groups) == set(waiting_groups("samerack"))
    assert len(set(groups)) == WAITING_GROUPS
    assert max(map(groups.count, groups)) < 2 * 2_000 / WAITING_GROUPS
    assert all(group.startswith("samerack") for group in groups)
    assert len({waiting_instance(name) for name in names}) == len(names)


def test_the_larger_the_election_the_rarer_it_is_polled() -> None:
    """The pause grows with the size of the description, within bounds, and differs between agents."""
    assert [poll_pause(members, 0.5) for members in (0, 16, 60, 1000)] == [10, 32, 120, 300]
    assert (poll_pause(16, 0.0), poll_pause(16, 1.0)) == (16, 48)
