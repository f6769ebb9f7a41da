"""The publishing thread: records of the board's publications, states of groups and when one is due, and settings."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from confluent_kafka import KafkaError
from prometheus_client import CollectorRegistry

from samerack.agent.publishing import publisher as publisher_module
from samerack.agent.publishing import topics
from samerack.agent.publishing.metrics import PublishingMetrics
from samerack.agent.publishing.publisher import Publisher
from samerack.agent.publishing.states import LastPublished, state_record
from samerack.assignors.problem import NO_LIMIT
from samerack.assignors.streams.whole_tasks import WholeTasks
from samerack.common.errors import SettingsError
from samerack.common.records import GroupState, PlanningState, TrafficSample
from samerack.events import Event, EventLog
from samerack.settings.all_settings import Settings
from samerack.settings.leading import LeadingSettings
from samerack.settings.loading import load
from samerack.traffic.board import TrafficBoard
from samerack.traffic.snapshot import GroupTraffic, TrafficSnapshot
from tests.unit.agent.measured import A, B, C, flow, group, member, publish, snapshot, weighed

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
    return [json.loads(outgoing.value) for outgoing in one._outbox.empty()]


def publish_minutes(one: Publisher, *, times: int = 1) -> None:
    """Publish a minute of one group this many times."""
    board = TrafficBoard()
    board.listen(one._write)
    for _ in range(times):
        publish(board, snapshot(group(flows=[flow(A, B, 5_000), flow(A, A, 3_000)]), group("of another agent")))


def test_a_publication_becomes_records() -> None:
    """The state is a record at once, samples when their window or the run ends; an id is the run's and a number."""
    one = publisher(settings(cluster="eu"))
    publish_minutes(one, times=2)
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


def test_the_last_window_of_an_agent_that_stands_by_becomes_records() -> None:
    """It was sent only with the next publication: after the next election, or when the agent ended."""
    one, board = publisher(settings(cluster="eu")), TrafficBoard()
    board.listen(one._write)
    board.clear()
    assert written(one) == []
    publish(board, snapshot(group(flows=[flow(A, B, 5_000)])))
    assert [record["kind"] for record in written(one)] == ["classic"]
    board.clear()
    assert [record["bytes"] for record in written(one)] == [5_000]
    board.clear()
    assert written(one) == []
    publish(board, snapshot(group(flows=[flow(A, B, 7_000)])))
    board.clear()
    assert [record["bytes"] for record in written(one)] == [7_000]


def test_what_happened_becomes_records(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rebalances of groups that this agent owns, and all its actions, become records once the cluster has a name."""
    monkeypatch.setattr(publisher_module, "_TURN_SECONDS", 0.01)
    monkeypatch.setattr(topics, "_ASK_SECONDS", 0.1)
    given = load(flags={**FLAGS, "events": {"topic": "happened"}}, environment={})
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
    first, second = written(one)
    shown = [first[name] for name in ("event", "at", "group", "left", "cluster")]
    assert shown == [left.id, 5_000, "orders", ["a"], "eu"]
    assert (second["kind"], second["group"]) == ("role", "of another agent")
    assert first["id"] != second["id"]


def test_the_record_of_an_event_has_all_its_fields() -> None:
    """The JSON on the wire, byte for byte: text that is no ASCII, what is not known, and whole numbers of seconds."""
    one = publisher(load(flags={**FLAGS, "events": {"topic": "happened"}}, environment={}))
    one._run, one._agent = "run", "samerack-0"
    event = Event(
        id="e1",
        at=1_750_000_000.1234,
        group="orders",
        kind="rebalance",
        cause="member-joined",
        missed=2,
        seconds=1,
        pause_seconds=float("nan"),
        joined=("ä", 'b"'),
        share_before=0.25,
        bytes_per_second=1e17,
    )
    one._unnamed.extend([event, Event(id="e2", at=5, group="", kind="role", action="leading", detail="zwölf")])
    one._cluster = "eu"
    one._add_events()
    nothing = (
        b'"cause":"","generation":null,"missed":0,"seconds":null,"pause_seconds":null,"members":null,"joined":[],'
        b'"left":[],"partitions":null,"moved":null,"share_before":null,"share_after":null,"bytes_per_second":null,'
        b'"dollars_per_day_before":null,"dollars_per_day_after":null,"assignor":"","failure":"",'
    )
    assert [outgoing.value for outgoing in one._outbox.empty()] == [
        b'{"schema":1,"id":"run-1","agent":"samerack-0","cluster":"eu","group":"orders","event":"e1",'
        b'"at":1750000000123,"kind":"rebalance","action":"","reason":"","cause":"member-joined","generation":null,'
        b'"missed":2,"seconds":1.0,"pause_seconds":null,"members":null,"joined":["\xc3\xa4","b\\""],"left":[],'
        b'"partitions":null,"moved":null,"share_before":0.25,"share_after":null,"bytes_per_second":1e+17,'
        b'"dollars_per_day_before":null,"dollars_per_day_after":null,"assignor":"","failure":"","detail":""}',
        b'{"schema":1,"id":"run-2","agent":"samerack-0","cluster":"eu","group":"","event":"e2","at":5000,'
        b'"kind":"role","action":"leading","reason":"",' + nothing + b'"detail":"zw\xc3\xb6lf"}',
    ]


def test_the_clusters_id_is_its_name_unless_it_has_one() -> None:
    """Without a configured name the cluster's id is used; until it is known, what was counted waits."""
    given = settings()
    named = publisher(given)
    publish_minutes(named)
    assert {record["cluster"] for record in written(named)} == {"id-of-cluster"}
    unknown = publisher(given, cluster_id="")
    publish_minutes(unknown)
    assert written(unknown) == []
    unknown._cluster = "found"
    publish_minutes(unknown)
    assert {record["cluster"] for record in written(unknown)} == {"found"}


def test_a_topic_that_is_not_named_has_no_records() -> None:
    """Each kind of record is written only if its topic is set."""
    samples = publisher(settings(states_topic=""))
    publish_minutes(samples)
    assert written(samples) == []
    states = publisher(settings(traffic_topic=""))
    publish_minutes(states)
    assert len(written(states)) == 1
    assert states._windows.rest() == []


def test_events_have_a_topic_of_their_own() -> None:
    """A topic that events would share, whose readers do not know them, is refused with the key."""
    with pytest.raises(SettingsError, match=r"events\.topic: is states, like another topic in publishing"):
        publisher(load(flags={**FLAGS, "publishing": TOPICS, "events": {"topic": "states"}}, environment={}))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"every_seconds": 7}, r"publishing\.every_seconds: must divide 60; set 1, 2"),
        ({"every_seconds": 120}, r"publishing\.every_seconds: .*less than or equal to 60"),
        ({"states_topic": "samples"}, "samples and states need separate topics"),
        ({"kafka": {"sasl.password": [["secret"]]}}, r"publishing\.kafka\.sasl\.password: has lists in a list"),
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


