"""What the agent promises about leading a running group: no more than was measured."""

from __future__ import annotations

import pytest

from samerack.agent.leading.prospect import prospect
from samerack.cluster.group import GroupView
from samerack.common.settings import LeadingSettings
from tests.unit.agent.values import group, member

ONE, TWO, STATIC = member("one", "t"), member("two", "t"), member("three", "t", instance_id="pod-3")
AGENT = member("samerack-1", instance_id="samerack")


@pytest.mark.parametrize(
    ("view", "promised", "not_promised"),
    [
        (group(ONE, TWO), ("within one rolling deploy", "samerack lead orders --takeover clean"), ("static",)),
        (group(AGENT, ONE), ("within one rolling deploy",), ("static",)),
        (group(ONE, TWO, protocol="sticky"), ("by chance only", "--takeover clean"), ("within one",)),
        (
            group(ONE, TWO, protocol="cooperative-sticky"),
            ("once all have been stopped", "by chance only"),
            ("--takeover",),
        ),
        (group(ONE, STATIC), ("1 of its members are static", "keeps the lead"), ()),
        (group(ONE, protocol="RoundRobinAssigner"), ("not while it runs: its leader's assignor",), ("deploy",)),
    ],
)
def test_what_is_promised(view: GroupView, promised: tuple[str, ...], not_promised: tuple[str, ...]) -> None:
    """The promise depends on the protocol and the kind of members."""
    told = prospect(view, LeadingSettings())
    assert all(words in told for words in promised), told
    assert not any(words in told for words in not_promised), told
