"""A group that does not exist is waited for: nothing is sent to it, and every place says that it does not exist."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any, cast

import pytest

from samerack.agent.leading.consumer_wait import MISSING, ConsumerWait
from samerack.agent.leading.group_reporter import GroupReporter
from samerack.agent.leading.parts import GroupParts
from samerack.agent.leading.rebalance_evaluator import Outlook
from samerack.agent.leading.roles import FOLLOWING, OBSERVING, WAITING
from samerack.agent.metrics import Metrics
from samerack.agent.policy import Breaker
from samerack.cluster.group import GroupView
from samerack.cluster.group_poller import GroupPoll, GroupPoller
from samerack.cluster.racks import NO_HOSTS
from samerack.common.settings import Settings
from samerack.events import EventLog
from tests.unit.agent.values import cluster, group, member

SETTINGS = Settings(kafka={"bootstrap.servers": "h:1"})


class Polls:
    """Gives the polls one after the other, and sets the event for the next one."""

    def __init__(self, *views: GroupView) -> None:
        self._polls = [GroupPoll(view=view) for view in views]

    def watch(self, _: str, listener: Any, **__: Any) -> None:
        """Wake the waiter whenever it waits."""
        self._wake = listener

    def unwatch(self, _: str) -> None:
        """Nothing to stop."""

    def latest(self, _: str) -> GroupPoll:
        """The next poll, the last one again and again."""
        self._wake()
        return self._polls.pop(0) if len(self._polls) > 1 else self._polls[0]


def _joins_nothing(_: object) -> Any:
    pytest.fail("a membership was made for a group without consumers")


def waiting(*views: GroupView) -> tuple[Metrics, EventLog]:
    """What is shown after these polls."""
    metrics, events = Metrics(), EventLog()
    reporter = GroupReporter(group="orders", settings=SETTINGS, metrics=metrics, events=events)
    parts = SimpleNamespace(
        group="orders",
        reporter=reporter,
        settings=SETTINGS,
        admission=SimpleNamespace(admits=lambda _: True),
        watch=SimpleNamespace(cluster=cluster()),
        hosts=NO_HOSTS,
        evaluator=SimpleNamespace(outlook=Outlook(mode="act", decision=None, tokens=3.0, breaker=Breaker())),
    )
    left = len(views)

    def wanted() -> bool:
        nonlocal left
        left -= 1
        return left >= 0

    wait = ConsumerWait(cast("GroupParts", parts), cast("GroupPoller", Polls(*views)), _joins_nothing)
    wait.wait(threading.Event(), wanted)
    return metrics, events


def test_a_name_that_does_not_exist_is_waited_for_and_said() -> None:
    """The role is waiting, the reason says so in the status and in the metrics, and no membership is made."""
    metrics, _ = waiting(group(state="Dead"))
    (status,) = metrics.board.all()
    assert (status.role, status.state, status.why) == (WAITING, "Dead", MISSING)
    assert metrics.registry.get_sample_value("samerack_group_reason", {"group": "orders", "why": MISSING}) == 1


def test_the_reason_ends_with_the_first_sight_of_the_group() -> None:
    """An empty group that exists is waited for without a reason."""
    metrics, _ = waiting(group(state="Dead"), group(state="Empty"))
    (status,) = metrics.board.all()
    assert (status.role, status.state, status.why) == (WAITING, "Empty", "")


def test_consumers_end_the_wait() -> None:
    """A group with members is no missing one."""
    metrics, _ = waiting(group(member("m", "clicks")))
    assert [status.why for status in metrics.board.all()] == []


def test_why_the_agent_only_observes_is_in_status_and_metrics() -> None:
    """The reason of an observed group is shown until the agent follows it."""
    metrics = Metrics()
    reporter = GroupReporter(group="orders", settings=SETTINGS, metrics=metrics, events=EventLog())
    reporter.trouble = "its protocol type is 'connect', not consumer"
    reporter.become(OBSERVING)
    labels = {"group": "orders", "why": reporter.trouble}
    assert metrics.registry.get_sample_value("samerack_group_reason", labels) == 1
    reporter.become(FOLLOWING)
    assert metrics.registry.get_sample_value("samerack_group_reason", labels) is None
    assert [status.why for status in metrics.board.all()] == [""]
