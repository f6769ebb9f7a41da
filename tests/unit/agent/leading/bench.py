"""An evaluator of rebalances whose cluster, clock and measurements a test controls, without behaviour of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from samerack.agent.leading.assigning import Assigning, Weigh, unweighed
from samerack.agent.leading.rebalance_evaluator import Evaluation, RebalanceEvaluator
from samerack.agent.policy import Decision
from samerack.agent.policy.measured import UNMEASURED, Measured
from samerack.cluster.group import GroupView
from samerack.cluster.racks import NO_HOSTS
from samerack.cluster.view import SettledCluster
from samerack.protocol.values import from_pairs
from samerack.settings.all_settings import Settings
from samerack.settings.leading import LeadingSettings
from samerack.settings.policy import PolicySettings
from tests.unit.agent.leading.policies import MIDNIGHT
from tests.unit.agent.values import RACKS, cluster, group, member

FAR = cluster(RACKS, t=[[2], [1], [1], [2]])
"""Member a in rack a has partitions 0 and 1, b in rack b has 2 and 3: half of them are far."""
NEAR = cluster(RACKS, t=[[1], [1], [2], [2]])
VIEW = group(
    member("m-a", "t", rack="a", assigned=from_pairs([("t", 0), ("t", 1)])),
    member("m-b", "t", rack="b", assigned=from_pairs([("t", 2), ("t", 3)])),
)


@dataclass(kw_only=True)
class Bench:
    """An evaluator with an environment that the test controls."""

    policy: Mapping[str, Any] = field(default_factory=dict)
    leading: Mapping[str, Any] = field(default_factory=dict)
    measured: Measured = UNMEASURED
    weigh: Weigh = unweighed
    recent: Callable[[float], Iterable[float]] = lambda _since: ()
    pauses: Callable[[float], Sequence[float]] = lambda _since: ()
    now: float = 1000.0
    cluster: SettledCluster = FAR
    watch: Any = field(init=False)
    assigning: Assigning = field(init=False)
    evaluator: RebalanceEvaluator = field(init=False)

    def __post_init__(self) -> None:
        settings = Settings(
            kafka={"bootstrap.servers": "h:1"},
            policy=PolicySettings.model_validate(self.policy),
            leading=LeadingSettings.model_validate(self.leading),
        )
        self.watch = SimpleNamespace(cluster=self.cluster, rack_aware_fetch=True, unknown=self._unknown)
        self.assigning = Assigning(group="orders-eu", settings=settings, watch=self.watch, weigh=self.weigh)
        self.evaluator = RebalanceEvaluator(
            settings=settings,
            watch=self.watch,
            assigning=self.assigning,
            hosts=NO_HOSTS,
            clock=lambda: self.now,
            group="orders-eu",
            wall=lambda: MIDNIGHT + self.now,
            measured=self.measured,
            recent=self.recent,
            pauses=self.pauses,
        )

    def _unknown(self, topics: AbstractSet[str], _owned: AbstractSet[str]) -> frozenset[str]:
        return frozenset(topics - self.watch.cluster.topics.keys())

    def evaluation(self, view: GroupView = VIEW, *, generation: int = 1) -> Evaluation:
        """The evaluation of a stable group that the agent leads."""
        evaluation, _ = self.evaluator.evaluate(view, leading=True, generation=generation)
        assert evaluation is not None
        return evaluation

    def decide(self, view: GroupView = VIEW) -> tuple[Decision, bool]:
        """The decision on the group as it is."""
        return self.evaluator.decide(self.evaluation(view))
