"""What a stable group looks like beside the plan that it could have, and whether that is worth a rebalance now.

Works out a situation once per look, cluster, weights and knowledge of hosts, and keeps the policy's budget. What must
not enter: the membership, and telling anybody.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from agent.cluster import SettledCluster, replica_racks
from agent.group import GroupView, topics_of
from agent.leading import planner
from agent.leading.assigning import Assigning, Sent
from agent.leading.policy import Budget, Decision, Reason, Rules, Situation, decide, full
from agent.racks import Hosts
from agent.traffic.weights import Weights
from agent.watch import ClusterWatch
from common.settings import Settings


@dataclass(slots=True, kw_only=True)
class Evaluation:
    """What was worked out for one group view, cluster, set of weights and knowledge of hosts."""

    view: GroupView
    cluster: SettledCluster
    weights: Weights | None
    hosts: object
    situation: Situation
    reason: Reason | None = None
    """Why the policy last decided as it did."""


class Judge:
    """Judges one group."""

    def __init__(
        self,
        *,
        settings: Settings,
        watch: ClusterWatch,
        assigning: Assigning,
        hosts: Hosts,
        clock: Callable[[], float],
    ) -> None:
        """A judge with a full budget.

        Args:
            settings: All settings.
            watch: Where settled clusters come from.
            assigning: What is known for planning the group, and the last plan sent.
            hosts: What others know of client hosts.
            clock: Seconds, monotonic.
        """
        self._settings = settings
        self._watch = watch
        self._assigning = assigning
        self._hosts = hosts
        self._clock = clock
        policy = settings.policy
        self._rules = Rules(least_saving=policy.least_saving, burst=policy.burst, refill_seconds=policy.refill_seconds)
        self._budget: Budget = full(self._rules, clock())
        self._evaluation: Evaluation | None = None
        self._rounds = 0

    @property
    def situation(self) -> Situation | None:
        """What was last worked out, unless it is forgotten."""
        return self._evaluation.situation if self._evaluation is not None else None

    @property
    def tokens(self) -> float:
        """What is left of the budget."""
        return self._budget.tokens

    def forget(self) -> None:
        """What was worked out is of the past."""
        self._evaluation = None

    def planned(self, sent: Sent) -> None:
        """A plan went to the group."""
        self._rounds = self._rounds + 1 if sent.plan.withheld else 0

    def decide(self, evaluation: Evaluation) -> tuple[Decision, bool]:
        """What to do about the group that the agent leads, and whether that is another answer than the last one."""
        self._budget, decision = decide(self._budget, evaluation.situation, self._clock(), self._rules)
        news = decision.reason is not evaluation.reason
        evaluation.reason = decision.reason
        return decision, news

    def evaluate(self, view: GroupView, *, leading: bool) -> tuple[Evaluation | None, bool]:
        """The situation of a stable group, None while its topics are not known; and whether it was worked out anew."""
        cluster, weights, hosts = self._watch.cluster, self._assigning.weights(), self._hosts.version()
        last = self._evaluation
        if (
            last is not None
            and last.view is view
            and last.cluster is cluster
            and last.weights is weights
            and last.hosts == hosts
        ):
            return last, False
        members = planner.members_of_view(view, self._settings.racks, self._hosts)
        topics = topics_of(member.subscription for member in members)
        if not topics & cluster.topics.keys():
            return None, False
        mode = self._assigning.mode(view.protocol)
        problem = planner.problem_of(members, cluster, mode, weights=weights)
        plan = planner.make_plan(problem, mode)
        sent = self._assigning.sent if leading else None
        self._evaluation = Evaluation(
            view=view,
            cluster=cluster,
            weights=weights,
            hosts=hosts,
            situation=Situation(
                present=plan.before,
                possible=plan.after,
                partitions_changed=planner.partitions_changed(problem, members, cluster),
                withheld=sent.plan.withheld if sent is not None else 0,
                rounds=self._rounds,
                racks_changed=sent is None
                or any(replica_racks(sent.cluster, topic) != replica_racks(cluster, topic) for topic in topics),
                traffic_changed=sent is not None and sent.weights != weights,
            ),
        )
        return self._evaluation, True