# states of groups

AT = 1_800_000_000.0
LEADING = LeadingSettings()


def test_a_group_is_pictured_by_index() -> None:
    """Racks of brokers are first, the leader's replica is first, and owners and rates are by partition."""
    one = group(members={"m1": A, "m2": "elsewhere", "m3": None})
    placed = ((3, 1), (2,), (9,), (1, 2), (2,), (3,))
    seen = state_record(one, snapshot(one, replicas=placed).cluster, LEADING)
    assert (seen.racks, seen.broker_racks) == ((A, B, C, "elsewhere"), 3)
    assert [(who.id, who.rack, who.topics) for who in seen.members] == [
        ("m1", 0, (0,)),
        ("m2", 3, (0,)),
        ("m3", -1, (0,)),
    ]
    assert [who.tells_rack for who in seen.members] == [True, True, False]
    (topic,) = seen.topics
    assert topic.name == "clicks"
    assert topic.replicas == ((2, 0), (1,), (-1,), (0, 1), (1,), (2,))
    assert topic.owner == (0,) * 6
    assert topic.bytes_per_second == (1000.0,) * 6


def test_kafka_streams_shows_its_tasks() -> None:
    """Each partition has its task, and each member its client; other groups have neither."""
    one = group()
    assert one.problem is not None
    assert one.problem.members == ("m1", "m2", "m3")
    whole = WholeTasks(task=np.array([0, 1, 0, 1, 2, -1], np.int32), client=np.array([0, 0, 1], np.int32))
    seen = state_record(replace(one, kind="streams-classic", whole_tasks=whole), snapshot(one).cluster, LEADING)
    assert [who.client for who in seen.members] == [0, 0, 1]
    assert [topic.tasks for topic in seen.topics] == [(0, 1, 0, 1, 2, -1)]
    plain = state_record(one, snapshot(one).cluster, LEADING)
    assert [who.client for who in plain.members] == [None] * 3
    assert [topic.tasks for topic in plain.topics] == [None]


def test_a_state_says_how_its_group_is_planned() -> None:
    """The settings as the group's protocol makes them, and the weights of partitions where they do not count alike."""
    one, given = group(), LeadingSettings(max_skew=2)
    plain = state_record(one, snapshot(one).cluster, given)
    assert plain.planning == PlanningState(by_bytes=True, keep_copartitioned=True, max_skew=0)
    assert [topic.weights for topic in plain.topics] == [None]
    heavy = weighed(replace(one, assignor="sticky"), [1.0] * 6, [1, 2, 4, 8, 16, 32])
    seen = state_record(heavy, snapshot(one).cluster, given)
    assert seen.planning == PlanningState(by_bytes=True, keep_copartitioned=False, max_skew=2)
    assert [topic.weights for topic in seen.topics] == [(1, 2, 4, 8, 16, 32)]


def test_a_state_says_why_the_agent_would_not_join() -> None:
    """By the agent's own rule and settings; nothing is said of groups whose members do not choose the assignor."""
    one = group()
    members = tuple(replace(member, version=0, topics=frozenset({"clicks"})) for member in one.members)
    old = replace(one, assignor="roundrobin", members=members)

    def refusal(asked: GroupTraffic, **given: Any) -> str | None:
        return state_record(asked, snapshot(one).cluster, LeadingSettings(**given)).refusal

    assert refusal(one) == ""
    assert "does not offer" in str(refusal(one, protocols=("sticky",)))
    assert "subscription v0" in str(refusal(old))
    assert refusal(old, allow_roundrobin_v0=True) == ""
    assert refusal(replace(one, kind="consumer", assignor="uniform")) is None


