"""How an agent comes to lead a live group, and short names of its members, as `samerack plan` says it."""

from __future__ import annotations

import pytest

from samerack.cli.live_group import how_led, short_names
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


def test_a_client_id_is_enough_where_it_is_the_only_one() -> None:
    """The rest of the member id is not shown."""
    assert short_names({"pay-0-5f0c1e5e-8c5b": "pay-0", "pay-1-5f0c1e5e-8c5b": "pay-1"}) == {
        "pay-0-5f0c1e5e-8c5b": "pay-0",
        "pay-1-5f0c1e5e-8c5b": "pay-1",
    }
    assert short_names({}) == {}


def test_members_with_one_client_id_have_what_distinguishes_them() -> None:
    """Four characters of what the broker appended, or more where these are alike; others keep their client id."""
    ids = {"c-5f0c11": "c", "c-5f0c22": "c", "c-77aa11": "c", "d-1": "d"}
    assert list(short_names(ids).values()) == ["c-5f0c1", "c-5f0c2", "c-77aa1", "d"]


def test_member_ids_need_not_begin_with_the_client_id() -> None:
    """Members of the new protocol have ids of their own, static ones their instance id."""
    ids = {"Vb8yPq": "c", "pod-3-5f0c": "c"}
    assert list(short_names(ids).values()) == ["c-Vb8y", "c-pod-"]


def test_names_that_cannot_be_short_are_whole_ids() -> None:
    """Without the client id both would be `x`."""
    ids = {"c-x": "c", "x": "c"}
    assert short_names(ids) == {"c-x": "c-x", "x": "x"}
