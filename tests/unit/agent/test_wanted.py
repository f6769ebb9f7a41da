"""Members wanted of the groups that the agent leads: what it says, what that saves, and when it is computed."""

from __future__ import annotations

import pytest

from samerack.common.money import SECONDS_PER_MONTH, shipped
from samerack.planning.members_wanted import RackMembers
from samerack.reporting.wanted import WantedMembers, in_words
from samerack.traffic.board import TrafficBoard
from samerack.traffic.snapshot import GroupTraffic, Shares
from tests.unit.agent.measured import ROTATED, A, B, C, group, problem, publish, snapshot

RATE = 1000.0
"""What is read of each of six partitions; two are near each rack."""
BY_BYTES = Shares(optimal=0.25, optimal_by="bytes")


class Agent:
    """An agent that has these roles, and knows what one member can read."""

    def __init__(self, roles: dict[str, str], capacity: float | None) -> None:
        self.roles, self.capacity, self.now, self.asked, self.takes = roles, capacity, 1000.0, 0, 0.0
        self.board = TrafficBoard()
        self.wanted = WantedMembers(
            prices=shipped("aws"), roles=lambda: self.roles, capacity_of=self._capacity, clock=lambda: self.now
        )
        self.board.listen(self.wanted.take)

    def _capacity(self, _group: str) -> float | None:
        self.asked += 1
        self.now += self.takes
        return self.capacity

    def text(self, *groups: GroupTraffic) -> str | None:
        """What it says of `orders` after these were measured."""
        publish(self.board, snapshot(*groups))
        found = self.wanted.of("orders")
        return None if found is None else found.text


def in_racks(racks: str, shares: Shares = BY_BYTES) -> GroupTraffic:
    """A group of members in these racks."""
    members = {f"m{at}": {"a": A, "b": B, "c": C}[rack] for at, rack in enumerate(racks)}
    return group(members=members, made=problem(ROTATED, members, {}), shares=shares)


def test_what_is_missing_and_what_is_too_much() -> None:
    """One partition fills a member, so each rack needs two; the saving is what the best plan still reads across."""
    agent = Agent({"orders": "leading"}, capacity=RATE * 2)
    dollars = shipped("aws").dollars(0.25 * 6 * RATE) * SECONDS_PER_MONTH
    assert agent.text(in_racks("aabccc")) == (
        f"1 more in {B} would let everything be read near, with no member above 85 % of what it can read, and save up "
        f"to ${dollars:.2f} a month; 1 fewer would do in {C}"
    )


@pytest.mark.parametrize("shares", [Shares(), Shares(optimal=0.25, optimal_by="partitions")])
def test_a_saving_that_is_not_known_is_left_out(shares: Shares) -> None:
    """A share of partitions is no share of bytes."""
    agent = Agent({"orders": "leading"}, capacity=RATE * 2)
    text = agent.text(in_racks("aabcc", shares))
    assert text is not None
    assert text.endswith("of what it can read")


def test_several_racks_in_words() -> None:
    """More and fewer, each with its racks; nothing is no saving."""
    racks = [
        RackMembers(rack=rack, members=2, wanted=wanted) for rack, wanted in ((A, 3), (B, 4), (C, 1), ("rack-d", 2))
    ]
    assert in_words(racks, 0.0) == (
        f"1 more in {A} and 2 more in {B} would let everything be read near, with no member above 85 % of what it can "
        f"read; 1 fewer would do in {C}"
    )
    assert in_words(racks[3:], 5.0) == "each rack has as many as it needs"


def test_it_is_computed_once_a_minute() -> None:
    """However often traffic is measured; also where the answer is that it is not known."""
    for capacity in (RATE * 2, None):
        agent = Agent({"orders": "leading"}, capacity=capacity)
        before = agent.text(in_racks("abc"))
        agent.now += 59
        assert agent.text(in_racks("aabbcc")) == before
        assert agent.asked == 1
        agent.now += 1
        assert agent.text(in_racks("aabbcc")) == ("each rack has as many as it needs" if capacity else None)
        assert agent.asked == 2


def test_a_group_that_takes_long_is_computed_less_often() -> None:
    """Nothing is measured meanwhile."""
    agent = Agent({"orders": "leading"}, capacity=RATE * 2)
    agent.takes = 3.0
    for later, asked in ((0, 1), (299, 1), (1, 2), (60, 2)):
        agent.now += later
        agent.text(in_racks("abc"))
        assert agent.asked == asked


def test_only_groups_that_the_agent_leads_have_series() -> None:
    """A group of another agent, one that was handed over, and one that is gone have none."""
    agent = Agent({"orders": "leading", "ledger": "following"}, capacity=RATE * 2)
    publish(agent.board, snapshot(in_racks("abc"), group("ledger"), group("reports")))

    def series() -> dict[str, float]:
        (family,) = agent.wanted.collect()
        return {f"{one.labels['group']} {one.labels['rack']}": one.value for one in family.samples}

    assert series() == {f"orders {A}": 2.0, f"orders {B}": 2.0, f"orders {C}": 2.0}
    agent.roles = {"orders": "standby"}
    assert series() == {}
    agent.roles = {"orders": "leading"}
    publish(agent.board, snapshot(group("reports")))
    assert series() == {}
