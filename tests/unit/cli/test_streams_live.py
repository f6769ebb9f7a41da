"""A live application is read with real requests and responses; whatever brokers refuse is null, with the cause."""

from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace
from typing import Any, Final

import pytest
from kafka import errors as kafka_errors
from kafka.protocol.admin.cluster import DescribeLogDirsRequest
from kafka.protocol.admin.configs import DescribeConfigsRequest
from kafka.protocol.admin.groups import (
    DescribeGroupsRequest,
    ListGroupsRequest,
    ListGroupsResponse,
)
from kafka.protocol.consumer.offsets import ListOffsetsRequest
from kafka.protocol.metadata import ApiVersionsRequest, FindCoordinatorRequest, MetadataRequest
from kio.schema.streams_group_describe.v0 import response as streams
from kio.static.primitive import i32Timedelta

from samerack.assignors.streams.application import LATEST_OFFSET, AssignmentConfigs, task_id
from samerack.assignors.streams.assignment import TaskType
from samerack.cli import streams_live
from samerack.cli.streams_live import read
from samerack.cli.streams_options import FoundApplication, bill_of
from samerack.cluster.broker_assigned import KioRequest
from samerack.cluster.racks import NO_HOSTS
from samerack.cluster.wire import BrokerRequest
from samerack.common.errors import AgentError, SettingsError
from samerack.settings.all_settings import Settings
from samerack.settings.loading import load
from samerack.traffic.streams_instances import KnownBy
from tests.unit.agent.values import Described
from tests.unit.cluster.scripted_wire import (
    ScriptedBrokerClient,
    configs_response,
    coordinator_response,
    log_dirs_response,
    metadata_response,
    offsets_response,
    partition,
    topic,
    versions_response,
)
from tests.unit.traffic.live_streams import COUNTING, described, instance, kip_1071, thread

SELECTOR: Final = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
REPLICAS: Final = {
    "in": [[2], [1]],
    "app-counts-repartition": [[1], [2]],
    "app-counts-changelog": [[1, 2], [3]],
    "other": [[1]],
}
"""Broker ids of the replicas of each partition, the leader's first; racks are a, b and c."""


class Brokers:
    """Three brokers that answer as a real cluster does; `state` is what the group is in."""

    def __init__(self, *members: Described, described: Any = None, **changes: Any) -> None:
        self.members = members
        self.described = described
        self.state = changes.get("state", "Stable")
        self.protocol = changes.get("protocol", "stream")
        self.kind = "streams" if described is not None else changes.get("kind", "classic")
        self.refuses_logs = changes.get("refuses_logs", False)
        self.refuses_groups = changes.get("refuses_groups", False)
        self.grown = 1
        self.wire = ScriptedBrokerClient(self.answer)

    def answer(self, question: BrokerRequest) -> Any:
        """The response to one request."""
        request = question.request
        if isinstance(request, KioRequest):
            return streams.StreamsGroupDescribeResponse(
                throttle_time=i32Timedelta.parse(timedelta(0)), groups=(self.described,)
            )
        answers = {
            MetadataRequest: self._metadata,
            ListGroupsRequest: self._groups,
            FindCoordinatorRequest: self._coordinator,
            ApiVersionsRequest: lambda _: versions_response({}),
            DescribeGroupsRequest: self._group,
            DescribeConfigsRequest: self._configs,
            DescribeLogDirsRequest: self._logs,
            ListOffsetsRequest: self._offsets,
        }
        return next(give for kind, give in answers.items() if isinstance(request, kind))(question)

    def _metadata(self, question: BrokerRequest) -> Any:
        names = list(REPLICAS) if question.request.topics is None else [one.name for one in question.request.topics]
        return metadata_response(
            {1: "a", 2: "b", 3: "c"},
            *(
                topic(name, *(partition(at, row[0], row, row) for at, row in enumerate(REPLICAS[name])))
                if name in REPLICAS
                else topic(name, error_code=kafka_errors.UnknownTopicOrPartitionError.errno)
                for name in names
            ),
        )

    def _groups(self, question: BrokerRequest) -> Any:
        one = ListGroupsResponse.ListedGroup
        mine = one(group_id="app", protocol_type="consumer", group_state=self.state, group_type=self.kind)
        shown = question.broker == 1 and not self.refuses_groups
        return ListGroupsResponse(error_code=0, groups=[mine] if shown else [])

    def _coordinator(self, question: BrokerRequest) -> Any:
        refusal = kafka_errors.GroupAuthorizationFailedError.errno if self.refuses_groups else 0
        return coordinator_response(question.request.key, 1, refusal)

    def _group(self, _question: BrokerRequest) -> Any:
        return SimpleNamespace(groups=[described(*self.members, state=self.state, protocol=self.protocol)])

    def _configs(self, question: BrokerRequest) -> Any:
        return configs_response(question.broker, {"replica.selector.class": SELECTOR})

    def _logs(self, question: BrokerRequest) -> Any:
        refusal = kafka_errors.ClusterAuthorizationFailedError.errno if self.refuses_logs else 0
        return log_dirs_response(question.request, lambda *_: 1_000 * self.grown, refusal)

    def _offsets(self, question: BrokerRequest) -> Any:
        return offsets_response(question.request, lambda *_: 100 * self.grown)


