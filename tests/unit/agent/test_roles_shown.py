"""The agent's role in a group is shown at once, even if the group is never polled again."""

from __future__ import annotations

import pytest

from samerack.agent.group_status import GroupStatus
from samerack.agent.metrics import Metrics


@pytest.mark.parametrize(("role", "first"), [("fenced", False), ("outside", False), ("following", True)])
def test_a_new_role_shows_with_the_rest_of_the_status(role: str, first: bool) -> None:  # noqa: FBT001 - a case of the table
    """Only the role changes; an agent outside the group is not next to lead it either."""
    board = Metrics().board
    board.publish(GroupStatus(group="orders", state="Stable", role="leading", first_in_order=True, members=3))
    board.become("orders", role)
    assert board.all() == (GroupStatus(group="orders", state="Stable", role=role, first_in_order=first, members=3),)


def test_a_role_shows_before_the_first_look() -> None:
    """A group that was never polled shows the agent's role."""
    board = Metrics().board
    board.become("orders", "outside")
    assert board.all() == (GroupStatus(group="orders", role="outside"),)


def test_a_standby_shows_nothing_of_what_it_saw_as_leader() -> None:
    """A sum of members over agents would count them twice."""
    board = Metrics().board
    board.publish(GroupStatus(group="orders", state="Stable", role="leading", first_in_order=True, members=3))
    board.become("orders", "standby")
    assert board.all() == (GroupStatus(group="orders", role="standby"),)
