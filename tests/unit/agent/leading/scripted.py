"""The agent's thread for one group, on a scripted broker."""

from __future__ import annotations

import gc
import warnings
from types import SimpleNamespace
from typing import Any, cast

from samerack.agent.leading.group_memory import GroupMemory
from samerack.agent.leading.group_reporter import GroupReporter
from samerack.agent.leading.leader import GroupLeader
from samerack.agent.leading.parts import build_group_parts
from samerack.agent.leading.rebalance_evaluator import RebalanceEvaluator
from samerack.agent.metrics import Metrics
from samerack.agent.policy import Breaker
from samerack.auth.kafka_config import for_kafka_python
from samerack.cluster.client import SharedClient
from samerack.cluster.group_poller import GroupPoller
from samerack.cluster.racks import NO_HOSTS
from samerack.cluster.view import SettledCluster, SettlingTimes
from samerack.cluster.watch import ClusterWatch
from samerack.cluster.wire import BrokerClient
from samerack.common.shared_threads import SharedThreads
from samerack.events import EventLog
from samerack.settings.all_settings import Settings
from tests.unit.cluster.scripted_broker import TOPIC, ScriptedBroker


def leader_of(broker: ScriptedBroker, group: str, metrics: Metrics, **given: Any) -> GroupLeader:
    """The agent's thread for one group of that broker, with more of what a leader is given."""
    settings = Settings.model_validate({"kafka": {"bootstrap.servers": broker.address}})
    watch = ClusterWatch(  # not started: as if the group's topic did not exist, so that nothing is planned
        BrokerClient(for_kafka_python(settings.kafka)),
        pause=1.0,
        times=SettlingTimes(change=1.0, leader=1.0),
        selector="auto",
        metrics=metrics,
    )
    watch._absent = frozenset({TOPIC})
    poller = GroupPoller(BrokerClient(for_kafka_python(settings.kafka)), seconds=0.2)
    poller.start()
    client = SharedClient(for_kafka_python(settings.kafka))

    def close() -> None:
        poller.stop()
        client.close()

    broker.on_close = close
    parts = build_group_parts(
        group=group,
        settings=settings,
        watch=watch,
        foreign_protocols=GroupMemory(None, name="protocols"),
        evicted=GroupMemory(None, name="evicted"),
        group_type=lambda _group: "classic",
        metrics=metrics,
        events=EventLog(),
    )
    return GroupLeader(parts, threads=SharedThreads(group), client=client, poller=poller, **given)


def evaluator_of(cluster: SettledCluster | None = None) -> RebalanceEvaluator:
    """Replaces the evaluator of a group about which nothing was decided."""
    evaluator: Any = SimpleNamespace(
        watch=SimpleNamespace(cluster=cluster),
        hosts=NO_HOSTS,
        condition=None,
        mode="act",
        decision=None,
        tokens=3.0,
        breaker=Breaker(),
        saved_bytes_per_second=None,
        saved_dollars_per_day=None,
    )
    return cast(RebalanceEvaluator, evaluator)


def reporter_of(
    *, metrics: Metrics | None = None, events: EventLog | None = None, cluster: SettledCluster | None = None
) -> GroupReporter:
    """The reporter of a group that no broker has."""
    settings = Settings(kafka={"bootstrap.servers": "h:1"}, groups=("orders",))
    return GroupReporter(
        group="orders",
        settings=settings,
        evaluator=evaluator_of(cluster),
        metrics=metrics or Metrics(),
        events=EventLog() if events is None else events,
    )


def clear_away() -> None:
    """Free the sockets of clients that were closed while they connected: kafka-python does not close them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()
