"""Each rebalance of a watched group gives one event with its cause; a restart keeps all events.

A member counts generations itself; the tests do not rely on the agent's count of rebalances.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import Consumer
from kafka import KafkaConsumer

from lab.sandbox.admin import wait_until
from lab.sandbox.agent_process import AgentProcess
from lab.sandbox.commands import samerack_json
from lab.sandbox.members.process import Member
from lab.sandbox.settings import free_ports
from tests.integration.scenario import INTERLEAVED, A, B, C, Scenario

_SESSION: Final = {"session_timeout_ms": "10000"}
"""Members commit every second, so a member that is silent this long stands out, on a busy machine too."""


def _listed(agent: AgentProcess, group: str) -> list[dict[str, Any]]:
    """The rebalance events of a group at the agent, the oldest first."""
    events: list[dict[str, Any]] = agent.json(f"/v1/events?group={group}&kind=rebalance")["events"]
    return events[::-1]


def _rates(agent: AgentProcess, group: str) -> dict[float, float]:
    """The known rates of a group's history by time; empty while the agent has not seen the group."""
    points = agent.json(f"/v1/history?group={group}").get("points", ())
    return {point["at"]: point["bytes_per_second"] for point in points if point["bytes_per_second"] is not None}


class Story:
    """Runs steps on a group, and checks the agent's event for each step."""

    def __init__(self, scenario: Scenario, agent: AgentProcess) -> None:
        self._scenario = scenario
        self._agent = agent
        self._known = len(_listed(agent, scenario.group))

    def step(self, act: Callable[[], object], cause: str) -> dict[str, Any]:
        """Run one step; return the agent's first event with this cause, once the group has settled.

        Other rebalances may come with it: members that join one after the other, or that rejoin late.
        """
        before = self._known

        def found() -> list[dict[str, Any]]:
            return [event for event in _listed(self._agent, self._scenario.group)[before:] if event["cause"] == cause]

        act()
        self._agent.wait(lambda: bool(found()), f"the agent reports {cause}")
        self._scenario.wait_settled()
        self._known = len(_listed(self._agent, self._scenario.group))
        return found()[0]

    def end(self, member: Member, *, kill: bool = False) -> None:
        """End a member, cleanly or with SIGKILL."""
        self._scenario.leave(next(one for one in self._scenario.participants if one.member is member), kill=kill)


@contextmanager
def _member(scenario: Scenario, client_id: str) -> Iterator[KafkaConsumer]:
    """A member in this process, which makes progress only in its polls."""
    consumer = KafkaConsumer(
        scenario.topic,
        bootstrap_servers=scenario.cluster.bootstrap.split(","),
        group_id=scenario.group,
        client_id=client_id,
        heartbeat_interval_ms=200,
        metadata_max_age_ms=1000,
    )
    yield consumer
    consumer.close()


def _pass_through(scenario: Scenario) -> None:
    """A member joins the group, and leaves it as soon as it has partitions."""
    with _member(scenario, "passing") as passing:

        def assigned() -> bool:
            passing.poll(timeout_ms=300)
            return bool(passing.assignment())

        wait_until(assigned, "the passing member has partitions")


def _published(scenario: Scenario, topic: str, count: int) -> list[dict[str, Any]]:
    """At least `count` rebalance events of a topic, without duplicates, by time."""
    found: dict[str, dict[str, Any]] = {}
    reader = Consumer(
        {
            "bootstrap.servers": scenario.cluster.bootstrap,
            "group.id": f"{topic}-reader",
            "auto.offset.reset": "earliest",
        }
    )
    reader.subscribe([topic])

    def is_complete() -> bool:
        for message in reader.consume(100, timeout=0.5):
            if message.error() is None:
                record = json.loads(message.value() or b"")
                if record["kind"] == "rebalance":
                    found[record["event"]] = record
        return len(found) >= count

    try:
        wait_until(is_complete, f"{count} rebalances are in {topic}")
    finally:
        reader.close()
    return sorted(found.values(), key=lambda record: int(record["at"]))


