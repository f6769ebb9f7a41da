"""What is reported of a group: decisions, the breaker, why it is only observed, and rebalances."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from samerack.agent.group_status import FOLLOWING, OBSERVING, WAITING
from samerack.agent.group_status import LEADING as LEADS
from samerack.agent.leading.assigning import Sent
from samerack.agent.leading.group_reporter import GroupReporter
from samerack.agent.metrics import Metrics
from samerack.agent.policy import Action, Breaker, Changes, Decision, Reason
from samerack.assignors.build import MemberInput, build_problem
from samerack.cluster.group import GroupView
from samerack.cluster.view import SettledCluster
from samerack.events import EventLog
from samerack.events.rebalance_tracker import RebalanceTracker
from samerack.planning.planner import make_plan
from samerack.planning.problem import mode_of
from samerack.protocol.values import from_pairs
from tests.unit.agent.leading.policies import MIDNIGHT
from tests.unit.agent.leading.scripted import reporter_of
from tests.unit.agent.values import cluster, group, member


def recording_reporter(cluster: SettledCluster | None = None) -> tuple[GroupReporter, EventLog, Metrics]:
    """A reporter with its events and metrics."""
    metrics, events = Metrics(), EventLog()
    return reporter_of(metrics=metrics, events=events, cluster=cluster), events, metrics


def test_a_member_in_a_rack_that_no_broker_has_is_one_without_rack(capsys: pytest.CaptureFixture[str]) -> None:
    """It is counted so, and the warning has the name."""
    reporter, _, metrics = recording_reporter(cluster(t=[(1,)]))
    view = group(member("m-1", "t", rack="a"), member("m-2", "t", rack="cellar"), member("m-3", "t"))
    reporter.publish(view, first=False, condition=None)
    assert metrics.registry.get_sample_value("samerack_members_without_rack", {"group": "orders"}) == 2
    assert capsys.readouterr().out.count("racks-never-match") == 1


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
    reporter, events, metrics = recording_reporter()
    reporter.decided(Decision(action=action, reason=Reason.RACKS_CHANGED, before=0.5, after=0.0, until=MIDNIGHT + 7200))
    (event,) = events.latest(kinds=("decision",))
    assert (event.action, event.reason) == (action.value, "racks-changed")
    assert event.detail == "until 2027-01-16 02:00:00 UTC"
    assert metrics.registry.get_sample_value(counter, {"group": "orders", "reason": "racks-changed"}) == 1


def test_a_rebalance_for_racks_is_an_event_with_what_has_changed() -> None:
    """It names up to three topics and members, and else the first and how many more."""
    reporter, events, _ = recording_reporter()
    changes = Changes(topics=("a", "b", "c", "d"), members=("m-1", "m-2"), traffic=True)
    for action in (Action.SUPPRESS, Action.PROPOSE):
        reporter.decided(Decision(action=action, reason=Reason.RACKS_CHANGED, before=0.5, after=0.0, changes=changes))
    proposed, suppressed = events.latest(kinds=("decision",))
    assert proposed.detail == "changed: topics a and 3 more; members m-1, m-2; traffic"
    assert suppressed.detail == ""


def test_a_plan_says_that_it_counts_what_members_that_stay_give_up() -> None:
    """The rebalance counts partitions of members that left as moved too: the two looked contradictory."""
    reporter, events, _ = recording_reporter()
    stays = MemberInput(id="m-1", topics=("t",), rack="a", owned={"t": (0, 1)})
    problem = build_problem(topics={"t": [["a"]] * 4}, members=[stays])
    plan = make_plan(problem, mode_of("range", reporter.settings.leading, rack_aware_fetch=True))
    view = cluster(t=[(1,)])
    reporter.planned(Sent(generation=1, plan=plan, cluster=view, seconds=0.0, members=1, subscriptions={}))
    (event,) = events.latest(kinds=("plan",))
    assert event.detail == "0 of 4 partitions are taken from members that stay, 0 of them a round later"


def test_the_breaker_is_reported_when_it_opens_opens_again_and_closes() -> None:
    """The event has the cause, and is not repeated at each poll."""
    reporter, events, _ = recording_reporter()
    closed, opened = Breaker(), Breaker(failures=3, opened=10.0, cause="it brought nothing")
    again = Breaker(failures=4, opened=3700.0, cause="nor did it now")
    for breaker in (closed, opened, opened, again, again, closed, closed):
        reporter.broken(breaker)
    recorded = [(event.action, event.detail) for event in reversed(events.latest(kinds=("breaker",)))]
    assert recorded == [("open", "it brought nothing"), ("open", "nor did it now"), ("close", "")]


def test_why_the_agent_only_observes_is_in_status_and_metrics() -> None:
    """The reason of an observed group is shown until the agent follows it."""
    reporter, _, metrics = recording_reporter()
    reporter.trouble = "its protocol type is 'connect', not consumer"
    labels = {"group": "orders", "why": reporter.trouble}
    for role, shown, why in ((OBSERVING, 1, reporter.trouble), (FOLLOWING, None, "")):
        reporter.become(role)
        assert metrics.registry.get_sample_value("samerack_group_reason", labels) == shown
        assert [status.why for status in metrics.board.all()] == [why]


def test_why_nobody_is_evicted_is_shown_until_the_agent_leads() -> None:
    """Waiting or following it has nothing else to say of a group that works."""
    reporter, _, metrics = recording_reporter()
    reporter.never_evicts = lambda: "members (samsa) did not come back"
    shown = []
    for role in (WAITING, FOLLOWING, LEADS):
        reporter.become(role)
        shown += [status.why for status in metrics.board.all()]
    assert shown == ["members (samsa) did not come back"] * 2 + [""]


# rebalances, with polls that are answered in the middle of one

CLUSTER = cluster(t=[[1], [2], [3]])


def owning(one: Sequence[int], two: Sequence[int]) -> GroupView:
    """Two members that own these partitions of t."""
    owned = {"one": one, "two": two}
    return group(*(member(name, "t", assigned=from_pairs([("t", n) for n in has])) for name, has in owned.items()))


BEFORE, AFTER = owning([0, 1], [2]), owning([0], [1, 2])


def test_a_poll_between_joingroup_and_syncgroup_does_not_undo_what_the_agent_began() -> None:
    """Such a poll shows Stable, before or after the rebalance: moves were reported as "not known; 0 of 9 moved"."""
    now = 100.0
    events = EventLog()
    tracker = RebalanceTracker(events, clock=lambda: now)
    reporter = replace(reporter_of(events=events, cluster=CLUSTER), rebalances=tracker.of("orders"), clock=lambda: now)

    def sees(view: GroupView) -> None:
        reporter.publish(view, first=False, condition=None)

    reporter.rejoins(expected=False)
    reporter.joined(generation=7, leader="one")
    for _ in range(2):
        sees(BEFORE)
    reporter.begins_rebalance("racks-changed")
    reporter.rejoins(expected=False)
    now += 3.0  # the members' heartbeats
    sees(BEFORE)
    sees(AFTER)
    reporter.joined(generation=8, leader="one")
    for _ in range(2):
        sees(AFTER)
    recorded = [(event.generation, event.reason, event.moved) for event in reversed(events.latest())]
    assert recorded == [(7, "joined", None), (8, "racks-changed", 1)]
