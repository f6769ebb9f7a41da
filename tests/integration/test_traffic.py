"""The agent's measurements of real groups of each kind on real brokers, also without a permission."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest
from confluent_kafka import Consumer, ShareConsumer, TopicPartition

from lab.sandbox.admin import wait_until
from lab.sandbox.contract import KafkaCluster
from lab.sandbox.feeder import Feeder
from lab.sandbox.members.lines import MemberSettings
from lab.sandbox.members.process import Member
from samerack.election.election import Election
from samerack.election.messages import Advertisement, observe
from samerack.reporting.costs import report
from samerack.settings.loading import load
from samerack.settings.measuring import MoneySettings, price_table
from samerack.traffic.gaps import HAND_OVER
from samerack.traffic.snapshot import BlindSpot, Family, TrafficSnapshot
from tests.integration.poller import Poller, costs_what_crosses, measured, named

_ENOUGH_RECORDS = 5_000
_RECORDS_OF_A_ROUND = 40


def member(cluster: KafkaCluster, group: str, topic: str, rack: str, **properties: str) -> Member:
    """A librdkafka consumer in a rack."""
    return Member.on(
        "confluent",
        MemberSettings(
            bootstrap=cluster.bootstrap,
            group=group,
            topics=(topic,),
            client_id=f"{group}-{rack}",
            rack=rack,
            properties=properties,
        ),
    )


@pytest.mark.promise(
    "Bytes of classic and new groups are those that the clients counted, and what crosses racks has its price."
)
def test_classic_and_new_groups_are_measured(cluster: KafkaCluster, placed: str, group: str, poller: Poller) -> None:
    """Groups of both protocols have racks, shares and bytes that match the counts of their clients."""
    new, feeds = f"{group}-new", {placed: 6}
    often = {"auto.commit.interval.ms": "500"}
    with (
        member(cluster, group, placed, "rack-a", **often) as classic,
        member(cluster, new, placed, "rack-c", **often, **{"group.protocol": "consumer"}),
    ):
        with Feeder(cluster.bootstrap, feeds):
            poller.until(lambda seen: bool(measured(seen, group) and measured(seen, new)))
        # a group's first commits do not show its start offsets: only later records are counted
        begun = poller.at_rest(classic, group)
        # batches of many records: on a busy machine nobody knows how many fetches, with their envelopes, a batch of one
        # record takes; `scripts/bench traffic` has the errors of short batches too
        with Feeder(cluster.bootstrap, feeds, records=lambda _topic, _partition: _RECORDS_OF_A_ROUND):
            poller.until(lambda _: poller.records(group) > begun.records + _ENOUGH_RECORDS)
        ended = poller.at_rest(classic, group)
        assert ended.counted - begun.counted == pytest.approx(ended.received - begun.received, rel=0.15)
        # four of the six partitions have a replica in either rack: a third of the reads crosses racks

        def a_third_crosses(seen: TrafficSnapshot) -> bool:
            shares = [one.shares.present_bytes for name in (group, new) if (one := measured(seen, name)) is not None]
            return len(shares) == 2 and shares == pytest.approx([1 / 3] * 2, abs=0.05)

        with Feeder(cluster.bootstrap, feeds):
            snapshot = poller.until(a_third_crosses)
        first, second = measured(snapshot, group), measured(snapshot, new)
    assert snapshot.gaps == ()
    assert first is not None
    assert second is not None
    assert (first.kind, second.kind) == ("classic", "consumer")
    assert [one.rack.rack for one in (*first.members, *second.members)] == ["rack-a", "rack-c"]
    for one in (first, second):
        assert one.shares.present_partitions == pytest.approx(1 / 3)
        assert one.shares.random == pytest.approx(2 / 3)
        assert one.problem is not None
        assert BlindSpot.SERVING_GUESSED not in one.blind_spots
        assert costs_what_crosses(snapshot, one.group)


def test_statistics_make_a_member_exact(cluster: KafkaCluster, placed: str, group: str, poller: Poller) -> None:
    """Posted counters replace the estimate of their member only; counters beyond the logs' growth are cut."""
    with (
        Feeder(cluster.bootstrap, {placed: 6}),
        member(cluster, group, placed, "rack-a"),
        member(cluster, group, placed, "rack-b"),
    ):
        poller.until(lambda seen: (one := measured(seen, group)) is not None and len(one.members) == 2)
        body = {
            "name": "rdkafka#consumer-1",
            "client_id": f"{group}-rack-a",
            "type": "consumer",
            "age": 1_000_000,
            "brokers": {"b": {"nodeid": 2, "rxbytes": 2_000_000}},
            "topics": {placed: {"partitions": {"0": {"broker": 2, "fetch_state": "active", "rxmsgs": 5}}}},
        }
        taken = poller.watch.post(group, json.dumps(body).encode())
        assert taken.rack.rack == "rack-a"
        one = measured(poller.watch.poll(), group)
        assert one is not None
        assert (len(one.members), len(one.exact_members)) == (2, 1)
        exact = [flow for flow in one.flows if flow.key.method == "exact"]
        assert [(flow.key.client_rack, flow.key.replica_rack) for flow in exact] == [("rack-a", "rack-b")]
        assert 1_000_000 < exact[0].volume.wire_bytes <= 2_000_000
        body["brokers"] = {"b": {"nodeid": 2, "rxbytes": 20_000_000_000}}
        poller.watch.post(group, json.dumps(body).encode())
        cut = poller.watch.poll()
        assert [gap.where for gap in cut.gaps if gap.what == Family.STATISTICS] == [group]
        one = measured(cut, group)
        assert one is not None
        assert (len(one.members), len(one.exact_members)) == (2, 1)
        assert sum(flow.volume.wire_bytes for flow in one.flows) < 100_000_000


