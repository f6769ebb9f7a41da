"""docs/permissions.md: its snippet for Strimzi gives what its table lists; tests/integration runs its commands."""

from __future__ import annotations

import re

import yaml

from tests.docs import ROOT

_PAGE = (ROOT / "docs" / "permissions.md").read_text(encoding="utf-8")
_ROW = re.compile(r"^\| (group|topic|cluster) \| `([^`]+)` \| (\w+) \|", re.MULTILINE)


def test_the_snippet_for_strimzi_allows_the_same() -> None:
    """The KafkaUser of the page has the permissions of the table."""
    user = yaml.safe_load(_PAGE.partition("```yaml\n")[2].partition("```")[0])
    given = {
        (
            acl["resource"]["type"],
            acl["resource"].get("name", "kafka-cluster"),
            re.sub(r"(?<=[a-z])(?=[A-Z])", "_", operation).upper(),
        )
        for acl in user["spec"]["authorization"]["acls"]
        for operation in acl["operations"]
    }
    assert len(given) > 5
    assert given == set(_ROW.findall(_PAGE))
