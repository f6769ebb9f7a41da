"""docs/events.md lists the actions that events have."""

from __future__ import annotations

import re

from samerack.agent.leading.group_requests import RESUME
from samerack.agent.leading.progress import TakeoverOutcome
from samerack.agent.leading.takeover_attempt import Step
from samerack.agent.policy.reasons import Action
from samerack.agent.policy.requests import RequestKind
from tests.docs import ROOT, sources

_ADDED = re.compile(r"events\.add\(\s*\"(?:[a-z-]+)\",[^)]*?action=\"([a-z -]+)\"")
_PAGE = (ROOT / "docs" / "events.md").read_text(encoding="utf-8")


def test_every_action_is_on_the_page() -> None:
    """Who reads the JSON finds those of the policy, of operators, of takeovers, and all others."""
    written = {action for path in sources() for action in _ADDED.findall(path.read_text(encoding="utf-8"))}
    assert written >= {"leaves", "replaced", "planned"}
    ends = {TakeoverOutcome.LEADS, TakeoverOutcome.UNDONE, TakeoverOutcome.REFUSED}
    enumerated = {
        one.value for one in (*Step, *ends, *(set(Action) - {Action.NOTHING}), RequestKind.LEAVE, RequestKind.PAUSE)
    }
    actions = written | enumerated | {RESUME, "begin"}
    listed = _PAGE.partition("- `action`:")[2].partition("\n- ")[0]
    assert sorted(action for action in actions if f"`{action}`" not in listed) == []