@pytest.mark.timeout(180)
def test_what_is_read_around_a_hand_over_is_named_and_nothing_counts_twice(
    cluster: KafkaCluster, placed: str, group: str
) -> None:
    """The agent that is elected next counts from its first poll on, and says what is in no figure."""
    pattern = f"{group}*"
    flags = {
        "kafka": {"bootstrap.servers": cluster.bootstrap},
        "traffic": {"groups": [pattern]},
        "election": {"group": f"samerack-{group}"},
    }
    settings = load(flags=flags, environment={})
    agents = [
        Election(settings, advertisement=Advertisement(identity=name, responsibilities=(observe(pattern),)))
        for name in ("first", "second")
    ]
    first, second = pollers = [Poller(settings, group, agent) for agent in agents]
    with (
        Feeder(cluster.bootstrap, {placed: 6}, pause=0.01),
        member(cluster, group, placed, "rack-a", **{"auto.commit.interval.ms": "500"}),
    ):
        try:
            agents[0].start()
            wait_until(lambda: agents[0].is_active(observe(pattern)), "the first is active")
            before = first.until(lambda _: first.records(group) > _ENOUGH_RECORDS)
            assert [gap for gap in before.gaps if gap.what == HAND_OVER] == []
            agents[1].start()
            wait_until(lambda: agents[0].agents == 2, "both take part")
            second.watch.poll()
            assert second.records(group) == 0
            agents[0].stop()
            wait_until(lambda: agents[1].is_active(observe(pattern)), "the second is active")
            after = second.until(lambda seen: any(gap.what == HAND_OVER for gap in seen.gaps))
            assert second.records(group) == 0
            assert [gap.where for gap in after.gaps] == [group]
            counted = first.records(group)
            after = second.until(lambda _: second.records(group) > _ENOUGH_RECORDS)
            first.watch.poll()
            assert first.records(group) == counted
            read = sum(one.committed or 0 for one in named(after, group).partitions)
            assert counted + second.records(group) < read
        finally:
            for agent in agents:
                agent.stop()
            for agent in filter(Election.is_alive, agents):
                agent.join(10)
            for poller in pollers:
                poller.watch.close()


def test_a_reader_that_is_no_member_is_measured_without_its_rack(
    cluster: KafkaCluster, placed: str, group: str, poller: Poller
) -> None:
    """Flink reads so: partitions of its own choice, and commits under a name. Its bytes are of unknown racks."""
    reader = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": group, "enable.auto.commit": False})
    reader.assign([TopicPartition(placed, number, 0) for number in range(6)])

    def reads(_: TrafficSnapshot) -> bool:
        if reader.consume(500, 0.5):
            reader.commit(asynchronous=False)
        return poller.records(group) > _ENOUGH_RECORDS

    with Feeder(cluster.bootstrap, {placed: 6}, pause=0.01):
        seen = poller.until(reads)
    reader.close()
    assert named(seen, group).members == ()
    (found,) = (one for one in report(seen, price_table(MoneySettings()), roles={}).groups if one.group == group)
    assert found.wire_bytes == found.unknown_bytes != 0
    assert (found.cross_rack_bytes, found.dollars_per_month, found.share) == (None, None, None)


def test_a_share_group_is_measured(cluster: KafkaCluster, placed: str, group: str, poller: Poller) -> None:
    """KIP-932: leaders serve its members, which its assignor gives partitions of their own while there are enough."""
    with ExitStack() as stack:
        for _ in range(2):
            stack.enter_context(_share_reader(cluster, group, placed, "rack-a"))
        stack.enter_context(Feeder(cluster.bootstrap, {placed: 6}, pause=0.1))

        def two_thirds_cross(seen: TrafficSnapshot) -> bool:
            one = measured(seen, group)
            return one is not None and one.shares.present_bytes == pytest.approx(2 / 3, abs=0.05)

        seen = poller.until(two_thirds_cross)
        one = named(seen, group)
        assert (one.kind, len(one.members), {member.rack.rack for member in one.members}) == ("share", 2, {"rack-a"})
        assert BlindSpot.SHARED in one.blind_spots
        assert costs_what_crosses(seen, group)
        stack.enter_context(_share_reader(cluster, group, placed, "rack-b"))

        def both_read(seen: TrafficSnapshot) -> bool:
            records = Counter[str]()
            for flow in named(seen, group).flows:
                records[flow.key.client_rack] += flow.volume.records
            # who read a partition that went from one member to the other between two polls is not known
            return all(records[rack] > 10 * records[""] for rack in ("rack-a", "rack-b"))

        poller.until(both_read)


@contextmanager
def _share_reader(cluster: KafkaCluster, group: str, topic: str, rack: str) -> Iterator[None]:
    reader = ShareConsumer({"bootstrap.servers": cluster.bootstrap, "group.id": group, "client.rack": rack})
    reader.subscribe([topic])
    ended = threading.Event()

    def read() -> None:
        while not ended.is_set():
            reader.poll(0.5)
        reader.close()

    thread = threading.Thread(target=read, name=f"share reader in {rack}")
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
