"""What an agent is responsible for by elections, and which groups it measures."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samerack.election.election import Election
from samerack.election.leadership_state import EVERYTHING, NOTHING, LeadershipState, Tenure, Tenures
from samerack.election.member import choose
from samerack.election.messages import Advertisement, Verdict, encode, lead, observe
from samerack.election.registry import Registry
from samerack.settings.loading import load
from tests.unit.election.described import agent, agents_group

OUTSIDE = "samerack-waiting-00"
EVERY = frozenset({observe("*")})
ACTIVE = Verdict(term=3, agents=2, active=EVERY, measuring=EVERY)


class SimulatedReader:
    """Reads when a test says so."""

    def __init__(self) -> None:
        self.registry = Registry("samerack")
        self.active = False

    def follow(self, active: bool) -> None:  # noqa: FBT001 - as it is called
        """Store whether the agent is active."""
        self.active = active

    def read(self, *advertisements: Advertisement) -> None:
        """Read these advertisements of waiting agents."""
        members = [agent(str(number), metadata=encode(one)) for number, one in enumerate(advertisements)]
        self.registry.take(OUTSIDE, agents_group(members))
        self.registry.sum_up(1)


class Results(LeadershipState):
    """What an agent knows of elections that a test holds."""

    def __init__(self) -> None:
        self.reader = SimulatedReader()
        super().__init__(group="samerack", identity="me", registry=self.reader.registry, follow=self.reader.follow)

    def elected(self, verdict: Verdict, *, member_id: str = "m", offered: frozenset[str] = EVERY) -> Tenure | None:
        """Hold an election; return the tenure in which the agent measures the group orders."""
        self._elected(verdict, member_id, offered)
        return self.tenures.of_group("orders")


@pytest.fixture
def results() -> Results:
    """An agent before its first election."""
    return Results()


def test_a_tenure_goes_on_while_the_agent_stays_the_same_member(results: Results) -> None:
    """One that was lost in between starts anew, because another agent may have measured."""
    first = results.elected(ACTIVE)
    assert first is not None
    assert results.elected(ACTIVE.model_copy(update={"term": 4})) == first
    assert results.elected(ACTIVE.model_copy(update={"term": 6}), member_id="n") not in (None, first)


def test_a_group_that_is_observed_and_then_led_is_measured_without_interruption(results: Results) -> None:
    """An agent that finds a group of a pattern of `groups` has measured it until then."""
    first = results.elected(ACTIVE)
    both = EVERY | {lead("orders")}
    leading = ACTIVE.model_copy(update={"term": 4, "active": both, "measuring": both})
    assert results.elected(leading, offered=both) == first
    assert results.elected(ACTIVE.model_copy(update={"term": 5})) == first
    elsewhere = ACTIVE.model_copy(update={"term": 6, "measuring": both})
    assert results.elected(elsewhere) is None
    assert results.elected(leading.model_copy(update={"term": 7}), offered=both) not in (None, first)


@pytest.mark.parametrize(
    ("verdicts", "offered", "succeeds"),
    [
        ([ACTIVE.model_copy(update={"agents": 1})], [EVERY], False),
        ([ACTIVE], [EVERY], True),
        ([Verdict(term=2, agents=2), ACTIVE], [EVERY, EVERY], True),
        ([Verdict(term=2, agents=2), ACTIVE], [frozenset(), EVERY], False),
        ([None, ACTIVE], [EVERY, EVERY], True),
        ([ACTIVE.model_copy(update={"agents": 1}), None, ACTIVE.model_copy(update={"term": 5})], [EVERY] * 3, True),
    ],
    ids=[
        "the first agent",
        "it comes to another one",
        "a standby",
        "what it offers only now",
        "it has waited outside",
        "it was away",
    ],
)
def test_another_agent_may_have_measured_before(
    results: Results,
    verdicts: list[Verdict | None],
    offered: list[frozenset[str]],
    succeeds: bool,  # noqa: FBT001 - a table
) -> None:
    """That is so unless this is the first agent, or offers for the first time what it gets at once."""
    for verdict, each in zip(verdicts, offered, strict=True):
        if verdict is None:
            results._end()
        else:
            tenure = results.elected(verdict, offered=each)
    assert tenure is not None
    assert tenure.succeeds is succeeds


def test_an_address_that_two_say_to_be_in_two_racks_says_nothing(results: Results) -> None:
    """An address in two racks is ignored, whether or not one of its agents is in the election."""
    results.reader.read(Advertisement(rack="rack-a", addresses=("10.0.0.1", "10.0.0.2")))
    results.elected(ACTIVE.model_copy(update={"racks": {"10.0.0.1": "rack-b", "10.0.0.3": "rack-c"}}))
    assert results.racks == {"10.0.0.2": "rack-a", "10.0.0.3": "rack-c"}
    results.reader.read(Advertisement(rack="rack-a", addresses=("10.0.0.4",)))
    results._merge_racks()
    assert results.racks["10.0.0.4"] == "rack-a"


def test_one_that_is_displaced_or_waits_is_active_for_nothing(results: Results) -> None:
    """A displaced agent measures nothing and knows no racks; if the same member returns, its old tenures are void."""
    first = results.elected(ACTIVE.model_copy(update={"racks": {"10.0.0.1": "rack-b"}}))
    results._end()
    assert (results.tenures.of_group("orders"), results.racks, results.term) == (None, {}, 3)
    assert (results.agents, results.held, results.reader.active) == (0, frozenset(), False)
    assert results.elected(ACTIVE.model_copy(update={"term": 4})) not in (None, first)


def test_what_an_agent_measures_is_in_doubt_while_another_one_may_be_elected() -> None:
    """That is so without contact to the coordinator, in an election, and while the agent ends."""
    settings = load(flags={"kafka": {"bootstrap.servers": "127.0.0.1:1"}}, environment={})
    election = Election(settings, advertisement=Advertisement(identity="a"))
    election._reader.stop()  # nothing is to be connected
    assert election.sure_tenures() is NOTHING
    election._elected(ACTIVE, "m")
    assert election.sure_tenures() is None
    member: Any = SimpleNamespace(is_sure_of=lambda verdict: verdict.term == 3)
    election._member = member
    assert election.sure_tenures() is election.tenures
    assert election.is_surely_active(observe("*"))
    election._elected(ACTIVE.model_copy(update={"term": 4}), "m")
    assert (election.sure_tenures(), election.is_surely_active(observe("*"))) == (None, False)
    election._refuse("not allowed")
    assert election.sure_tenures() is EVERYTHING
    election._refuse("")
    election._elected(ACTIVE, "m")
    assert election.sure_tenures() is election.tenures
    election.stop()
    assert election.sure_tenures() is None


@pytest.mark.parametrize(
    ("groups", "polls"),
    [
        ([agents_group([agent("b")], stable=False), agents_group([])], 2),
        ([agents_group([agent("b", metadata=encode(Advertisement(responsibilities=(lead("payments"),))))])], 1),
        ([agents_group([agent("b", metadata=encode(Advertisement(responsibilities=(lead("orders"),))))])], 3),
    ],
    ids=["others elect and leave", "nobody else may lead it", "another one may lead it"],
)
def test_an_agent_that_ends_sees_whether_others_are_left_in_the_election(groups: list[Any], polls: int) -> None:
    """It waits for a successor only while there may be one, and watches only while a group waits."""
    settings = load(flags={"kafka": {"bootstrap.servers": "127.0.0.1:1"}}, environment={})
    election, asked = Election(settings, advertisement=Advertisement(identity="a")), 0
    election._reader.stop()  # nothing is to be connected
    held = frozenset({lead("orders")})
    election._elected(Verdict(term=3, agents=2, active=held, with_standby=held), "m")

    def poll() -> Any:
        nonlocal asked
        asked += 1
        election.wake()
        return groups[min(asked, len(groups)) - 1]

    waiting: Any = SimpleNamespace(poll=poll)
    election.hands_over = lambda: asked < 3 and election.has_standby(lead("orders"))
    election._watch_successors(waiting)
    assert asked == 0, "it watches before it ends"
    election.stop()
    election._watch_successors(waiting)
    assert asked == polls
    assert election.has_standby(lead("orders")) == (polls == 3)
    assert election.is_active(lead("orders")), "it leads until it has left"


GROUPS = ("orders", "orders-eu", "payments", "reports")
RESPONSIBILITIES = (lead("orders"), lead("payments"), observe("*"), observe("orders*"), observe("pay*"))

presences = st.dictionaries(
    st.sampled_from("abcd"),
    st.builds(
        Advertisement,
        identity=st.sampled_from("xyz"),
        responsibilities=st.lists(st.sampled_from(RESPONSIBILITIES), unique=True).map(tuple),
    ),
    min_size=1,
)


def tenures(verdict: Verdict) -> Tenures:
    """The tenures of a verdict."""
    held = {what: Tenure(what=what, term=verdict.term) for what in verdict.active}
    return Tenures(held, measuring=verdict.measuring)


def polls(advertisement: Advertisement, group: str) -> bool:
    """Whether an agent polls a group at all."""
    if not any(responsibility.startswith("observe") for responsibility in advertisement.responsibilities):
        return lead(group) in advertisement.responsibilities
    return any(
        responsibility == observe("*")
        or (responsibility.startswith("observe") and group.startswith(responsibility[len("observe ") : -1]))
        for responsibility in advertisement.responsibilities
    )


@given(presences)
def test_each_group_is_measured_by_one_agent(present: dict[str, Advertisement]) -> None:
    """Overlapping patterns change nothing; if a leader does not poll the group, it may be measured by none."""
    verdicts = choose(present, 1)
    for group in GROUPS:
        measuring = [member for member, verdict in verdicts.items() if tenures(verdict).of_group(group) is not None]
        assert all(polls(present[member], group) for member in measuring)
        assert len(measuring) <= 1
        leaders = [advertisement for advertisement in present.values() if lead(group) in advertisement.responsibilities]
        if all(polls(advertisement, group) for advertisement in leaders):
            assert len(measuring) == any(polls(advertisement, group) for advertisement in present.values())


def test_leading_goes_before_patterns_and_the_longest_pattern_first() -> None:
    """The agent that may lead a group measures it; else the one with the longest pattern does."""
    verdicts = choose(
        {
            "a": Advertisement(identity="a", responsibilities=(lead("orders"), observe("*"))),
            "b": Advertisement(identity="b", responsibilities=(observe("orders*"),)),
        },
        1,
    )
    of_a, of_b = tenures(verdicts["a"]), tenures(verdicts["b"])
    assert [group for group in GROUPS if of_a.of_group(group)] == ["orders", "payments", "reports"]
    assert [group for group in GROUPS if of_b.of_group(group)] == ["orders-eu"]


def test_alone_an_agent_measures_everything_and_before_an_election_nothing() -> None:
    """Alone an agent measures all groups, which nobody did before, and before an election none."""
    alone = EVERYTHING.of_group("any")
    assert alone is not None
    assert not alone.succeeds
    assert EVERYTHING.of_pattern("*") == alone
    assert NOTHING.of_group("any") is None
    assert not NOTHING.held
