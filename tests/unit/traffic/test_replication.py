"""What is asked of brokers for replication and producers, when, by which agent, and what is known without an answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from kafka import errors as kafka_errors
from kafka.protocol.admin.cluster import DescribeLogDirsRequest
from kafka.protocol.consumer.offsets import ListOffsetsRequest

from samerack.cluster.view import ClusterView
from samerack.cluster.wire import BrokerRequest, RawRequest
from samerack.election.leadership_state import EVERYTHING, NOTHING, Tenure, Tenures
from samerack.election.messages import observe
from samerack.settings.measuring import TrafficSettings
from samerack.traffic import replication
from samerack.traffic.broker_poller import CycleState
from samerack.traffic.collect import Offsets, Partition
from samerack.traffic.curve import LogExtent, begin
from samerack.traffic.replication import ReplicationMeter
from samerack.traffic.snapshot import Family
from tests.unit.cluster.scripted_wire import (
    ScriptedBrokerClient,
    all_topics,
    log_dirs_response,
    offsets_response,
    partition,
    topic,
)
from tests.unit.traffic.test_exact import Elected

RACKS: Mapping[int, str | None] = {1: "a", 2: "b", 3: "c"}
EVERY = "*"


@dataclass(kw_only=True)
class Brokers:
    """Three brokers, each in its own rack, with logs that a test lets grow.

    Attributes:
        replicas: By partition, the leader first.
        sizes: Bytes of the leader's log; a record has a hundred.
        internal: Names of internal topics.
        refuse: The error code of sizes.
        asked: Partitions whose sizes were asked for, by broker.
    """

    replicas: dict[Partition, tuple[int, ...]]
    sizes: dict[Partition, int]
    internal: tuple[str, ...] = ()
    refuse: int = 0
    asked: list[tuple[int, Partition]] = field(default_factory=list)

    def answer(self, question: BrokerRequest) -> Any:
        """The response of brokers."""
        request = question.request
        if isinstance(request, RawRequest):
            return request._read(self._metadata())
        if isinstance(request, DescribeLogDirsRequest):
            return self._sizes(question)
        assert isinstance(request, ListOffsetsRequest)
        return self._offsets(question)

    def _metadata(self) -> bytes:
        topics: dict[str, list[Any]] = {}
        for (name, number), brokers in self.replicas.items():
            topics.setdefault(name, []).append(partition(number, brokers[0], sorted(brokers), brokers))
        return all_topics(dict(RACKS), *(topic(name, *some) for name, some in topics.items()), internal=self.internal)

    def _sizes(self, question: BrokerRequest) -> Any:
        if not self.refuse:
            self.asked += [(question.broker, (one.topic, n)) for one in question.request.topics for n in one.partitions]
        return log_dirs_response(question.request, lambda *key: self.sizes[key], self.refuse)

    def _offsets(self, question: BrokerRequest) -> Any:
        return offsets_response(question.request, lambda *key: self.sizes[key] // 100)


@pytest.fixture
def brokers() -> Brokers:
    """A topic of two partitions, and an internal one."""
    replicas = {("clicks", 0): (1, 2, 3), ("clicks", 1): (2, 3), ("__consumer_offsets", 0): (3, 1)}
    return Brokers(replicas=replicas, sizes=dict.fromkeys(replicas, 10_000), internal=("__consumer_offsets",))


@dataclass(kw_only=True)
class Metered:
    """A meter over these brokers."""

    brokers: Brokers
    wire: ScriptedBrokerClient
    meter: ReplicationMeter
    state: CycleState
    elected: Elected
    now: float = 0.0

    def poll(self, *, seconds: float = 30.0, tenures: Tenures | None = EVERYTHING) -> None:
        """One cycle, some seconds after the last."""
        self.now += seconds
        self.elected.now = tenures
        self.meter.poll(self.state, now=self.now)


def metered(brokers: Brokers, *, groups: Sequence[str] = (EVERY,), **settings: Any) -> Metered:
    """A meter of an agent that observes these groups."""
    wire = ScriptedBrokerClient(brokers.answer)
    state = CycleState(cluster=ClusterView(brokers={n: rack for n, rack in RACKS.items() if rack}, topics={}))
    elected = Elected(EVERYTHING)
    meter = ReplicationMeter(
        TrafficSettings(groups=tuple(groups), **settings),
        wire=wire,
        rack_of=lambda n: RACKS.get(n) or "",
        leadership=elected,
    )
    return Metered(brokers=brokers, wire=wire, meter=meter, state=state, elected=elected)


@pytest.fixture
def one(brokers: Brokers) -> Metered:
    """A meter that has polled once."""
    found = metered(brokers)
    found.poll()
    return found


def test_the_first_poll_knows_nothing(one: Metered) -> None:
    """A growth needs two polls, and until then it is not 0."""
    assert one.meter.found.unknown == "it takes two polls of all logs"
    assert one.meter.found.copied.carried == {}


def test_growth_goes_to_every_follower_and_is_produced_once(one: Metered) -> None:
    """A leader's growth crosses to each follower's rack; brokers write internal topics, which are copied alike."""
    one.brokers.sizes |= {("clicks", 0): 11_000, ("clicks", 1): 12_000, ("__consumer_offsets", 0): 10_300}
    one.poll()
    found = one.meter.found
    assert found.copied.carried == {("a", "b"): 1_000, ("a", "c"): 1_000, ("b", "c"): 2_000, ("c", "a"): 300}
    assert {rack: size for rack, size in found.copied.produced.items() if size} == {"a": 1_000, "b": 2_000}
    assert (found.unknown, found.seconds, found.partitions, found.unknown_partitions) == ("", 30.0, 3, 0)
    assert found.totals == found.copied


def test_the_window_moves_and_totals_grow(one: Metered) -> None:
    """Figures are of the last two steps; totals have all."""
    for size in (11_000, 13_000, 16_000):
        one.brokers.sizes["clicks", 1] = size
        one.poll()
    assert one.meter.found.copied.produced["b"] == 5_000
    assert one.meter.found.copied.carried["b", "c"] == 5_000
    assert one.meter.found.seconds == 60.0
    assert one.meter.found.totals.produced["b"] == 6_000


def test_all_logs_are_polled_twice_a_window_only(one: Metered) -> None:
    """Cycles in between ask nothing."""
    asked = len(one.wire.asked)
    one.poll(seconds=5.0)
    one.poll(seconds=22.0)
    assert len(one.wire.asked) == asked
    one.poll(seconds=2.0)
    assert len(one.wire.asked) > asked


def test_what_was_polled_for_groups_is_not_asked_again(one: Metered) -> None:
    """Logs of the present cycle are taken over; those whose last size is older are asked for."""
    one.brokers.asked.clear()
    for number, end in ((0, 110), (1, 999)):
        extent = LogExtent(start=0, end=110, size_bytes=11_000, leader=1)
        one.state.curves["clicks", number] = begin(extent)
        one.state.logs["clicks", number] = Offsets(start=0, end=end)
    one.poll()
    assert one.brokers.asked == [(2, ("clicks", 1)), (3, ("__consumer_offsets", 0))]
    assert one.meter.found.copied.produced["a"] == 1_000


def test_without_permission_it_is_unknown_and_says_why(brokers: Brokers) -> None:
    """Refused sizes leave a gap and no figure, and what is known later counts from then on."""
    brokers.refuse = kafka_errors.ClusterAuthorizationFailedError.errno
    it = metered(brokers)
    it.poll()
    it.poll()
    assert it.meter.found.unknown == "log-dirs broker 1: ClusterAuthorizationFailedError"
    assert {(gap.what, gap.refused) for gap in it.meter.gaps} == {(Family.LOG_DIRS, True)}
    brokers.refuse = 0
    it.poll()
    assert it.meter.found.unknown
    brokers.sizes["clicks", 0] += 500
    it.poll()
    assert it.meter.gaps == []
    assert it.meter.found.copied.produced["a"] == 500


def test_one_partition_that_is_not_known_leaves_the_others(one: Metered) -> None:
    """The figures lack it, and say so."""
    respond = one.wire.respond

    def lacking(question: BrokerRequest) -> Any:
        response = respond(question)
        if isinstance(question.request, ListOffsetsRequest):
            for each in response.topics:
                for row in each.partitions:
                    row.error_code = kafka_errors.NotLeaderForPartitionError.errno if question.broker == 2 else 0
        return response

    one.wire.respond = lacking
    one.brokers.sizes |= {("clicks", 0): 11_000, ("clicks", 1): 12_000}
    one.poll()
    assert one.meter.found.copied.produced == {"a": 1_000}
    assert (one.meter.found.partitions, one.meter.found.unknown_partitions) == (3, 1)
    one.wire.respond = respond
    one.brokers.sizes["clicks", 1] = 14_000
    one.poll()
    assert one.meter.found.totals.produced == {"a": 1_000, "b": 4_000}
    assert one.meter.found.unknown_partitions == 1, "the window has the step in which it was not known"
    one.poll()
    assert one.meter.found.unknown_partitions == 0


def test_polls_without_any_answer_leave_no_hole(one: Metered) -> None:
    """The next one is compared with the last one that had answers, and its step is as long as the time since."""
    one.brokers.refuse = kafka_errors.ClusterAuthorizationFailedError.errno
    for size in (11_000, 12_000):
        one.brokers.sizes["clicks", 0] = size
        one.poll()
        assert one.meter.found.unknown
    one.brokers.refuse = 0
    one.poll()
    assert one.meter.found.copied.produced["a"] == 2_000
    assert (one.meter.found.seconds, one.meter.found.unknown_partitions) == (90.0, 0)


def test_a_partition_without_leader_does_not_grow(one: Metered) -> None:
    """Nobody is asked for it, and it is not missing in the figures."""
    one.brokers.replicas["clicks", 1] = (-1, 2, 3)
    one.poll()
    assert (2, ("clicks", 1)) not in one.brokers.asked[3:]
    assert one.meter.found.unknown_partitions == 0


def test_topics_that_cannot_be_listed(one: Metered) -> None:
    """A failed request for topics is a gap; the next one is compared with the last known logs."""
    respond, one.wire.respond = one.wire.respond, lambda _: kafka_errors.RequestTimedOutError()
    one.poll()
    assert [gap.what for gap in one.meter.gaps] == [Family.METADATA]
    assert one.meter.found.unknown.startswith("metadata all topics: ")
    one.wire.respond = respond
    one.brokers.sizes["clicks", 0] += 500
    one.poll(seconds=5.0)
    assert one.meter.found.copied.produced["a"] == 500
    assert one.meter.found.seconds == 35.0


def test_old_steps_are_no_present_figures(one: Metered) -> None:
    """After a window without an answer nothing is known."""
    one.poll()
    assert not one.meter.found.unknown
    one.wire.respond = lambda _: kafka_errors.RequestTimedOutError()
    one.poll(seconds=30.0)
    assert not one.meter.found.unknown
    one.poll(seconds=31.0)
    assert one.meter.found.unknown


@pytest.mark.parametrize(
    ("groups", "settings", "tenures", "why"),
    [
        (("orders-*",), {}, EVERYTHING, "it is measured where traffic.groups contain '*'"),
        ((), {}, EVERYTHING, "it is measured where traffic.groups contain '*'"),
        ((EVERY,), {"replication": False}, EVERYTHING, "traffic.replication is false"),
        ((EVERY,), {}, NOTHING, "another agent of the election measures it"),
    ],
    ids=["some groups", "led groups", "switched off", "another agent"],
)
def test_who_does_not_measure(
    brokers: Brokers, groups: Sequence[str], settings: dict[str, Any], tenures: Tenures, why: str
) -> None:
    """Only the elected agent of those that observe everything polls all logs; others say why they do not."""
    it = metered(brokers, groups=groups, **settings)
    it.poll(tenures=tenures)
    assert (it.wire.asked, it.meter.found.unknown) == ([], why)


def test_what_grew_around_an_election_is_not_counted(brokers: Brokers) -> None:
    """Two agents never count the same growth: it counts from the first poll after the election on."""
    it = metered(brokers, groups=(EVERY, "!test-*"))

    def active(term: int) -> Tenures:
        what = observe(EVERY)
        return Tenures({what: Tenure(what=what, term=term)}, measuring=[what])

    for tenures in (active(1), NOTHING, active(3), active(3), None, active(3)):
        brokers.sizes["clicks", 0] += 1_000
        it.poll(tenures=tenures)
    assert it.meter.found.totals.produced["a"] == 3_000  # what is in doubt waits
    brokers.sizes["clicks", 0] += 1_000
    it.poll(tenures=active(4))
    assert it.meter.found.unknown == "it takes two polls of all logs"
    assert it.meter.found.totals.produced["a"] == 3_000


@pytest.mark.parametrize("now", [NOTHING, None], ids=["lost", "in doubt"])
def test_an_election_during_a_poll(one: Metered, now: Tenures | None) -> None:
    """What was polled counts only if the agent was still to count it at the end."""
    respond = one.wire.respond

    def elected(question: BrokerRequest) -> Any:
        one.elected.now = now
        return respond(question)

    one.wire.respond = elected
    one.brokers.sizes["clicks", 0] += 1_000
    one.poll()
    assert one.meter.found.totals.produced == {}
    one.wire.respond = respond
    one.poll()
    assert one.meter.found.totals.produced["a"] == 1_000


def test_a_cluster_without_topics_is_at_rest() -> None:
    """Nothing was appended: that is known."""
    it = metered(Brokers(replicas={}, sizes={}))
    it.poll()
    it.poll()
    assert (it.meter.found.unknown, it.meter.found.copied.carried) == ("", {})


def test_many_partitions_are_asked_for_in_parts(brokers: Brokers, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is in memory at once does not grow with the cluster."""
    monkeypatch.setattr(replication, "_AT_ONCE", 1)
    it = metered(brokers)
    it.poll()
    brokers.sizes |= dict.fromkeys(brokers.sizes, 20_000)
    it.poll()
    assert len([one for one in it.wire.asked if isinstance(one.request, DescribeLogDirsRequest)]) == 2 * 3
    assert sum(it.meter.found.copied.produced.values()) == 20_000
