"""Observes a group's rebalances, as a member of the group or from outside, and records them."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from samerack.agent.leading.assigning import Sent
from samerack.agent.leading.membership import HEARTBEAT_SECONDS
from samerack.agent.policy import GroupCondition
from samerack.cluster.group import EMPTY_STATES, GroupView
from samerack.cluster.view import SettledCluster
from samerack.events.cause import clients_of, of_plan, of_view
from samerack.events.rebalances import LedPlan, Rebalances
from samerack.settings.leading import LeadingSettings


class RebalanceObserver:
    """Observes the rebalances of one group."""

    def __init__(
        self, rebalances: Rebalances, *, leading: LeadingSettings, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Start without observations of the group whose rebalances are recorded there."""
        self._rebalances = rebalances
        self._leading = leading
        self._clock = clock
        self._clients: dict[str, str] = {}
        self._quiet = False
        self._rejoining = False
        """True from JoinGroup on. A poll that shows the group Stable is then older than JoinGroup or newer than the
        plan."""
        self._stable_at = float("-inf")
        self._last_reported = sys.maxsize

    def begins(self, ours: str) -> None:
        """Record that the agent starts a rebalance, and why."""
        self._rebalances.begins(self._clock(), agent_reason=ours)

    def rejoins(self, *, expected: bool) -> None:
        """Record that the agent sends JoinGroup, or is about to; `expected`: the group has its instance id."""
        self._rejoining = True
        if self._rebalances.inside:
            # the last heartbeat reported the rebalance, the one before it did not
            self._rebalances.begins(max(self._clock() - HEARTBEAT_SECONDS, self._stable_at))
            return
        self._rebalances.enters()
        self._quiet = expected
        self._rebalances.begins(self._clock(), agent_reason="" if expected else "joined")

    def loses(self) -> None:
        """Record that the brokers have removed the agent from the group."""
        self._rejoining = False
        self._rebalances.loses(self._clock())

    def joined(self, generation: int) -> None:
        """Record that the agent has joined without a plan of its own."""
        self._rejoining = False
        self._stable_at = self._clock()
        self._last_reported = generation
        self._rebalances.joined(generation, self._stable_at, quiet=self._quiet)

    def planned(self, sent: Sent) -> None:
        """Record a plan that the agent sent to the group."""
        plan = sent.plan
        self._rejoining = False
        self._stable_at = self._clock()
        self._rebalances.meets(
            {key: client for number, met in sent.rounds if number > self._last_reported for key, client in met.items()}
        )
        self._last_reported = sent.generation
        snapshot = of_plan(plan.problem, plan.sent, clients=self._clients, cooperative=sent.cooperative)
        self._rebalances.joined(
            sent.generation,
            self._stable_at,
            plan=LedPlan(
                snapshot=snapshot,
                share_before=plan.before.min_share,
                share_after=plan.after.min_share,
                assignor=plan.assignor,
                failure=plan.failure or "",
                returned=sent.returned,
            ),
        )

    def sees(self, view: GroupView, *, condition: GroupCondition | None, cluster: SettledCluster) -> None:
        """Record a description of the group without the agent, and its cost if that was computed."""
        clients = clients_of(view.members, agent=self._leading.instance_id)
        if not (view.stable or view.state in EMPTY_STATES):
            self._clients |= clients
            self._rebalances.moving(clients, self._clock())
            return
        if self._rejoining:
            return
        self._clients, self._stable_at = clients, self._clock()
        topics = {topic for member in view.members if member.subscription for topic in member.subscription.topics}
        self._rebalances.stable(
            of_view(view, partitions={topic: len(cluster.topics[topic]) for topic in topics & cluster.topics.keys()}),
            self._stable_at,
            share=condition.present.min_share if condition is not None else None,
        )

    def leaves(self, *, member: bool) -> None:
        """Record that the agent has left; `member`: it was a member, so that the group rebalances."""
        now = self._clock()
        self._rejoining = False
        self._rebalances.leaves(now)
        if member:
            self._rebalances.begins(now, agent_reason="left")
