"""The result of an election and of what outside agents report: claims and racks."""

from __future__ import annotations

from samerack.election.messages import Advertisement, Verdict, encode, lead, observe
from samerack.election.outcome import ElectionOutcome
from samerack.election.registry import Registry
from tests.unit.election.described import agent, agents_group

OUTSIDE = "samerack-waiting-00"
ACTIVE = Verdict(term=3, agents=2, active=frozenset({observe("*")}), counting=frozenset({observe("*")}))


class SimulatedReader:
    """Reads when a test says so."""

    def __init__(self, *, fresh: bool = True) -> None:
        self.registry = Registry("samerack", (OUTSIDE,))
        self.fresh = fresh
        self.active = False

    def follow(self, *, active: bool) -> None:
        """Store whether the agent is active."""
        self.active = active

    def is_fresh(self) -> bool:
        """The value that the test sets."""
        return self.fresh

    def read(self, *presences: Advertisement) -> None:
        """Read these advertisements of outside agents."""
        members = [agent(str(number), metadata=encode(one)) for number, one in enumerate(presences)]
        self.registry.take(OUTSIDE, agents_group(members), asked_at=1)
        self.registry.sum_up(1)
        self.fresh = True


def test_claims_go_on_while_the_agent_stays_the_same_member() -> None:
    """A claim that was lost in between starts anew, because another agent may have counted."""
    outcome = ElectionOutcome(SimulatedReader())
    outcome.elected(ACTIVE, "m")
    first = outcome.claims.of_group("orders")
    assert first is not None
    outcome.elected(ACTIVE.model_copy(update={"term": 4}), "m")
    assert outcome.claims.of_group("orders") == first
    outcome.elected(ACTIVE.model_copy(update={"term": 6}), "n")
    assert outcome.claims.of_group("orders") not in (None, first)


def test_groups_are_counted_once_those_outside_are_known() -> None:
    """Members that post to an outside agent are excluded from the start."""
    reader = SimulatedReader(fresh=False)
    outcome = ElectionOutcome(reader)
    outcome.elected(ACTIVE, "m")
    assert reader.active
    assert outcome.claims.of_group("orders") is None
    assert not outcome.knows_those_outside()
    reader.read(Advertisement(rack="rack-a", addresses=("10.0.0.1",), reporting=(("orders", "m1"),)))
    assert not outcome.knows_those_outside()
    assert outcome.settle()
    assert outcome.knows_those_outside()
    assert outcome.claims.of_group("orders") is not None
    assert outcome.claims.elsewhere("orders") == {"m1"}
    assert outcome.racks == {"10.0.0.1": "rack-a"}
    assert not outcome.settle()


def test_what_clients_send_outside_is_left_out_as_soon_as_it_is_read() -> None:
    """Claims without the exclusion end; the claim to the group itself stays."""
    reader = SimulatedReader()
    outcome = ElectionOutcome(reader)
    outcome.elected(ACTIVE, "m")
    before = outcome.claims.of_group("orders")
    reader.read(Advertisement(reporting=(("orders", "m1"), ("orders", "m2"))))
    assert not outcome.knows_those_outside()
    assert not outcome.settle()
    assert outcome.knows_those_outside()
    assert outcome.claims.of_group("orders") == before
    assert not outcome.claims.of_member("orders", "m2")


def test_an_agent_leaves_out_only_what_it_might_count() -> None:
    """Of a thousand sidecars it needs only the posts of clients in groups that it may count."""
    reader = SimulatedReader()
    reader.read(Advertisement(reporting=(("orders", "m1"), ("payments", "m2"))))
    outcome = ElectionOutcome(reader)
    responsibility = lead("orders")
    outcome.elected(
        Verdict(term=1, agents=1, active=frozenset({responsibility}), counting=frozenset({responsibility})), "m"
    )
    assert outcome.claims.elsewhere("orders") == {"m1"}
    assert outcome.claims.elsewhere("payments") == frozenset()


def test_an_address_that_two_say_to_be_in_two_racks_says_nothing() -> None:
    """An address in two racks is ignored, whether or not one of its agents is in the election."""
    reader = SimulatedReader()
    reader.read(Advertisement(rack="rack-a", addresses=("10.0.0.1", "10.0.0.2")))
    outcome = ElectionOutcome(reader)
    outcome.elected(ACTIVE.model_copy(update={"racks": {"10.0.0.1": "rack-b", "10.0.0.3": "rack-c"}}), "m")
    assert outcome.racks == {"10.0.0.2": "rack-a", "10.0.0.3": "rack-c"}


def test_one_that_is_displaced_or_waits_is_active_for_nothing() -> None:
    """A displaced agent counts nothing and knows no racks; if the same member returns, its old claims are void."""
    reader = SimulatedReader()
    outcome = ElectionOutcome(reader)
    outcome.elected(ACTIVE.model_copy(update={"racks": {"10.0.0.1": "rack-b"}}), "m")
    first = outcome.claims.of_group("orders")
    outcome.end()
    assert outcome.verdict == Verdict(term=3, agents=0)
    assert (outcome.claims.of_group("orders"), outcome.racks, outcome.term) == (None, {}, 3)
    assert not reader.active
    assert outcome.elected(ACTIVE.model_copy(update={"term": 4}), "m")
    assert outcome.claims.of_group("orders") not in (None, first)
