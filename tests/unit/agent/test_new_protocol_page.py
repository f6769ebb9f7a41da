"""The page on the new protocol gives the line that the commands give."""

from __future__ import annotations

from typing import Final

import yaml

from samerack.cluster.server_assignors import LINE
from tests.docs import ROOT, yaml_of

_PAGE: Final = (ROOT / "docs" / "new-protocol.md").read_text(encoding="utf-8")


def test_the_line_of_the_page_is_that_of_the_commands() -> None:
    """Bare brokers and Strimzi get the same value, and both get the selector without which reads stay far."""
    key, _, value = LINE.partition("=")
    assert f"   {LINE}\n" in _PAGE
    config = yaml.safe_load(yaml_of("new-protocol.md"))["spec"]["kafka"]["config"]
    assert config[key] == value
    assert config["replica.selector.class"].endswith("RackAwareReplicaSelector")