def test_a_state_says_by_what_its_group_is_balanced() -> None:
    """Loads of partitions, and what members can carry where they differ."""
    one = weighed(replace(group(), assignor="sticky"), [1.0] * 6, [1] * 6)
    assert one.problem is not None
    count = len(one.problem.members)
    problem = replace(
        one.problem,
        loads=np.arange(6),
        capacity=np.linspace(1.0, 2.0, count),
        max_partitions=np.array([2, *[NO_LIMIT] * (count - 1)]),
    )
    seen = state_record(replace(one, problem=problem), snapshot(one).cluster, LeadingSettings(balance_tolerance=0.3))
    assert seen.planning is not None
    assert seen.planning.balance_tolerance == 0.3
    assert [topic.loads for topic in seen.topics] == [tuple(range(6))]
    by_id = {member.id: member for member in seen.members}
    assert [by_id[name].capacity for name in problem.members] == np.linspace(1.0, 2.0, count).tolist()
    assert [by_id[name].max_partitions for name in problem.members] == [2, *[None] * (count - 1)]


def test_unknown_rates_and_owners_are_left_out() -> None:
    """A topic without rates has none, and a partition without an owner has none."""
    one = group()
    unread = tuple(replace(part, member=None, bytes_per_second=None) for part in list(one.partitions)[:5])
    (topic,) = state_record(replace(one, partitions=unread), snapshot(one).cluster, LEADING).topics
    assert topic.owner == (-1,) * 6
    assert topic.bytes_per_second == ()
    assert len(topic.replicas) == 6


ONE = group()
FASTER = replace(ONE, partitions=tuple(replace(one, bytes_per_second=9.0) for one in ONE.partitions))
MOVED = replace(ONE, partitions=tuple(replace(one, member="m2") for one in ONE.partitions))
NEARER = replace(MOVED, members=(*MOVED.members[:2], member("m3", A)))
MAPPED = replace(MOVED, members=(*MOVED.members[:2], member("m3", A, source="network")))
JOINING = replace(ONE, problem=None, state="PreparingRebalance", partitions=())
OTHER_BROKERS = {1: A, 2: B, 3: A}
MOVING = [
    replace(ONE, partitions=tuple(replace(one, member=f"m{2 + second % 2}") for one in ONE.partitions))
    for second in range(5)
]


@pytest.mark.parametrize(
    "steps",
    [
        [(snapshot(ONE), 0, True), (snapshot(ONE), 30, False), (snapshot(ONE), 60, "interval")],
        [
            (snapshot(ONE), 0, True),
            (snapshot(FASTER), 10, False),
            (snapshot(MOVED), 20, True),
            (snapshot(NEARER), 30, True),
            (snapshot(NEARER, brokers=OTHER_BROKERS), 40, True),
            (snapshot(NEARER, brokers=OTHER_BROKERS), 50, False),
            (snapshot(MAPPED, brokers=OTHER_BROKERS), 60, True),
        ],
        [
            (snapshot(ONE), 0, True),
            *((snapshot(MOVING[second]), second, False) for second in range(1, 5)),
            (snapshot(MOVING[4]), 5, True),
        ],
        [
            (snapshot(ONE), 0, True),
            (snapshot(JOINING), 10, False),
            (snapshot(JOINING), 20, "interval"),
            (snapshot(ONE), 30, True),
            (snapshot(replace(ONE, members=(), problem=None)), 40, True),
        ],
        [(snapshot(ONE), 0, True), (snapshot(), 1, False), (snapshot(ONE), 2, True)],
    ],
    ids=[
        "at first and at each interval",
        "members, assignment and racks of replicas at once, rates not",
        "not twice in some seconds",
        "a rebalance when it is over",
        "a group that went is new when it comes back",
    ],
)
def test_when_a_state_is_due(steps: list[tuple[TrafficSnapshot, float, bool | str]]) -> None:
    """After so many seconds each, at an interval or not."""
    last = LastPublished()
    for seen, after, expected in steps:
        found = last.due(seen.groups, seen.cluster, at=AT + after, interval=expected == "interval")
        assert [one.group for one in found] == (["orders"] if expected else []), after


def test_only_a_refusal_of_all_brokers_makes_publishing_not_ready() -> None:
    """A topic that is missing, and brokers that are away, are gaps of the report."""
    one = publisher(settings())
    (topic, *_) = one._topics.values()
    one._sender._availability.refuse(topic, KafkaError(KafkaError._ALL_BROKERS_DOWN))
    assert (one.refusal, len(one.gaps())) == ("", 1)
    one._sender._availability.refuse(topic, KafkaError(KafkaError._SSL, "bad certificate"))
    assert one.refusal.startswith("bad certificate; records wait; check certificate")
