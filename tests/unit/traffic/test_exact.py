"""Which member a client's counters belong to, and that nothing counts twice."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

import pytest

from samerack.cluster.racks import MemberRack
from samerack.election.leadership_state import LeadershipState, Tenures
from samerack.protocol.values import from_pairs
from samerack.traffic.collect import Partition
from samerack.traffic.curve import Curve, LogExtent, begin
from samerack.traffic.exact import MAX_CLIENTS, STALE_SECONDS, ExactReads
from samerack.traffic.snapshot import ObservedGroup, ObservedMember, Volume
from samerack.traffic.statistics import Counters, StatisticsError, parse

LOGS: Final[Mapping[Partition, Curve]] = {
    ("t", number): begin(LogExtent(start=0, end=10_000, size_bytes=10_000_000, leader=1)) for number in range(4)
}
"""Logs with room for all that is reported here."""


def member(name: str, client_id: str, *numbers: int) -> ObservedMember:
    """A member that owns partitions of topic t."""
    return ObservedMember(
        id=name,
        instance_id=None,
        client_id=client_id,
        client_host="10.0.0.1",
        rack=MemberRack(rack="a", source="subscription", fetches_with_rack=True),
        topics=frozenset({"t"}),
        owned=from_pairs(("t", number) for number in numbers),
        sessions=False,
    )


def group(*members: ObservedMember) -> ObservedGroup:
    """A stable group."""
    return ObservedGroup(group="g", kind="classic", state="Stable", assignor="range", members=members)


def counters(received: int, *, client: str = "c#1", client_id: str = "c", number: int = 0, age: float = 5) -> Counters:
    """Counters of a client that reads one partition from broker 1."""
    return Counters(
        client=client,
        client_id=client_id,
        age_seconds=age,
        received={1: received},
        served_by={("t", number): 1},
        messages={("t", number): received},
    )


def reads(*members: ObservedMember) -> ExactReads:
    """An agent that sees these members of one group, and topic t with four partitions."""
    exact = ExactReads()
    exact.see({"g": group(*members)}, {"t": 4}, {}, since={"g": 100.0})
    return exact


class Elected(LeadershipState):
    """An agent with some tenures; None while they are not certain."""

    def __init__(self, tenures: Tenures | None) -> None:
        super().__init__()
        self.now = tenures

    def sure_tenures(self) -> Tenures | None:
        """The tenures."""
        return self.now


def collected(
    exact: ExactReads,
    curves: Mapping[Partition, Curve] = LOGS,
    *,
    now: float = 112.0,
    rewound: Mapping[str, frozenset[Partition]] | None = None,
) -> dict[str, float]:
    """Bytes by member of group g."""
    counted = exact.collect(curves, now=now, rewound=rewound).get("g", {})
    return {name: sum(read.wire_bytes for read in found) for name, found in counted.items()}


def test_a_member_is_found_by_its_client_id() -> None:
    """The only member with the client id is the one; the first post of a young client counts fully."""
    exact = reads(member("m1", "c", 0), member("m2", "d", 1))
    assert exact.post("g", counters(500), now=110.0).id == "m1"
    exact.post("g", counters(700), now=111.0)
    assert collected(exact) == {"m1": 700.0}
    assert collected(exact) == {}
    assert exact.members(now=111.0) == {("g", "m1")}


def test_members_with_one_client_id_are_distinguished_by_what_they_own() -> None:
    """Replicas of a deployment share a client id, and are distinguished by what they own."""
    exact = reads(member("m1", "c", 0), member("m2", "c", 1))
    assert exact.post("g", counters(500, number=1), now=110.0).id == "m2"
    with pytest.raises(StatisticsError, match="2 members"):
        exact.post("g", counters(500, number=3), now=110.0)
    assert exact.post("g", counters(1, number=3), now=110.0, member_id="m1").id == "m1"


def test_an_old_client_counts_from_its_first_post() -> None:
    """Bytes that a client received before the agent measured are not counted."""
    exact = reads(member("m1", "c", 0))
    exact.post("g", counters(10_000, age=1000), now=110.0)
    exact.post("g", counters(10_300, age=1001), now=111.0)
    assert collected(exact) == {"m1": 300.0}


def test_what_was_estimated_is_taken_off() -> None:
    """The estimate for the time before the first post is subtracted from it."""
    exact = reads(member("m1", "c", 0))
    exact.estimated(("g", "m1"), Volume(wire_bytes=400, records=300))
    exact.post("g", counters(500), now=110.0)
    (read,) = exact.collect(LOGS, now=112.0)["g"]["m1"]
    assert (round(read.wire_bytes), read.records) == (100, 200)


def test_what_was_estimated_before_an_old_client_posts_is_not_taken_off_later() -> None:
    """The first post of an old client counts nothing: what was estimated until then stays, and is settled."""
    exact = reads(member("m1", "c", 0))
    exact.estimated(("g", "m1"), Volume(wire_bytes=400))
    exact.post("g", counters(10_000, age=1000), now=110.0)
    exact.post("g", counters(10_300, age=1001), now=111.0)
    assert collected(exact) == {"m1": 300.0}


def test_an_estimate_that_follows_the_first_post_is_taken_off_the_next() -> None:
    """A client may post for the first time while a cycle estimates its member."""
    exact = reads(member("m1", "c", 0))
    exact.post("g", counters(500), now=110.0)
    exact.estimated(("g", "m1"), Volume(wire_bytes=400))
    exact.post("g", counters(1100, age=10), now=115.0)
    assert collected(exact) == {"m1": 700.0}


def test_heartbeat_age_brings_the_estimate_back() -> None:
    """A client that has stopped posting is not exact any more."""
    exact = reads(member("m1", "c", 0))
    exact.post("g", counters(500), now=110.0)
    assert exact.members(now=110.0 + STALE_SECONDS) == frozenset()


def test_a_client_that_was_silent_counts_only_what_is_new() -> None:
    """What it read before its silence has counted, and the estimate of its silence is subtracted."""
    exact = reads(member("m1", "c", 0))
    exact.post("g", counters(500), now=110.0)
    assert collected(exact) == {"m1": 500.0}
    assert exact.members(now=171.0) == frozenset()
    exact.estimated(("g", "m1"), Volume(wire_bytes=100))
    exact.post("g", counters(630, age=75), now=180.0)
    assert collected(exact, now=182.0) == {"m1": pytest.approx(30.0)}
    assert exact.members(now=182.0) == {("g", "m1")}


def test_posts_less_frequent_than_a_minute_count_once() -> None:
    """Each second minute is estimated, and the next post has the rest."""
    exact = reads(member("m1", "c", 0))
    counted = 0.0
    for number in range(1, 11):
        now = 100.0 + 120.0 * number
        exact.post("g", counters(1200 * number, age=120 * number), now=now)
        counted += collected(exact, now=now)["m1"]
        assert exact.members(now=now + STALE_SECONDS) == frozenset()
        exact.estimated(("g", "m1"), Volume(wire_bytes=600))
    assert counted == 10 * 1200 - 9 * 600


def test_a_silent_client_that_comes_back_as_another_member_counts_from_then_on() -> None:
    """Its counters are forgotten with its member; clients that started after its last post count fully."""
    exact = reads(member("m1", "c", 0))
    exact.post("g", counters(500), now=110.0)
    collected(exact)
    exact.see({"g": group(member("m2", "c", 0), member("m3", "d", 1))}, {"t": 4}, {}, since={"g": 100.0})
    assert exact.members(now=171.0) == frozenset()
    exact.post("g", counters(600, age=75), now=180.0)
    exact.post("g", counters(70, client="d#1", client_id="d", number=1, age=69), now=180.0)
    assert collected(exact, now=181.0) == {"m2": 0.0, "m3": 70.0}
    exact.post("g", counters(650, age=80), now=185.0)
    assert collected(exact, now=186.0) == {"m2": 50.0}


def test_a_client_that_goes_on_as_another_member_counts_only_what_is_new() -> None:
    """A member that was expelled comes back with another id, and its client has the same counters."""
    exact = reads(member("m1", "c", 0))
    exact.post("g", counters(500), now=110.0)
    collected(exact)
    exact.see({"g": group(member("m2", "c", 0))}, {"t": 4}, {}, since={"g": 100.0})
    exact.members(now=115.0)
    exact.post("g", counters(600, age=15), now=120.0)
    assert collected(exact) == {"m2": 100.0}


def test_silent_clients_are_bounded() -> None:
    """Of one member as many silent clients are stored as may report; a silent one keeps no other from reporting."""
    exact = reads(member("m1", "c", 0))
    for number in range(100):
        exact.post(
            "g", counters(10, client=f"c#{number}", age=STALE_SECONDS * number), now=100 + STALE_SECONDS * number
        )
    assert len(exact._clients) <= MAX_CLIENTS + 1


def test_estimates_of_members_that_are_gone_are_forgotten() -> None:
    """Every restart makes a new member id."""
    exact = ExactReads()
    for number in range(1000):
        exact.see({"g": group(member(f"m{number}", "c", 0))}, {"t": 4}, {}, since={"g": 0.0})
        exact.estimated(("g", f"m{number}"), Volume(wire_bytes=100))
    assert len(exact._estimated) <= 2


def test_two_processes_with_one_client_id_are_two_clients() -> None:
    """The first consumer of each process has the same name in librdkafka's statistics."""
    exact = reads(member("m1", "c", 0), member("m2", "c", 1))
    started = {0: 7_000_000, 1: 9_000_000}

    def post(number: int, wire_bytes: int, clock: int) -> None:
        read = {str(number): {"broker": 1, "fetch_state": "active", "rxmsgs": wire_bytes}}
        body = {
            "name": "c#consumer-1",
            "client_id": "c",
            "type": "consumer",
            "ts": clock,
            "age": clock - started[number],
            "brokers": {"b": {"nodeid": 1, "rxbytes": wire_bytes}},
            "topics": {"t": {"partitions": read}},
        }
        exact.post("g", parse(json.dumps(body).encode()), now=110.0)

    for more in (0, 5, 10):
        post(0, 3000 + more, 500_000_000 + more)
        post(1, 2000 + more, 500_000_003 + more)
        assert collected(exact) == ({"m1": 5.0, "m2": 5.0} if more else {"m1": 0.0, "m2": 0.0})


