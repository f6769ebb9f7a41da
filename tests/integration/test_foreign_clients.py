"""The agent with groups on clients of other languages."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import pytest

from lab.sandbox.admin import Admin, wait_until
from lab.sandbox.agent_process import AgentProcess
from lab.sandbox.chaos.group import Group
from lab.sandbox.chaos.setup import Setup
from lab.sandbox.clients.initial_rebalances import (
    ANY_TIME,
    NAMES,
    WRONG,
    first_generation,
    run_initial_rebalances,
    waiting_agent,
)
from lab.sandbox.clients.results import SLACK_SECONDS, Variant
from lab.sandbox.clients.scenario_group import PLACED
from lab.sandbox.contract import KafkaCluster
from lab.sandbox.group_client import AGENT
from lab.sandbox.history.checker import check
from lab.sandbox.jvm import cache_folder
from lab.sandbox.members.ledger import read_twice
from tests.integration.scenario import INTERLEAVED, C, Scenario

pytestmark = pytest.mark.alone
_SETTLE_SECONDS = 60.0
_EMPTY_SECONDS = 5.0
_CLIENTS = ("java-3.4", "java-2.8", "franz-go", "sarama", "kafka-go", "kafkajs")


@pytest.fixture
def groups(cluster: KafkaCluster, admin: Admin, tmp_path: Path) -> Iterator[list[Group]]:
    """A group of three members for each client, with its defaults; not started."""
    suffix = tmp_path.name
    setups = [
        Setup(
            name=f"short-{client}-{suffix}",
            assignor="",
            members=tuple((client, rack) for rack in NAMES),
            extra=(client, NAMES[0]),
            placed=PLACED,
            properties={},
        )
        for client in _CLIENTS
    ]
    made = [Group(one, bootstrap=cluster.bootstrap, admin=admin, folder=tmp_path / one.name) for one in setups]
    yield made
    for group in made:
        if admin.replicas([group.name]):
            admin.delete_topic(group.name)


def _settle(group: Group, agent: AgentProcess) -> None:
    agent.wait_role("leading", group.name)
    wait_until(group.agrees, f"{group.name} has settled", timeout=_SETTLE_SECONDS)


def _first_generation(group: Group) -> int:
    return first_generation(chain.from_iterable(member.events for member in group.present.values()))


def test_groups_of_every_language_are_led_from_the_first_generation_and_left_with_the_last_consumer(
    cluster: KafkaCluster, groups: list[Group], tmp_path: Path
) -> None:
    """The short form of scripts/clients: led from the first generation, empty after all stop, led after a restart.

    One group after another: so many clients at once would need more than two cores.
    """
    names = [group.name for group in groups]
    log = tmp_path / "agent.log"
    with waiting_agent(cluster.bootstrap, names, log, f"samerack-{tmp_path.name}") as agent:
        for group in groups:
            with group:
                _settle(group, agent)
                assert agent.events("plan-sent", group=group.name)[0]["generation"] == _first_generation(group)
                for spec in list(group.present):
                    group.end(spec)
                group.wait_state(["EMPTY"], "its last consumer has gone", timeout=_EMPTY_SECONDS)
                agent.wait_role("waiting", group.name)
                for spec in group.specs:
                    group.start(spec)
                _settle(group, agent)
                assert [one.client_id for one in group.describe().members].count(AGENT) == 1
                history = group.finish()
                assert [finding for finding in check(history, ANY_TIME) if finding.kind in WRONG] == []
                assert read_twice(chain.from_iterable(history.members.values())) == 0


def test_members_that_join_again_late_have_their_partitions_as_soon_as_without_an_agent(
    cluster: KafkaCluster, admin: Admin, tmp_path: Path
) -> None:
    """A librdkafka before 2.16 comes back three seconds after its start: of three evicted, two came too late."""
    rebalances = run_initial_rebalances(
        Variant(client="confluent-2.13"),
        members=len(NAMES),
        tries=4,
        at_once=1,
        bootstrap=cluster.bootstrap,
        admin=admin,
        folder=tmp_path,
    )
    assert rebalances.led == rebalances.tries
    assert rebalances.with_seconds <= rebalances.without_seconds + SLACK_SECONDS
    assert rebalances.findings == ()


@pytest.fixture
def samsa(scenario: Scenario, tmp_path: Path) -> Iterator[Callable[[str], Samsa]]:
    """Starts members on samsa by name; an error of JoinGroup ends them."""
    program = cache_folder() / "clients" / "rust" / "samsa"
    if not program.exists():
        pytest.skip("there is no Rust 1.85 or newer to build samsa's member with")
    started: list[Samsa] = []

    def start(name: str) -> Samsa:
        log = tmp_path / f"{name}-{len(started)}.log"
        given = (scenario.cluster.bootstrap.split(",")[0], scenario.group, scenario.topic, str(len(INTERLEAVED)), name)
        with log.open("wb") as file:
            process = subprocess.Popen([program, *given], stdout=file, stderr=subprocess.STDOUT)
        started.append(Samsa(process, log))
        return started[-1]

    yield start
    for one in started:
        one.process.kill()
        one.process.wait()


@dataclass(frozen=True)
class Samsa:
    """A running member on samsa."""

    process: subprocess.Popen[bytes]
    log: Path

    @property
    def has_ended(self) -> bool:
        """Whether an error of JoinGroup has ended it."""
        return self.process.poll() is not None

    @property
    def reads(self) -> bool:
        """Whether it runs and has read a record."""
        return not self.has_ended and b"read" in self.log.read_bytes()


def test_members_of_samsa_are_evicted_once_and_then_read(scenario: Scenario, samsa: Callable[[str], Samsa]) -> None:
    """Evicted they end; started again as by Kubernetes, and at their next birth, they read whatever the agent does."""
    scenario.lay_out(INTERLEAVED)
    agent = scenario.waiting_agent()
    members = {name: samsa(name) for name in ("samsa-a", "samsa-b", "samsa-c")}
    agent.wait(lambda: bool(agent.events("eviction-fatal")), "the agent has seen that they do not come back")
    evicted = len(agent.events("evicted-while-forming"))
    members |= {name: samsa(name) for name, one in members.items() if one.has_ended}
    wait_until(lambda: all(one.reads for one in members.values()), "all read", timeout=_SETTLE_SECONDS)
    for one in members.values():
        one.process.kill()
    agent.wait_role("waiting")
    again = [samsa(name) for name in members]
    wait_until(lambda: all(one.reads for one in again), "all read at their next birth", timeout=_SETTLE_SECONDS)
    assert len(agent.events("evicted-while-forming")) == evicted
    assert f"samerack resume {scenario.group}" in agent.get("/readyz")[1]


@pytest.mark.parametrize("client", ["sarama", "java", "kafka-python", "aiokafka"])
def test_sticky_members_keep_their_partitions_when_the_agent_has_gone(scenario: Scenario, client: str) -> None:
    """Their own leader knows what they owned: of sarama's, 17 to 19 of 24 partitions moved."""
    scenario.lay_out(INTERLEAVED * 4)
    agent = scenario.waiting_agent()
    scenario.join_each(client, client, client, assignor="sticky")
    scenario.wait_led(agent, cross_rack=0)
    owned = scenario.owned()
    agent.stop()
    assert scenario.agent_member() is None
    scenario.wait_settled()
    assert scenario.owned() == owned
    scenario.finish()


def test_members_of_platformatic_share_evenly_as_the_agent_leaves_their_group(scenario: Scenario) -> None:
    """Their leader counts the agent, which has no topics: 5, 4 and 3 of 12 partitions as long as it followed."""
    scenario.lay_out(INTERLEAVED * 2)
    scenario.join_each("platformatic", "platformatic", assignor="cooperative-sticky")
    scenario.wait_settled()
    agent = scenario.agent()
    agent.wait_role("following")
    scenario.join("platformatic", C, assignor="cooperative-sticky")
    agent.wait_role("observing")
    assert [event["cause"] for event in agent.events("backs-off")] == ["assigned-without-topics"]
    scenario.wait_settled()
    assert [len(partitions) for partitions in scenario.owned().values()] == [4, 4, 4]
