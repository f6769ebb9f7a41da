"""The publishing thread: records of the board's publications, settings, and the documents that describe them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from samerack.agent.publishing import publisher as publisher_module
from samerack.agent.publishing import topics
from samerack.agent.publishing.metrics import PublishingMetrics
from samerack.agent.publishing.publisher import Publisher
from samerack.common.errors import SettingsError
from samerack.common.records import GroupEvent, GroupState, TrafficSample
from samerack.common.settings import Settings, load
from samerack.events import EventLog
from samerack.traffic.board import TrafficBoard
from tests.unit.agent.measured import A, B, flow, group, publish, snapshot

FLAGS: dict[str, Any] = {"kafka": {"bootstrap.servers": "127.0.0.1:1"}, "groups": ["orders"]}
TOPICS = {"traffic_topic": "samples", "states_topic": "states"}


def settings(**publishing: Any) -> Settings:
    """Settings of an agent that publishes."""
    return load(flags={**FLAGS, "publishing": {**TOPICS, **publishing}}, environment={})


def publisher(given: Settings, *, cluster_id: str = "id-of-cluster") -> Publisher:
    """A publisher that is not started."""
    return Publisher(
        given,
        metrics=PublishingMetrics(CollectorRegistry(), given.publishing.topics),
        roles=lambda: {"orders": "leading"},
        mine=lambda group: group == "orders",
        cluster_id=lambda: cluster_id,
        election=lambda: "samerack",
    )


def written(one: Publisher) -> list[dict[str, Any]]:
    """The records that wait in the outbox."""
    return [json.loads(letter.value) for letter in one._outbox.empty()]


def told(one: Publisher, *, looks: int = 1) -> None:
    """Publish a minute of one group this many times."""
    board = TrafficBoard()
    board.listen(one._write)
    for _ in range(looks):
        publish(board, snapshot(group(flows=[flow(A, B, 5_000), flow(A, A, 3_000)]), group("of another agent")))


def test_a_publication_becomes_records() -> None:
    """The state is a record at once, samples when their window or the run ends; an id is the run's and a number."""
    one = publisher(settings(cluster="eu"))
    told(one, looks=2)
    (state,) = [GroupState.model_validate(record) for record in written(one)]
    assert (state.cluster, state.group, state.role) == ("eu", "orders", "leading")
    for counted in one._windows.rest():
        one._add_sample(counted)
    samples = [TrafficSample.model_validate(record) for record in written(one)]
    assert [(sample.replica_rack, sample.bytes, sample.records) for sample in samples] == [
        (A, 6_000, 6),
        (B, 10_000, 10),
    ]
    assert {sample.agent for sample in samples} == {state.agent}
    run = state.id.rpartition("-")[0]
    assert [record.id for record in (state, *samples)] == [f"{run}-{number}" for number in (1, 2, 3)]


def test_what_happened_becomes_records(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rebalances of groups that this agent owns, and all its actions, become records once the cluster has a name."""
    monkeypatch.setattr(publisher_module, "_TURN_SECONDS", 0.01)
    monkeypatch.setattr(topics, "_ASK_SECONDS", 0.1)
    given = load(flags={**FLAGS, "events": {"topic": "happened"}, "traffic": {"enabled": False}}, environment={})
    one = publisher(given, cluster_id="")
    events = EventLog(clock=lambda: 5.0)
    events.listen(one.take_event)
    left = events.add("rebalance", "orders", cause="member-left", left=("a",), generation=7, seconds=0.5)
    events.add("rebalance", "of another agent", cause="leader")
    events.add("role", "of another agent", action="standby")
    for _ in range(3):
        one.turn()
    assert written(one) == []
    one._cluster = "eu"
    one.turn()
    first, second = (GroupEvent.model_validate(record) for record in written(one))
    assert (first.event, first.at, first.group, first.left, first.cluster) == (left.id, 5_000, "orders", ("a",), "eu")
    assert (second.kind, second.group) == ("role", "of another agent")
    assert first.id != second.id


def test_the_clusters_id_is_its_name_unless_it_has_one() -> None:
    """Without a configured name the cluster's id is used; until it is known, what was counted waits."""
    given = settings()
    named = publisher(given)
    told(named)
    assert {record["cluster"] for record in written(named)} == {"id-of-cluster"}
    unknown = publisher(given, cluster_id="")
    told(unknown)
    assert written(unknown) == []
    unknown._cluster = "found"
    told(unknown)
    assert {record["cluster"] for record in written(unknown)} == {"found"}


def test_a_topic_that_is_not_named_has_no_records() -> None:
    """Each kind of record is written only if its topic is set."""
    samples = publisher(settings(states_topic=""))
    told(samples)
    assert written(samples) == []
    states = publisher(settings(traffic_topic=""))
    told(states)
    assert len(written(states)) == 1
    assert states._windows.rest() == []


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"events": {"topic": "states"}}, r"events\.topic: is states, as another topic in publishing"),
        ({"traffic": {"enabled": False}}, r"publishing: .* traffic\.enabled"),
    ],
    ids=["events share a topic, whose readers do not know them", "nothing is measured"],
)
def test_what_cannot_be_published_is_refused(wrong: dict[str, Any], message: str) -> None:
    """The message has the key."""
    with pytest.raises(SettingsError, match=message):
        publisher(load(flags={**FLAGS, "publishing": TOPICS, **wrong}, environment={}))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"every_seconds": 7}, r"publishing\.every_seconds: 60 is no multiple of it; take 1, 2"),
        ({"every_seconds": 120}, r"publishing\.every_seconds: .*less than or equal to 60"),
        ({"states_topic": "samples"}, "samples and states need a topic each"),
        ({"groups_topic": "x"}, r"publishing\.groups_topic .*: no such setting; did you mean publishing\.states_topic"),
        ({"kafka": {"sasl.password": ["secret"]}}, r"publishing\.kafka\.sasl\.password: is no text"),
    ],
)
def test_wrong_settings_are_named(wrong: dict[str, Any], message: str) -> None:
    """The message for a wrong setting says what is expected, and shows no secret."""
    with pytest.raises(SettingsError, match=message) as raised:
        settings(**wrong)
    assert "secret" not in str(raised.value)


def test_the_producers_settings_have_dots_in_the_environment_too() -> None:
    """Underscores become dots in the producer's variables, as in those of `kafka`."""
    names = {"SAMERACK_PUBLISHING__KAFKA__BOOTSTRAP_SERVERS": "fleet:9092", "SAMERACK_KAFKA__BOOTSTRAP_SERVERS": "x"}
    assert load(environment=names).publishing.kafka == {"bootstrap.servers": "fleet:9092"}
