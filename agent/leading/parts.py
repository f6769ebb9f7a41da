"""The parts that lead one group, and how they are put together; they live as long as the agent.

A membership ends with every back-off and every failure; what must outlive it is here: the plan that was sent last, the
policy's budget, the pauses after back-offs, the progress of takeovers.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from samerack.agent.leading.admission import Admission, after_leave, no_reason
from samerack.agent.leading.assigning import Assigning, Weigh, unweighed
from samerack.agent.leading.evictions import Evictions
from samerack.agent.leading.group_memory import GroupMemory, GroupSizes
from samerack.agent.leading.group_reporter import GroupReporter
from samerack.agent.leading.group_requests import GroupRequests
from samerack.agent.leading.join_position import JoinPosition
from samerack.agent.leading.rebalance_evaluator import RebalanceEvaluator
from samerack.agent.leading.takeover_controller import TakeoverController, TakeoverLock
from samerack.agent.metrics import Metrics
from samerack.agent.policy import EXEMPT, Action
from samerack.agent.policy.measured import UNMEASURED, Measured
from samerack.agent.policy.requests import RequestKind
from samerack.cluster.group import GroupView, MemberView
from samerack.cluster.racks import NO_HOSTS, Hosts
from samerack.cluster.watch import ClusterWatch
from samerack.common.words import when
from samerack.events import EventLog
from samerack.events.rebalances import Rebalances
from samerack.settings.all_settings import Settings
from samerack.settings.leading import LeadingSettings

_REBALANCES: Final = 5
"""A pause is expected to be like the median of this number of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupParts:
    """The parts that lead one group, for as long as the agent runs."""

    group: str
    settings: Settings
    watch: ClusterWatch
    reporter: GroupReporter
    evictions: Evictions
    admission: Admission
    assigning: Assigning
    evaluator: RebalanceEvaluator
    position: JoinPosition
    takeovers: TakeoverController
    requests: GroupRequests
    clock: Callable[[], float] = time.monotonic


def build_group_parts(  # noqa: PLR0913 - it brings all parts of leading one group together
    *,
    group: str,
    settings: Settings,
    watch: ClusterWatch,
    foreign_protocols: GroupMemory,
    evicted: GroupMemory,
    sizes: GroupSizes | None = None,
    requests: GroupRequests | None = None,
    group_type: Callable[[str], str],
    metrics: Metrics,
    events: EventLog,
    weigh: Weigh = unweighed,
    hosts: Hosts = NO_HOSTS,
    unsupported_reason: Callable[[], str] = no_reason,
    measured: Measured = UNMEASURED,
    rebalances: Rebalances | None = None,
    lock: TakeoverLock | None = None,
    notify_supervisor: Callable[[], None] = lambda: None,
) -> GroupParts:
    """Return the parts that lead one group.

    Without `sizes` the group was not seen before, without `requests` operators have asked for nothing, without `lock`
    the group may take over at any time. `foreign_protocols` and `evicted` are what the agent remembers of its groups.
    `group_type` separates classic groups from those that brokers assign, `unsupported_reason` says why groups on these
    brokers cannot be led (empty if they can); `notify_supervisor` sends the supervisor the agent's member ids.
    """
    if requests is None:
        requests = GroupRequests()

    def never_evicts() -> str:
        return evictions.reason

    assigning = Assigning(group=group, settings=settings, watch=watch, weigh=weigh, hosts=hosts)
    evaluator = RebalanceEvaluator(
        settings=settings,
        watch=watch,
        assigning=assigning,
        hosts=hosts,
        clock=time.monotonic,
        group=group,
        measured=measured,
        recent=partial(_triggered, events, group),
        pauses=partial(_pauses, events, group),
        pause=partial(requests.of, group, RequestKind.PAUSE),
    )
    reporter = GroupReporter(
        group=group,
        settings=settings,
        evaluator=evaluator,
        metrics=metrics,
        events=events,
        rebalances=rebalances,
        paused=partial(requests.reason, group, RequestKind.PAUSE),
        returned=partial(_returned, requests, settings.leading),
        never_evicts=never_evicts,
        clock=time.monotonic,
    )
    evictions = Evictions(group=group, memory=evicted, reporter=reporter, clock=time.monotonic)

    def evict(members: Sequence[MemberView], chosen: Sequence[MemberView]) -> None:
        assigning.evicts(chosen)
        evictions.begin(members, chosen)

    position = JoinPosition(
        retry_seconds=settings.leading.position_retry_seconds,
        metrics=metrics,
        log=reporter.log,
        notify_supervisor=notify_supervisor,
    )
    return GroupParts(
        group=group,
        settings=settings,
        watch=watch,
        reporter=reporter,
        evictions=evictions,
        admission=Admission(
            group=group,
            leading=settings.leading,
            watch=watch,
            group_type=group_type,
            reporter=reporter,
            foreign_protocols=foreign_protocols,
            sizes=sizes or GroupSizes(None),
            unsupported_reason=unsupported_reason,
            requested=partial(requests.reason, group, RequestKind.LEAVE),
            never_evicts=never_evicts,
            clock=time.monotonic,
        ),
        assigning=assigning,
        evaluator=evaluator,
        position=position,
        takeovers=TakeoverController(
            group=group,
            leading=settings.leading,
            evaluator=evaluator,
            position=position,
            reporter=reporter,
            lock=lock or TakeoverLock(),
            notify_supervisor=notify_supervisor,
            on_evict=evict,
            returned=partial(requests.of, group, RequestKind.RETURN),
            never_evicts=never_evicts,
            clock=time.monotonic,
        ),
        requests=requests,
    )


def _returned(requests: GroupRequests, leading: LeadingSettings, view: GroupView) -> str:
    """Return since when the agent is back after a leave and has not led the group, and how it comes to; else empty."""
    left = requests.of(view.name, RequestKind.RETURN)
    if left is None:
        return ""
    after = after_leave(view, leading, lead_again=left.lead_again)
    return f"since the end of `samerack leave` ({when(left.since)} UTC) {after}"


def _triggered(events: EventLog, group: str, since: float) -> tuple[float, ...]:
    """Return when an earlier process triggered rebalances for racks or traffic, from `since` on."""
    exempt = {reason.value for reason in EXEMPT}
    return tuple(
        event.at
        for event in events.latest(group=group, kinds=("decision",), since=since, former=True)
        if event.action == Action.REBALANCE.value and event.reason not in exempt
    )


def _pauses(events: EventLog, group: str, since: float) -> tuple[float, ...]:
    """Return how long the group paused in its last rebalances from `since` on, as far as that is known, in seconds."""
    last = events.latest(_REBALANCES, group=group, kinds=("rebalance",), since=since)
    return tuple(event.pause_seconds for event in last if event.pause_seconds is not None)
