"""What is reported of a group: each decision, each opening or closing of the breaker once, and why it is observed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from samerack.agent.leading.group_reporter import GroupReporter
from samerack.agent.leading.rebalance_evaluator import Outlook
from samerack.agent.leading.roles import FOLLOWING, OBSERVING
from samerack.agent.metrics import Metrics
from samerack.agent.policy import Action, Breaker, Decision, Reason
from samerack.common.settings import Settings
from samerack.events import EventLog
from tests.unit.agent.leading.policies import MIDNIGHT

CLOSED = Outlook(mode="act", decision=None, tokens=3.0, breaker=Breaker())


def telling() -> tuple[GroupReporter, EventLog, Metrics]:
    """A reporter with its events and metrics."""
    metrics, events = Metrics(), EventLog()
    settings = Settings(kafka={"bootstrap.servers": "h:1"})
    return GroupReporter(group="orders", settings=settings, metrics=metrics, events=events), events, metrics


@pytest.mark.parametrize(
    ("action", "counter"),
    [
        (Action.REBALANCE, "samerack_rebalances_total"),
        (Action.PROPOSE, "samerack_proposals_total"),
        (Action.SUPPRESS, "samerack_suppressed_triggers_total"),
    ],
)
def test_a_decision_is_an_event_and_counted_as_what_it_is(action: Action, counter: str) -> None:
    """The event has the time that the decision waits for, if it waits."""
    reporter, events, metrics = telling()
    reporter.decided(Decision(action=action, reason=Reason.RACKS_CHANGED, before=0.5, after=0.0, until=MIDNIGHT + 7200))
    (event,) = events.latest(kinds=("decision",))
    assert (event.action, event.reason) == (action.value, "racks-changed")
    assert event.detail == "until 2027-01-16 02:00:00 UTC"
    assert metrics.registry.get_sample_value(counter, {"group": "orders", "reason": "racks-changed"}) == 1


def test_the_breaker_is_told_when_it_opens_opens_again_and_closes() -> None:
    """The event has the cause, and is not repeated at each poll."""
    reporter, events, _ = telling()
    opened = replace(CLOSED, breaker=Breaker(failures=3, opened=10.0, cause="it brought nothing"))
    again = replace(CLOSED, breaker=Breaker(failures=4, opened=3700.0, cause="nor did it now"))
    for outlook in (CLOSED, opened, opened, again, again, CLOSED, CLOSED):
        reporter.broken(outlook)
    told = [(event.action, event.detail) for event in reversed(events.latest(kinds=("breaker",)))]
    assert told == [("open", "it brought nothing"), ("open", "nor did it now"), ("close", "")]


def test_why_the_agent_only_observes_is_in_status_and_metrics() -> None:
    """The reason of an observed group is shown until the agent follows it."""
    reporter, _, metrics = telling()
    reporter.trouble = "its protocol type is 'connect', not consumer"
    labels = {"group": "orders", "why": reporter.trouble}
    for role, shown, why in ((OBSERVING, 1, reporter.trouble), (FOLLOWING, None, "")):
        reporter.become(role)
        assert metrics.registry.get_sample_value("samerack_group_reason", labels) == shown
        assert [status.why for status in metrics.board.all()] == [why]
