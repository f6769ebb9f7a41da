"""The owner of a partition that several members claim: that of the newest generation, or none if this is ambiguous."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given

from samerack.assignors.build import MemberInput, build_problem
from samerack.assignors.check import check, transferring, withhold
from samerack.assignors.consumer.registry import ASSIGNORS, DEFAULTS, Options
from samerack.assignors.problem import NOBODY, AssignmentError, Problem
from tests.unit.assignors import groups


def claimed(*claims: tuple[str, list[int], int], count: int = 2) -> Problem:
    """Members of one topic, each with its claimed partitions and their generation."""
    return build_problem(
        topics={"t": [[]] * count},
        members=[
            MemberInput(id=member, topics=("t",), owned={"t": numbers}, generation=generation)
            for member, numbers, generation in claims
        ],
    )


@pytest.mark.parametrize("names", [("a", "b"), ("b", "a")])
def test_newest_generation_wins(names: tuple[str, str]) -> None:
    """A claim of an older generation yields to a newer one, whichever member comes first."""
    problem = claimed((names[0], [0, 1], 5), (names[1], [0, 1], 3))
    assert [problem.members[index] for index in problem.owner] == [names[0]] * 2
    assert problem.contested is None


def test_older_claim_that_nobody_contests_counts() -> None:
    """A member of an older generation keeps what no other member claims."""
    problem = claimed(("a", [0], 5), ("b", [1], 3))
    assert problem.owner.tolist() == [0, 1]


def test_equal_generations_make_nobody_the_owner() -> None:
    """A partition that two members claim in the newest generation has no owner, but a member may still read it."""
    problem = claimed(("a", [0, 1], 5), ("b", [1], 5), ("c", [1], 4))
    assert problem.owner.tolist() == [0, NOBODY]
    assert problem.contested is not None
    assert problem.contested.tolist() == [False, True]


def test_unknown_generations_are_the_oldest() -> None:
    """A claim without a generation yields to every claim with one, and ties with another one without."""
    problem = claimed(("a", [0, 1], -1), ("b", [0], 0), ("c", [1], -1))
    assert problem.owner.tolist() == [1, NOBODY]


def test_contested_partition_is_withheld() -> None:
    """A cooperative round withholds what two members may be reading, and the check requires it."""
    problem = claimed(("a", [0, 1], 5), ("b", [1], 5))
    final = ASSIGNORS["cooperative-sticky"].assign(problem, DEFAULTS)
    assert sorted(final.tolist()) == [0, 1]
    assert transferring(problem, final).tolist() == [False, True]
    assert withhold(problem, final).tolist() == [0, NOBODY]
    check(problem, withhold(problem, final), cooperative=True)
    with pytest.raises(AssignmentError, match=r"t-1 .*was not withheld"):
        check(problem, final, cooperative=True)
    check(problem, final, cooperative=False)


def _left(*, generation: int, other: int | None = None) -> Problem:
    """Member a claims t-0 and t-1 but no longer subscribes to t; b subscribes, and may claim t-1 as well."""
    others_owned = {"t": [1]} if other is not None else {}
    return build_problem(
        topics={"s": [[]], "t": [[]] * 3},
        members=[
            MemberInput(id="a", topics=("s",), owned={"t": [0, 1, 2**31 - 1], "s": [0]}, generation=generation),
            MemberInput(id="b", topics=("t", "s"), owned=others_owned, generation=-1 if other is None else other),
        ],
    )


def test_an_owner_without_a_subscription_withholds_its_partitions() -> None:
    """It may still read them until it has revoked them, as in Java; it does not count as their present owner."""
    problem = _left(generation=5)
    assert problem.owner.tolist() == [0, NOBODY, NOBODY, NOBODY]
    assert problem.contested is not None
    assert problem.contested.tolist() == [False, True, True, False]
    final = ASSIGNORS["cooperative-sticky"].assign(problem, DEFAULTS)
    sent = withhold(problem, final)
    assert (final.tolist(), sent.tolist()) == ([0, 1, 1, 1], [0, NOBODY, NOBODY, 1])
    check(problem, sent, cooperative=True)
    with pytest.raises(AssignmentError, match=r"t-0 .*was not withheld"):
        check(problem, final, cooperative=True)


@pytest.mark.parametrize(("other", "owner", "contested"), [(6, 1, False), (5, NOBODY, True), (4, NOBODY, True)])
def test_a_claim_without_a_subscription_is_as_old_as_its_generation(other: int, owner: int, *, contested: bool) -> None:
    """A newer claim of a subscriber makes it the owner; an equal or older one does not."""
    problem = _left(generation=5, other=other)
    assert problem.owner[2] == owner
    assert problem.contested is not None
    assert problem.contested[2] == contested


@pytest.mark.parametrize("name", ASSIGNORS)
@given(problem=groups.problems(max_partitions=12, max_members=8))
def test_every_assignor_gives_each_partition_once(problem: Problem, name: str) -> None:
    """Each partition goes to one subscriber, and in the first cooperative round to none but its owner."""
    owner = ASSIGNORS[name].assign(problem, DEFAULTS)
    check(problem, owner, cooperative=False)
    check(problem, withhold(problem, owner), cooperative=True)


@given(problem=groups.problems(max_partitions=12, max_members=8))
def test_without_stickiness_nothing_is_kept_for_its_own_sake(problem: Problem) -> None:
    """KIP-54, "Alternatives Yet to be Considered": without stickiness the plan is the one of a new group."""
    assignor, options = ASSIGNORS["sticky"], Options(stickiness=False)
    fresh = replace(problem, owner=np.full(len(problem.owner), NOBODY, np.int32), contested=None)
    assert assignor.assign(problem, options).tolist() == assignor.assign(fresh, DEFAULTS).tolist()