def test_who_measures_anew_begins_anew() -> None:
    """What a client reported in the former tenure is no base: another agent may have measured in between."""
    exact = reads(member("m1", "c", 0))
    exact.post("g", counters(500), now=110.0)
    exact.see({"g": group(member("m1", "c", 0))}, {"t": 4}, {}, since={"g": 112.0})
    assert exact.members(now=112.0) == frozenset()
    exact.post("g", counters(800, age=12), now=117.0)
    exact.post("g", counters(900, age=17), now=122.0)
    assert collected(exact) == {"m1": 100.0}


def test_who_does_not_measure_a_group_takes_nothing_of_it() -> None:
    """A group that another agent measures is in no figure of this one."""
    exact = reads(member("m1", "c", 0))
    exact.post("g", counters(500), now=110.0)
    exact.see({"g": group(member("m1", "c", 0))}, {"t": 4}, {}, since={})
    with pytest.raises(StatisticsError, match="not observed"):
        exact.post("g", counters(700), now=111.0)
    assert collected(exact) == {}


@pytest.mark.parametrize(
    ("name", "posted", "reason"),
    [
        ("other", counters(1), "not observed"),
        ("g", counters(1, client_id="unknown"), "no member with client.id"),
        ("g", counters(1, number=4), "t-4 is unknown"),
    ],
)
def test_wrong_posts_change_nothing(name: str, posted: Counters, reason: str) -> None:
    """Wrong posts are refused with the reason."""
    exact = reads(member("m1", "c", 0))
    with pytest.raises(StatisticsError, match=reason):
        exact.post(name, posted, now=110.0)
    with pytest.raises(StatisticsError, match="no member 'x'"):
        exact.post("g", counters(1), now=110.0, member_id="x")
    assert collected(exact) == {}
    assert exact.members(now=110.0) == frozenset()
