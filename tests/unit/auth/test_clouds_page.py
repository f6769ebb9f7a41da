"""Tests that docs/clouds.md is correct: its settings are accepted, and its policy is valid."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
import yaml

from samerack.auth.identities import identity
from samerack.auth.kafka_config import for_kafka_python, for_librdkafka
from samerack.settings.loading import load
from tests.docs import ROOT

PAGE = (ROOT / "docs" / "clouds.md").read_text(encoding="utf-8")
BLOCKS: list[dict[str, Any]] = [yaml.safe_load(block) for block in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)]
SETTINGS = [given for block in BLOCKS if "kafka" in (given := block.get("config", block))]


@pytest.mark.parametrize("given", SETTINGS, ids=str)
def test_settings_are_taken(given: dict[str, Any]) -> None:
    """Both clients accept the settings, and their tokens come from a cloud."""
    kafka = load(flags=given, environment={}).kafka
    assert identity(kafka, {}) is not None
    assert for_kafka_python(kafka)["sasl_oauth_token_provider"].for_librdkafka == for_librdkafka(kafka)["oauth_cb"]


def test_the_policy_is_json_whose_actions_the_table_explains() -> None:
    """The table explains every action except Connect, and no action writes, creates, deletes or alters."""
    policy, table = re.findall(r"```json\n(.*?)```(.*?)\n\nWhat is lost", PAGE, re.DOTALL)[0]
    actions = {action for statement in json.loads(policy)["Statement"] for action in statement["Action"]}
    unexplained = {action.removeprefix("kafka-cluster:") for action in actions} - set(re.findall(r"[:`](\w+)`", table))
    assert unexplained == {"Connect"}
    assert not [action for action in actions if re.search("Write|Create|Delete|Alter(?!Group)", action)]
