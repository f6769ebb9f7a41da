"""How an agent comes to lead a group, as `samerack plan` says it."""

from __future__ import annotations

import pytest

from samerack.cli.plan_subject import how_led
from samerack.common.records import LEADING
from samerack.settings.loading import load
from tests.unit.agent.values import group, member

SETTINGS = load(flags={"kafka": {"bootstrap.servers": "b:1"}, "policy": {"min_saving": 0.05}}, environment={})
VIEW = group(member("one", "t"), member("two", "t"))


@pytest.mark.parametrize(("saving", "advised"), [(None, False), (0.0, False), (0.05, False), (0.2, True)])
def test_a_takeover_that_lead_would_refuse_is_not_advised(saving: float | None, *, advised: bool) -> None:
    """Nothing is taken over for an unknown saving, none, or one below policy.min_saving."""
    text = how_led(VIEW, SETTINGS, role="following", saving=saving)
    assert "when its leader leaves" in text
    assert ("at once by `samerack lead orders`" in text) is advised


def test_where_no_agent_runs_a_takeover_needs_one_first() -> None:
    """`samerack lead` asks an agent that follows the group."""
    text = how_led(VIEW, SETTINGS, role="", saving=0.2)
    assert "`samerack lead orders`, where `samerack run --group orders -b b:1` runs" in text


def test_a_group_that_the_agent_leads_is_led_now() -> None:
    """The running agent is not said to come to lead it; where it follows, it is."""
    assert how_led(VIEW, SETTINGS, role=LEADING, saving=0.0) == "the running agent leads it now"
    assert "when its leader leaves" in how_led(VIEW, SETTINGS, role="following", saving=0.0)


def test_an_agent_that_follows_and_never_evicts_has_its_reason_shown() -> None:
    """`samerack lead` would be refused there."""
    text = how_led(VIEW, SETTINGS, role="following", trouble="members (samsa) did not come back", saving=0.2)
    assert text == "once its leader leaves: members (samsa) did not come back"


def test_a_group_that_brokers_assign_is_never_led() -> None:
    """It is not a question of deploys or takeovers."""
    assert how_led(None, SETTINGS, role="", saving=0.5) == "never: the brokers assign its partitions (KIP-848)"


def test_a_group_without_room_for_the_agent_is_not_led() -> None:
    """The two consumers, the agent and one consumer more must fit in `group.max.size`."""
    text = how_led(VIEW, SETTINGS, role="", saving=0.2, max_size=3)
    assert text.startswith("not while it runs: group.max.size of the brokers is 3: 2 current or expected consumers")
    assert "when its leader leaves" in how_led(VIEW, SETTINGS, role="", saving=0.2, max_size=4)