def settings() -> Settings:
    """Settings of a command."""
    return load(flags={"kafka": {"bootstrap.servers": "127.0.0.1:1"}}, environment={})


def found(brokers: Brokers, **given: Any) -> FoundApplication:
    """What is read from these brokers."""
    return read(
        brokers.wire,
        given.pop("group", "app"),
        settings(),
        AssignmentConfigs(),
        hosts=NO_HOSTS,
        given=given.pop("given", {}),
        measure=given.pop("measure", None),
    )


def test_a_classic_application_is_read_without_joining_it() -> None:
    """Members, topics of all names, offsets and sizes; no request could change the group."""
    brokers = Brokers(*COUNTING)
    one = found(brokers)
    assert one.kind == "streams-classic"
    assert one.standbys == 1
    assert [(log.topic, log.subtopology) for log in one.live.changelogs] == [("app-counts-changelog", 1)]
    first, _ = one.live.state.states.values()
    assert first.lags == {task_id("1_0"): 100, task_id("1_1"): LATEST_OFFSET}
    assert one.rates.bytes_per_second is None
    assert set(one.rates.log_bytes or ()) == {("app-counts-changelog", 0), ("app-counts-changelog", 1)}
    assert one.brokers.rack_aware_fetch
    assert one.unknown == ()
    assert {type(question.request).__name__ for question in brokers.wire.asked} == {
        "MetadataRequest",
        "ListGroupsRequest",
        "DescribeGroupsRequest",
        "DescribeConfigsRequest",
        "DescribeLogDirsRequest",
        "ListOffsetsRequest",
    }


def test_bytes_of_changelogs_are_their_growth(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two polls a log grows by bytes; what members read is measured meanwhile."""
    brokers, now = Brokers(*COUNTING), [100.0]
    monkeypatch.setattr(streams_live, "time", SimpleNamespace(monotonic=lambda: now[0]))

    def measure() -> dict[tuple[str, int], float]:
        brokers.grown = 3
        now[0] += 4.0
        return {("in", 0): 7.0}

    one = found(brokers, measure=measure)
    assert one.rates.bytes_per_second is not None
    assert one.rates.bytes_per_second["in", 0] == pytest.approx(7.0)
    assert one.rates.bytes_per_second["app-counts-changelog", 0] == 500.0
    assert one.rates.log_bytes == dict.fromkeys([("app-counts-changelog", 0), ("app-counts-changelog", 1)], 3_000)


def test_what_brokers_refuse_is_reported() -> None:
    """Without permission for log sizes these are null, and the refusal has its consequence."""
    one = found(Brokers(*COUNTING, refuses_logs=True))
    assert one.rates.log_bytes is None
    assert any("ClusterAuthorizationFailedError" in each.cause for each in one.unknown)


def test_the_user_may_know_a_changelog_better() -> None:
    """A given subtopology replaces what would follow from the name."""
    one = found(Brokers(*COUNTING), given={"app-counts-changelog": 0})
    assert [(log.topic, log.subtopology, log.known_by) for log in one.live.changelogs] == [
        ("app-counts-changelog", 0, KnownBy.GIVEN),
        ("app-counts-repartition", 1, KnownBy.SOURCE),  # its state needs another
    ]


TABLES: Final = (
    thread(1, {"0_0": [("in", 0), ("other", 0)]}, rack="a", sums={"0_0": -2}),
    thread(2, {"0_1": [("in", 1)]}, standby={"0_0": [("in", 0), ("other", 0)]}, sums={"0_0": 7, "0_1": -2}, rack="b"),
)
"""An aggregation with its changelog beside tables, whose topics have two partitions and one."""


def test_a_table_that_reuses_its_source_is_not_known_until_it_is_given() -> None:
    """Which sources serve as changelogs is in no metadata: it is said, and what the user says of it counts."""
    before = found(Brokers(*TABLES))
    (said,) = [one for one in before.live.unknown if "topology.optimization" in one.cause]
    assert said.what == "further changelogs of subtopology 0"
    assert "--changelog in=0 --changelog other=0" in said.cause
    after = found(Brokers(*TABLES), given={"in": 0, "other": 0})
    assert [one for one in after.live.unknown if "topology.optimization" in one.cause] == []
    standbys = [
        bill_of(one, one.live.present, with_racks=False).changelogs.near  # type: ignore[union-attr]
        + bill_of(one, one.live.present, with_racks=False).changelogs.across  # type: ignore[union-attr]
        for one in (before, after)
    ]
    assert standbys == [1, 3]
    logs = {
        (str(task), part.topic)
        for task, info in after.live.state.all_tasks.items()
        for part in info.topic_partitions
        if part.is_changelog
    }
    assert ("0_1", "in") in logs
    assert ("0_1", "other") not in logs  # the topic has one partition


def test_a_table_of_an_application_that_brokers_assign_may_be_given() -> None:
    """KIP-1071's topology names only changelogs that Kafka Streams makes."""
    described = kip_1071(instance(1, "a", {"0": [0, 1]}), topology={"0": (["in"], [], ["app-counts-changelog"])})
    one = found(Brokers(described=described), given={"in": 0})
    assert [(log.topic, log.known_by) for log in one.live.changelogs] == [
        ("app-counts-changelog", KnownBy.TOPOLOGY),
        ("in", KnownBy.SOURCE),
    ]
    with pytest.raises(SettingsError, match="--changelog app-counts-changelog=0 has no effect"):
        found(Brokers(described=described), given={"app-counts-changelog": 0})


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"app-counts-changelog": 7}, "--changelog app-counts-changelog=7: app has subtopologies 0, 1"),
        (
            {"in": 1},
            "--changelog in=1 has no effect: subtopology 1 does not read it, and the changelogs of app are app-",
        ),
        ({"app-count-changelog": 1}, "--changelog app-count-changelog=1 has no effect"),
    ],
)
def test_a_changelog_that_would_change_nothing_is_refused(given: dict[str, int], words: str) -> None:
    """A topic that is neither a changelog nor read there, and a subtopology that is not there, are named."""
    with pytest.raises(SettingsError, match=words):
        found(Brokers(*COUNTING), given=given)


