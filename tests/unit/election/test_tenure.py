"""What an agent measures: each group is measured by one agent."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from samerack.election.leadership_state import EVERYTHING, NOTHING, Tenure, Tenures
from samerack.election.member import choose
from samerack.election.messages import Advertisement, Verdict, lead, observe

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
