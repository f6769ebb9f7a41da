"""Kafka Streams applications that are in `groups` by mistake start and work as without an agent."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest

from lab.sandbox.agent_process import AgentProcess
from lab.sandbox.jvm import BROKER_VERSION
from lab.sandbox.members.lines import MemberSettings
from lab.sandbox.members.process import Member
from lab.sandbox.streams import runs
from tests.integration.guest import wait_only_agent, wait_watching
from tests.integration.scenario import A, B, Scenario, holds_for

_PLACES: Final = ((1,), (1,), (1,), (1,))


class Application:
    """Two instances of an application with state behind a repartition topic."""

    def __init__(self, scenario: Scenario, folder: Path, *, protocol: str) -> None:
        self.members: list[Member] = []
        # in the classic API, a group that brokers assign has no members: to the agent it is empty
        self.role_of_agent = {"classic": "observing", "streams": "waiting"}[protocol]
        self._scenario = scenario
        self._folder = folder
        self._protocol = protocol
        self._stack = ExitStack()

    def start(self) -> None:
        """Start both instances, and wait until they are running and the count of each partition grows."""
        before = self.counts()
        self.members = []
        for name, rack in (("one", A), ("two", B)):
            properties = {
                "group.protocol": self._protocol,
                "state.dir": str(self._folder / name),
                "counts": "true",
                "commit.interval.ms": "500",
                "num.stream.threads": "1",
                # an instance that closes stays a member until its session expires
                **({"session.timeout.ms": "6000"} if self._protocol == "classic" else {}),
            }
            settings = MemberSettings(
                bootstrap=self._scenario.cluster.bootstrap,
                group=self._scenario.group,
                topics=(self._scenario.topic,),
                client_id=f"streams-{name}",
                rack=rack,
                properties=properties,
            )
            self.members.append(self._stack.enter_context(Member.on("java-streams", settings)))
        for member in self.members:
            member.wait(lambda: self._works(before), "the application counts")
        assert [event.message for member in self.members for event in member.events if event.kind == "error"] == []

    def stop(self) -> None:
        """Stop both instances cleanly."""
        for member in self.members:
            member.stop()

    def counts(self) -> dict[str, int]:
        """The count of each partition."""
        found: dict[str, int] = {}
        for member in self.members:
            for event in member.events:
                if event.kind == "counted":
                    found[event.message] = max(event.count, found.get(event.message, 0))
        return found

    def _works(self, before: dict[str, int]) -> bool:
        now = self.counts()
        return (
            all(map(runs, self.members))
            and len(now) == len(_PLACES)
            and all(now[name] > before.get(name, 0) for name in now)
        )

    def close(self) -> None:
        """End all instances that still run."""
        self._stack.close()


@pytest.fixture
def application(request: pytest.FixtureRequest, scenario: Scenario, tmp_path: Path) -> Iterator[Application]:
    """An application of the classic protocol, and one that brokers assign (KIP-1071); not started."""
    if request.param == "streams" and BROKER_VERSION.startswith("3."):
        pytest.skip("brokers assign no Streams groups before Kafka 4")
    opened = Application(scenario, tmp_path, protocol=request.param)
    scenario.lay_out(_PLACES)
    yield opened
    opened.close()


def _is_left_alone(scenario: Scenario, agent: AgentProcess) -> bool:
    """Whether the agent stays out of the group and logs little: it does not repeat refused requests again and again."""
    before = len(agent.events())
    return holds_for(3.0, lambda: scenario.agent_member() is None) and len(agent.events()) - before < 10


@pytest.mark.parametrize("application", ["classic", "streams"], indirect=True)
def test_an_application_starts_where_an_agent_waits(scenario: Scenario, application: Application) -> None:
    """An agent that runs before the application stays out of its group, and does not log advice to let it in."""
    agent = scenario.agent()
    wait_watching(agent)
    application.start()
    assert _is_left_alone(scenario, agent)
    agent.wait_role(application.role_of_agent)
    assert [event for event in agent.events() if "add that name" in str(event)] == []


@pytest.mark.parametrize(
    "application",
    [
        pytest.param(
            "classic",
            marks=pytest.mark.promise(
                "A Kafka Streams application that is a group to lead by mistake restarts as without an agent."
            ),
        ),
        "streams",
    ],
    indirect=True,
)
def test_an_application_is_stopped_and_started_as_a_whole(scenario: Scenario, application: Application) -> None:
    """In a full restart, as for KIP-925's upgrade, an agent with the group by mistake does not join in between."""
    application.start()
    agent = scenario.agent()
    wait_watching(agent)
    agent.wait_role(application.role_of_agent)
    application.stop()
    wait_only_agent(scenario)
    entered = not holds_for(3.0, lambda: scenario.agent_member() is None)
    application.start()
    assert not entered
    assert _is_left_alone(scenario, agent)
