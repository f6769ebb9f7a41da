"""Deploys of a running group that the agent has joined: how many, and whether the agent leads after them."""

from __future__ import annotations

from tests.simulator.deploys import restarts_until_led


def test_a_group_with_range_is_led_within_one_deploy() -> None:
    """The agent is next to lead, and the leader is the oldest member."""
    assert [restarts_until_led("range", 3, seed) for seed in range(2)] == [1, 1]


def test_a_group_with_a_sticky_assignor_is_led_by_chance() -> None:
    """The agent keeps the place with which it joined: some deploys make it the leader, and some do not."""
    found = [restarts_until_led("sticky", 3, seed) for seed in (2, 4)]
    assert min(one or 9 for one in found) <= 3 < max(one or 9 for one in found)
