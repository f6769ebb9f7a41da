"""Which member a client's counters belong to, and that nothing counts twice."""

from __future__ import annotations

import pytest

from samerack.cluster.racks import MemberRack
from samerack.election.counting import NOTHING, Claim, Claims
from samerack.election.leadership_state import LeadershipState
from samerack.protocol.values import from_pairs
from samerack.traffic.exact import STALE_SECONDS, ExactReads
from samerack.traffic.groups import ObservedGroup
from samerack.traffic.snapshot import ObservedMember
from samerack.traffic.statistics import Counters, StatisticsError


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
    return ObservedGroup(group="g", kind="classic", state="Stable", assignor="range", members=members, owned_known=True)


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
    exact = ExactReads(began_at=100.0)
    exact.see({"g": group(*members)}, {"t": 4}, {})
    return exact


class Elected(LeadershipState):
    """An agent with some claims; None while they are not certain."""

    def __init__(self, claims: Claims | None) -> None:
        self.now = claims

    def sure_claims(self) -> Claims | None:
        """The claims."""
        return self.now


def claims_of(member_id: str, *, term: int = 1) -> Claims:
    """A claim to the statistics of one member of group g."""
    return Claims({("g", member_id): Claim(what=("g", member_id), term=term, since=0.0)})


def collected(exact: ExactReads) -> dict[tuple[str, str], float]:
    """Bytes by member."""
    return {key: sum(read.wire_bytes for read in found) for key, found in exact.collect().items()}


def test_a_member_is_found_by_its_client_id() -> None:
    """The only member with the client id is the one; the first post of a young client counts fully."""
    exact = reads(member("m1", "c", 0), member("m2", "d", 1))
    assert exact.post("g", counters(500), now=110.0).id == "m1"
    exact.post("g", counters(700), now=111.0)
    assert collected(exact) == {("g", "m1"): 700.0}
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
    """Bytes that a client received before the agent started are not counted."""
    exact = reads(member("m1", "c", 0))
    exact.post("g", counters(10_000, age=1000), now=110.0)
    exact.post("g", counters(10_300, age=1001), now=111.0)
    assert collected(exact) == {("g", "m1"): 300.0}


def test_what_was_estimated_is_taken_off() -> None:
    """The estimate for the time before the first post is subtracted from it."""
    exact = reads(member("m1", "c", 0))
    exact.estimated(("g", "m1"), 400.0)
    exact.post("g", counters(500), now=110.0)
    assert collected(exact) == {("g", "m1"): pytest.approx(100.0)}


def test_silence_brings_the_estimate_back() -> None:
    """A client that has stopped posting is not exact any more."""
    exact = reads(member("m1", "c", 0))
    exact.post("g", counters(500), now=110.0)
    assert exact.members(now=110.0 + STALE_SECONDS) == frozenset()


def test_a_standby_counts_what_it_is_sent_from_the_election_on_that_says_so() -> None:
    """Until its election another agent estimates the member; two posts after it make a difference that counts."""
    leadership = Elected(NOTHING)
    exact = ExactReads(began_at=100.0, leadership=leadership)
    exact.see({"g": group(member("m1", "c", 0))}, {"t": 4}, {})
    exact.post("g", counters(500), now=110.0)
    exact.post("g", counters(700), now=111.0)
    assert exact.reporting_members(now=111.0) == {("g", "m1")}
    assert exact.members(now=111.0) == frozenset()
    leadership.now = claims_of("m1")
    exact.post("g", counters(900), now=112.0)
    exact.post("g", counters(1000), now=113.0)
    assert exact.members(now=113.0) == {("g", "m1")}
    assert collected(exact) == {("g", "m1"): 100.0}


def test_what_is_sent_while_an_election_may_be_under_way_is_counted_after_it() -> None:
    """Posts during an election count after it if the claim is the same; else another agent has counted them."""
    for after, counted in ((claims_of("m1"), 300.0), (claims_of("m1", term=3), 0.0)):
        leadership = Elected(claims_of("m1"))
        exact = ExactReads(began_at=100.0, leadership=leadership)
        exact.see({"g": group(member("m1", "c", 0))}, {"t": 4}, {})
        exact.post("g", counters(500, age=1000), now=110.0)
        leadership.now = None
        exact.post("g", counters(700), now=111.0)
        leadership.now = after
        exact.post("g", counters(800), now=112.0)
        assert collected(exact).get(("g", "m1")) == counted


def test_a_young_client_is_whose_it_was_at_its_start() -> None:
    """Bytes from before this agent's claim do not count: the agent before it may have estimated them."""
    claim = Claim(what="lead g", term=2, since=108.0)
    exact = ExactReads(began_at=100.0, leadership=Elected(Claims({}, whole=claim)))
    exact.see({"g": group(member("m1", "c", 0))}, {"t": 4}, {})
    exact.post("g", counters(500, age=3), now=110.0)
    exact.post("g", counters(600, age=4), now=111.0)
    assert collected(exact) == {("g", "m1"): 100.0}


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
