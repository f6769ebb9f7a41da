"""An agent that leads one group and observes another on a real Kafka, for tests and documentation of monitoring."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final
from urllib.request import Request, urlopen

from lab.sandbox.admin import Admin
from lab.sandbox.agent_process import AgentProcess
from lab.sandbox.cluster import Cluster
from lab.sandbox.feeder import Feeder
from lab.sandbox.members.lines import MemberSettings
from lab.sandbox.members.process import Member
from tests.parity.streams_cases import random_case
from tests.streams_http import question_of

LED: Final = "orders"
OBSERVED: Final = "reports"
ABSENT: Final = "ledger"
"""A group to lead that does not exist, so that a reason is shown."""
STREAMS: Final = "payments"
_PLACED: Final = {LED: ((1,), (2,), (3,), (1,), (2,), (3,)), OBSERVED: ((2,), (3,), (1,), (2,), (3,), (1,))}
"""Topics, named like their groups; roundrobin gives partition n to member n: the observed group reads all across."""

_PUBLISHED: Final = {"publishing.traffic_topic": "samerack-traffic", "publishing.states_topic": "samerack-states"}


@contextmanager
def monitored(folder: Path, more: Mapping[str, object] | None = None) -> Iterator[AgentProcess]:
    """The agent, with more settings, once both groups are measured and a Kafka Streams application has a plan.

    It leads one group from its start, and knows the racks of the other. Its log is in the folder.
    """
    with ExitStack() as stack:
        cluster = stack.enter_context(Cluster())
        admin = stack.enter_context(Admin(cluster.bootstrap))
        for topic, replicas in _PLACED.items():
            admin.create_topic(topic, replicas)
        for topic in _PUBLISHED.values():
            admin.create_topic(topic, [[1, 2, 3]])
        counts = {topic: len(replicas) for topic, replicas in _PLACED.items()}
        stack.enter_context(Feeder(cluster.bootstrap, counts, pause=0.1))
        settings = {
            **_PUBLISHED,
            "publishing.every_seconds": 5,
            "traffic.groups": ["*"],
            "traffic.poll_seconds": 1,
            "traffic.window_seconds": 10,
            "streams.deadline_seconds": 30,
            "leading.members": [{"match": "*", "max_partitions": 100}],
            "racks.client_ids": {f"*-rack-{zone}": f"rack-{zone}" for zone in "abc"},
            **(more or {}),
        }
        agent = stack.enter_context(
            AgentProcess(cluster.bootstrap, groups=[LED, ABSENT], log=folder / "agent.log", settings=settings)
        )
        agent.wait_role("waiting")
        for group in (LED, OBSERVED):
            for rack in ("rack-b", "rack-c", "rack-a"):
                stack.enter_context(member(cluster.bootstrap, group, rack))
        agent.wait(
            lambda: (agent.metric("samerack_cross_rack_ratio", group=OBSERVED) or 0) > 0.9, "traffic is measured"
        )
        agent.wait(lambda: agent.metric("samerack_cross_rack_ratio", group=LED) == 0, "the led group reads near")
        agent.wait(
            lambda: agent.metric("samerack_possible_saving_dollars_per_day", group=LED) is not None,
            "what a rebalance would save is known",
        )
        agent.wait(lambda: 'samerack_group_reason{group="ledger"' in agent.get("/metrics")[1], "a reason is shown")
        agent.wait(
            lambda: "samerack_replication_dollars_total{" in agent.get("/metrics")[1], "the whole bill is measured"
        )
        agent.wait(
            lambda: "samerack_not_counted_records_total{" in agent.get("/metrics")[1],
            "what members read before their first commits is named",
        )
        _ask_for_a_streams_plan(agent)
        yield agent


def _ask_for_a_streams_plan(agent: AgentProcess) -> None:
    """Have a Streams application report that a plan was rejected, and ask the agent for the next one."""
    case = random_case(2, "ha")
    rejected = {"version": 1, "application": STREAMS, "plan": "x", "error": "MISSING_PROCESS_ID"}
    for path, body in (("computed", rejected), (f"assign?application={STREAMS}", question_of(case, STREAMS))):
        asked = Request(  # noqa: S310 - the agent's own address
            f"{agent.url}/v1/streams/{path}", json.dumps(body).encode(), {"content-type": "application/json"}
        )
        with urlopen(asked, timeout=30) as answer:  # noqa: S310 - see above
            answer.read()


def member(bootstrap: str, group: str, rack: str) -> Member:
    """Start a member without a rack: so the led group's own assignment is known from its start."""
    settings = MemberSettings(
        bootstrap=bootstrap,
        group=group,
        topics=(group,),
        client_id=f"{group}-{rack}",
        assignors=("roundrobin",) if group == OBSERVED else ("range",),
        properties={"auto.commit.interval.ms": "500"},
    )
    return Member.on("confluent", settings)