def _generations(member: Member) -> set[int]:
    """The generations that a member reports."""
    return {event.generation for event in member.events if event.generation > 0}


@pytest.mark.promise("Each rebalance of a led group is one event with its cause, and a restart keeps all events.")
def test_each_generation_of_a_led_group_is_reported_with_its_cause(scenario: Scenario, tmp_path: Path) -> None:
    """Members join, leave and die, replicas and topics change: one event per generation, and a restart keeps them."""
    scenario.lay_out(INTERLEAVED)
    happened = f"{scenario.topic}-events"
    scenario.admin.create_topic(happened, [[1]])
    (port,) = free_ports(1)  # its successor must listen on the same one
    agent = scenario.waiting_agent(
        web__port=port,
        events__path=str(tmp_path / "events.db"),
        events__topic=happened,
        traffic__poll_seconds=0.5,
        traffic__history_step_seconds=1,
    )
    scenario.join("kafka-python", A, **_SESSION)
    scenario.wait_led(agent)
    counting = scenario.participants[0].member
    story = Story(scenario, agent)

    second: list[Member] = []
    event = story.step(lambda: second.append(scenario.join("kafka-python", B, **_SESSION)), "member-joined")
    assert event["joined"] == [scenario.participants[-1].settings.client_id]
    assert (event["members"], event["partitions"], event["assignor"]) == (2, 6, "optimal")
    assert 0 < event["pause_seconds"] <= event["seconds"]
    third: list[Member] = []
    story.step(lambda: third.append(scenario.join("confluent", C, **_SESSION)), "member-joined")
    moved = story.step(scenario.swap, "agent")
    assert (moved["reason"], moved["moved"]) == ("racks-changed", 2)
    assert moved["share_before"] > moved["share_after"] == 0.0
    left = story.step(lambda: story.end(second[0]), "member-left")
    assert len(left["left"]) == 1
    story.step(lambda: story.end(third[0], kill=True), "session-expired")
    added = story.step(lambda: scenario.admin.add_partitions(scenario.topic, [[1], [2]]), "agent")
    assert (added["reason"], added["partitions"]) == ("partitions-changed", 8)
    story.step(lambda: _pass_through(scenario), "member-joined")

    events = _listed(agent, scenario.group)
    generations = [event["generation"] for event in events]
    # each generation has one event, or is counted as missed by the next one
    assert [after["generation"] - before["generation"] for before, after in pairwise(events)] == [
        1 + event["missed"] for event in events[1:]
    ]
    # no member has an assignment of a generation that another replaced before it was complete
    overtaken = {event["generation"] for event in events if "the next rebalance began" in event["detail"]}
    assert set(generations) - overtaken <= _generations(counting)

    assert [record["generation"] for record in _published(scenario, happened, len(generations))] == generations

    *written, _ = _rates(agent, scenario.group).items()
    assert {mark["kind"] for mark in agent.json(f"/v1/history?group={scenario.group}")["marks"]} == {
        "rebalance",
        "plan",
    }
    agent.worker().kill()
    agent.wait(lambda: len(agent.events("events-stored")) == 2 and agent.role() == "leading", "its successor leads")
    assert [event["generation"] for event in _listed(agent, scenario.group)] == generations
    former = dict(written[-60:])
    agent.wait(lambda: _rates(agent, scenario.group).keys() >= former.keys(), "its successor has the history")
    known = _rates(agent, scenario.group)
    assert {at: known[at] for at in former} == pytest.approx(former, rel=1e-3)
    (replaced,) = agent.json("/v1/events?kind=worker")["events"]
    assert (replaced["action"], replaced["reason"]) == ("replaced", "exit code -9")
    shown = samerack_json("events", scenario.group, "--store", str(tmp_path / "events.db"), "--json")
    assert {event["generation"] for event in shown["events"]} >= set(generations)
