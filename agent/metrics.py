"""The agent's Prometheus metrics: one registry, and one object with the families that the others count in.

The gauges of groups are in `agent.group_status`. `docs/metrics.md` lists every metric with its help text, as a real
agent shows it; tests compare the two.
"""

from __future__ import annotations

from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics, generate_latest

from samerack.agent.group_status import GroupStatus, StatusBoard
from samerack.agent.policy import EXEMPT, REFUSALS, TRIGGERS
from samerack.agent.policy.back_off_causes import Cause
from samerack.agent.supervisor.memory import resident_bytes

ASSIGNORS = ("optimal", "range")
GROUP_ERRORS = ("assigned-to-agent", "internal", "kafka", "leave", "plan", "refused")
WATCH_ERROR = "watch"
BROKER_ABSENT = "broker-absent"
POD_OUTCOMES = ("found", "unknown", "failed")

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)


class Metrics:
    """Everything that is counted. Families and methods are safe to use from any thread."""

    def __init__(self) -> None:
        # in the text format creation times would add one series per counter
        disable_created_metrics()  # type: ignore[no-untyped-call]  # the library has not typed it
        self.registry = CollectorRegistry(auto_describe=True)
        self.board = StatusBoard()
        self.registry.register(self.board)
        counter, gauge = partial(Counter, registry=self.registry), partial(Gauge, registry=self.registry)
        histogram = partial(Histogram, buckets=_SECONDS, registry=self.registry)
        self.up = gauge("samerack_up", "1 while /readyz answers 200.")
        self._plan_seconds = histogram("samerack_plan_seconds", "Time to make a plan, while a group waits.")
        self._plans = counter(
            "samerack_plans_total",
            "Plans sent, by assignor: optimal, or range if that failed.",
            ["group", "assignor"],
        )
        self.rebalances = counter(
            "samerack_rebalances_total", "Rebalances that the agent triggered, by reason.", ["group", "reason"]
        )
        self.proposals = counter(
            "samerack_proposals_total", "Rebalances that mode act would have triggered, by reason.", ["group", "reason"]
        )
        self.suppressed = counter(
            "samerack_suppressed_triggers_total", "Triggers that caused no rebalance, by reason.", ["group", "reason"]
        )
        self._errors = counter("samerack_errors_total", "Failures, by kind; the log has details.", ["group", "kind"])
        self.position_rejoins = counter(
            "samerack_position_rejoins_total", "Rejoins to become the next leader.", ["group"]
        )
        self.back_offs = counter(
            "samerack_back_offs_total", "Times that the agent backed off, by cause.", ["group", "cause"]
        )
        self.join_to_sync = histogram(
            "samerack_join_to_sync_seconds",
            "Time from JoinGroup to SyncGroup, while a group waits for its leader.",
        )
        gauge("samerack_memory_bytes", "Resident memory of the worker.").set_function(resident_bytes)
        self._poll_seconds = histogram("samerack_poll_seconds", "Duration of one poll of the cluster.")
        self.settings_refused = gauge(
            "samerack_settings_refused",
            "1 while the changed settings are invalid and the former ones stay in force; the log says why.",
        )
        self._pod_rack = gauge(
            "samerack_pod_rack", "1 for the rack of the agent's pod and its source.", ["rack", "source"]
        )
        self.pod_questions = counter(
            "samerack_pod_questions_total",
            "Addresses looked up in the Kubernetes API: found, unknown or failed.",
            ["outcome"],
        )
        for outcome in POD_OUTCOMES:
            self.pod_questions.labels(outcome)
        self.in_rack("", "none")

        self.position_rejoins.labels("")
        for family, values in (
            (self._plans, ASSIGNORS),
            (self.rebalances, [reason.value for reason in TRIGGERS]),
            (self.proposals, [reason.value for reason in TRIGGERS if reason not in EXEMPT]),
            (self.suppressed, [BROKER_ABSENT, *(reason.value for reason in REFUSALS)]),
            (self._errors, (WATCH_ERROR, *GROUP_ERRORS)),
            (self.back_offs, [cause.value for cause in Cause]),
        ):
            for value in values:
                family.labels("", value)  # without a group, to show which there can be

    def expect(self, group: str) -> None:
        """Show a group from the start.

        Its counters are shown from their first event on: nearly all of them would stay at 0, and an agent may lead a
        thousand groups.
        """
        self.board.publish(GroupStatus(group=group))

    def forget(self, group: str) -> None:
        """Show a group no longer that has ceased to exist."""
        self.board.forget(group)
        rebalances = (self._plans, self.rebalances, self.proposals, self.suppressed)
        for family in (*rebalances, self.back_offs, self.position_rejoins, self._errors):
            family.remove_by_labels({"group": group})

    def planned(self, group: str, assignor: str, seconds: float) -> None:
        """Record a plan that was made and sent."""
        self._plan_seconds.observe(seconds)
        self._plans.labels(group, assignor).inc()

    def failed(self, group: str, kind: str) -> None:
        """Count a failure."""
        self._errors.labels(group, kind).inc()

    def polled(self, seconds: float) -> None:
        """Record the duration of a poll of the cluster."""
        self._poll_seconds.observe(seconds)

    def watch_failed(self) -> None:
        """Count a failed poll of the cluster."""
        self._errors.labels("", WATCH_ERROR).inc()

    def ignored(self, reason: str) -> None:
        """Count something that a poll found but that is not a change of the cluster."""
        self.suppressed.labels("", reason).inc()

    def in_rack(self, rack: str, source: str) -> None:
        """Set the rack of the agent's own pod and its source."""
        self._pod_rack.clear()
        self._pod_rack.labels(rack, source).set(1)

    def exposition(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        return generate_latest(self.registry)
