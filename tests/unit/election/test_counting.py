"""What an agent counts: each group is counted by one agent, and a client's posts by the agent that gets them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from samerack.election.choice import choose
from samerack.election.counting import EVERYTHING, NOTHING, Claim, Claims
from samerack.election.messages import Advertisement, ReportingMember, Verdict, lead, observe

GROUPS = ("orders", "orders-eu", "payments", "reports")
RESPONSIBILITIES = (lead("orders"), lead("payments"), observe("*"), observe("orders*"), observe("pay*"))

presences = st.dictionaries(
    st.sampled_from("abcd"),
    st.builds(
        Advertisement,
        identity=st.sampled_from("xyz"),
        responsibilities=st.lists(st.sampled_from(RESPONSIBILITIES), unique=True).map(tuple),
        reporting=st.lists(st.tuples(st.sampled_from(GROUPS), st.sampled_from(["m1", "m2"])), unique=True).map(tuple),
    ),
    min_size=1,
)


def claims(verdict: Verdict) -> Claims:
    """The claims of a verdict."""
    given: tuple[str | ReportingMember, ...] = (*verdict.active, *verdict.reporting)
    held = {what: Claim(what=what, term=verdict.term, since=0.0) for what in given}
    return Claims(held, responsibilities=verdict.counting, elsewhere=verdict.elsewhere)


def measures(advertisement: Advertisement, group: str) -> bool:
    """Whether an agent polls a group at all."""
    if not any(responsibility.startswith("observe") for responsibility in advertisement.responsibilities):
        return lead(group) in advertisement.responsibilities
    return any(
        responsibility == observe("*")
        or (responsibility.startswith("observe") and group.startswith(responsibility[len("observe ") : -1]))
        for responsibility in advertisement.responsibilities
    )


@given(presences)
def test_each_group_is_counted_by_one_agent_that_measures_it(present: dict[str, Advertisement]) -> None:
    """Overlapping patterns change nothing; if a leader does not measure the group, it may be counted by none."""
    verdicts = choose(present, 1)
    for group in GROUPS:
        counting = [member for member, verdict in verdicts.items() if claims(verdict).of_group(group) is not None]
        assert all(measures(present[member], group) for member in counting)
        assert len(counting) <= 1
        leaders = [advertisement for advertisement in present.values() if lead(group) in advertisement.responsibilities]
        if all(measures(advertisement, group) for advertisement in leaders):
            assert len(counting) == any(measures(advertisement, group) for advertisement in present.values())


@given(presences)
def test_what_a_client_sends_is_counted_by_one_agent(present: dict[str, Advertisement]) -> None:
    """An agent that gets the posts counts them, and the agent that counts the group leaves them out."""
    verdicts = choose(present, 1)
    for reporting in {one for advertisement in present.values() for one in advertisement.reporting}:
        counting = [member for member, verdict in verdicts.items() if claims(verdict).of_member(*reporting)]
        assert len(counting) == 1
        assert reporting in present[counting[0]].reporting
        for member, verdict in verdicts.items():
            if claims(verdict).of_group(reporting[0]) is not None:
                assert (reporting[1] in claims(verdict).elsewhere(reporting[0])) == (member not in counting)


def test_leading_goes_before_patterns_and_the_longest_pattern_first() -> None:
    """The agent that may lead a group counts it; else the one with the longest pattern does."""
    verdicts = choose(
        {
            "a": Advertisement(identity="a", responsibilities=(lead("orders"), observe("*"))),
            "b": Advertisement(identity="b", responsibilities=(observe("orders*"),)),
        },
        1,
    )
    of_a, of_b = claims(verdicts["a"]), claims(verdicts["b"])
    assert [group for group in GROUPS if of_a.of_group(group)] == ["orders", "payments", "reports"]
    assert [group for group in GROUPS if of_b.of_group(group)] == ["orders-eu"]


def test_alone_an_agent_counts_everything_and_before_an_election_nothing() -> None:
    """Alone an agent counts all groups and members, and before an election none."""
    assert EVERYTHING.of_group("any") in EVERYTHING.of_member("any", "m")
    assert EVERYTHING.counts_groups
    assert NOTHING.of_group("any") is None
    assert not NOTHING.of_member("any", "m")
    assert not NOTHING.counts_groups
