"""docs/policy.md is true: its settings load as they are, and its defaults are those of the settings."""

from __future__ import annotations

import re
from typing import Final

import pytest
import yaml

from samerack.agent.policy import Reason
from samerack.agent.web.api import POLICY
from samerack.common.settings import PolicySettings, Settings, load
from tests.docs import ROOT

PAGE: Final = (ROOT / "docs" / "policy.md").read_text(encoding="utf-8")
BLOCKS: Final = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)


def read(block: str) -> Settings:
    """The settings of a block."""
    return load(flags={**yaml.safe_load(block), "kafka": {"bootstrap.servers": "x"}}, environment={})


@pytest.mark.parametrize("block", BLOCKS)
def test_each_block_is_read(block: str) -> None:
    """Each block loads and sets something of the policy."""
    assert read(block).policy != PolicySettings()


def test_the_groups_of_the_page_have_the_rules_that_it_says() -> None:
    """Only the first match counts, and what it does not set is the section's."""
    policy = read(BLOCKS[-1]).policy
    payments, orders = policy.of("payments"), policy.of("orders-eu")
    assert (payments.mode, payments.min_saving, payments.windows) == ("propose", 0.05, ())
    assert (orders.mode, orders.min_saving, len(orders.windows)) == ("act", 0.1, 1)


@pytest.mark.parametrize(
    ("key", "value", "shown"),
    [
        ("burst", 3, "| `policy.burst` | 3 |"),
        ("refill_seconds", 60, "| `policy.refill_seconds` | 60 |"),
        ("max_per_hour", 12, "| `policy.max_per_hour` | 12 |"),
        ("breaker_failures", 3, "`policy.breaker_failures` of them in a row (3)"),
        ("breaker_seconds", 3600, "`policy.breaker_seconds` (an hour)"),
        ("unmeasured_seconds", 600, "`policy.unmeasured_seconds` (ten minutes)"),
        ("min_saving", 0.05, "min_saving: 0.05"),
    ],
)
def test_the_defaults_that_it_tells_are_the_settings(key: str, value: float, shown: str) -> None:
    """The page shows each default as it is."""
    assert getattr(PolicySettings(), key) == value
    assert shown in PAGE


def test_it_names_every_field_and_what_is_waited_for() -> None:
    """The page has each field of `/v1/policy`, and each reason that its rules give."""
    fields = [field for field in POLICY if field not in ("group", "role")]
    waits = [
        Reason.BELOW_LEAST_SAVING,
        Reason.NOT_MEASURED,
        Reason.OUTSIDE_WINDOW,
        Reason.BREAKER_OPEN,
        Reason.OUT_OF_BUDGET,
        Reason.HOURLY_CAP,
        Reason.PROPOSED,
    ]
    missing = [name for name in (*fields, *(reason.value for reason in waits)) if f"`{name}`" not in PAGE]
    assert missing == []