@pytest.mark.parametrize(
    ("brokers", "group", "words"),
    [
        (Brokers(*COUNTING), "absent", "group absent: does not exist"),
        (Brokers(*COUNTING, refuses_groups=True), "app", "group app: .*allow DESCRIBE on the group"),
        (Brokers(*COUNTING, protocol="range"), "app", "assign with range, not Kafka Streams: `samerack plan app -b "),
        (Brokers(*COUNTING, state="Empty"), "app", "is Empty; it needs members and no rebalance in progress"),
        (Brokers(), "app", "is Stable; it needs members"),
    ],
)
def test_what_is_no_running_application_is_refused(
    brokers: Brokers, group: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One line says what it is instead, and what to do."""
    monkeypatch.setattr(streams_live, "_REBALANCE_SECONDS", 0.0)
    monkeypatch.setattr(streams_live, "_PAUSE_SECONDS", 0.01)
    with pytest.raises(AgentError, match=words):
        found(brokers, group=group)


def test_a_group_that_brokers_assign_is_read_with_its_topology() -> None:
    """KIP-1071: changelogs are those of the description, and warm-ups are standbys."""
    brokers = Brokers(
        described=kip_1071(
            instance(1, "a", {"0": [0], "1": [1]}),
            instance(2, "b", {"0": [1], "1": [0]}, [1]),
            topology={"0": (["in"], [], []), "1": ([], ["app-counts-repartition"], ["app-counts-changelog"])},
        )
    )
    one = found(brokers)
    assert one.kind == "streams"
    assert [(log.topic, log.subtopology, log.known_by) for log in one.live.changelogs] == [
        ("app-counts-changelog", 1, KnownBy.TOPOLOGY)
    ]
    first, second = one.live.present.values()
    assert sorted(map(str, first.of_type(TaskType.ACTIVE))) == ["0_0", "1_1"]
    assert sorted(map(str, second.of_type(TaskType.STANDBY))) == ["1_1"]
    assert [client.rack_id for client in one.live.state.states.values()] == ["a", "b"]
    assert [str(task) for task, info in one.live.state.all_tasks.items() if info.is_stateful] == ["1_0", "1_1"]


def test_the_only_subtopology_of_its_size_has_the_changelog() -> None:
    """An application of one subtopology needs no state to be known for that."""
    one = found(Brokers(thread(1, {"0_0": [("in", 0)], "0_1": [("in", 1)]}, rack="a")))
    assert [(log.topic, log.known_by) for log in one.live.changelogs] == [("app-counts-changelog", KnownBy.PARTITIONS)]
