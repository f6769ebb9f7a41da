"""An agent that leads one group and observes another on a real Kafka, for tests and documentation of monitoring."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from sandbox.admin import Admin
from sandbox.agent_process import AgentProcess
from sandbox.cluster import Cluster
from sandbox.contract import KafkaCluster
from sandbox.feeder import Feeder
from sandbox.members.lines import MemberSettings
from sandbox.members.process import Member

LED: Final = "orders"
OBSERVED: Final = "reports"
_PLACED: Final = {LED: ((1,), (2,), (3,), (1,), (2,), (3,)), OBSERVED: ((2,), (3,), (1,), (2,), (3,), (1,))}
"""Topics, named like their groups; roundrobin gives partition n to member n: the observed group reads all across."""

_PUBLISHED: Final = {"publishing.traffic_topic": "samerack-traffic", "publishing.states_topic": "samerack-states"}


@contextmanager
def monitored(folder: Path) -> Iterator[AgentProcess]:
    """The agent, once both groups are measured; it leads one from its start and knows the racks of the other."""
    with ExitStack() as stack:
        cluster = stack.enter_context(Cluster())
        admin = stack.enter_context(Admin(cluster.bootstrap))
        for topic, replicas in _PLACED.items():
            admin.create_topic(topic, replicas)
        for topic in _PUBLISHED.values():
            admin.create_topic(topic, [[1, 2, 3]])
        counts = {topic: len(replicas) for topic, replicas in _PLACED.items()}
        stack.enter_context(Feeder(cluster.bootstrap, counts, pause=0.02))
        settings = {
            **_PUBLISHED,
            "publishing.every_seconds": 5,
            "traffic.groups": list(_PLACED),
            "traffic.poll_seconds": 1,
            "traffic.window_seconds": 10,
            "racks.client_ids": {f"*-rack-{letter}": f"rack-{letter}" for letter in "abc"},
        }
        agent = stack.enter_context(
            AgentProcess(cluster.bootstrap, groups=[LED], log=folder / "agent.log", settings=settings)
        )
        agent.wait_role("waiting")
        for group in (LED, OBSERVED):
            for rack in ("rack-b", "rack-c", "rack-a"):
                stack.enter_context(_member(cluster, group, rack))
        agent.wait(
            lambda: (agent.metric("samerack_cross_rack_ratio", group=OBSERVED) or 0) > 0.9, "traffic is measured"
        )
        agent.wait(lambda: agent.metric("samerack_cross_rack_ratio", group=LED) == 0, "the led group reads near")
        agent.wait(
            lambda: agent.metric("samerack_possible_saving_dollars_per_day", group=LED) is not None,
            "what a rebalance would save is known",
        )
        yield agent


def _member(cluster: KafkaCluster, group: str, rack: str) -> Member:
    """Starts a member without a rack: so the led group's own assignment is known from its start."""
    settings = MemberSettings(
        bootstrap=cluster.bootstrap,
        group=group,
        topics=(group,),
        client_id=f"{group}-{rack}",
        assignors=("roundrobin",) if group == OBSERVED else ("range",),
        properties={"auto.commit.interval.ms": "500"},
    )
    return Member.python("confluent", settings)
