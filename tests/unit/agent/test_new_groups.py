"""A group is being born only if lists of the groups that rebalance would have shown any earlier birth of it."""

from __future__ import annotations

from functools import partialmethod

from samerack.agent.led_groups import GroupList, NewGroups

DELAY = 3.0
BOTH = frozenset({1, 2})


class Lists:
    """Lists of two brokers, each answered within a tenth of a second."""

    def __init__(self) -> None:
        self.new_groups = NewGroups()

    def _add(
        self,
        at: float,
        *groups: str,
        full: bool,
        complete: bool = True,
        brokers: frozenset[int] = BOTH,
        took: float = 0.1,
        delay: float | None = DELAY,
    ) -> dict[str, float]:
        listed = GroupList(
            groups=frozenset(groups), brokers=brokers, complete=complete, full=full, asked_at=at, answered_at=at + took
        )
        return self.new_groups.add(listed, delay)

    full = partialmethod(_add, full=True)  # all groups are listed
    quick = partialmethod(_add, full=False)  # only groups that rebalance are listed


def test_what_no_list_has_shown_before_is_being_born() -> None:
    """Its first member joined after the complete list before was asked for; the next list shows nothing new."""
    lists = Lists()
    assert lists.full(0, "runs") == {}
    assert lists.quick(0.5, "runs") == {}
    assert lists.quick(1.0, "runs", "new") == {"new": 0.5}
    assert lists.quick(1.5, "new") == {}
    assert lists.full(2.0, "runs", "new", "newer") == {"newer": 1.5}


def test_before_the_first_complete_list_of_all_groups_nothing_is_proved() -> None:
    """What rebalances then may have run for hours."""
    lists = Lists()
    assert lists.quick(0, "runs") == {}
    assert lists.full(0.2, complete=False) == {}
    assert lists.quick(0.5, "runs too") == {}
    assert not lists.new_groups.are_seen
    lists.full(1.0)
    assert lists.quick(1.5, "new") == {"new": 1.0}


def test_a_list_that_comes_after_the_delay_proves_nothing() -> None:
    """A birth in between is over; also if the answer alone is late. The next list of all groups begins anew."""
    for at, took in ((3.0, 0.1), (2.0, 1.0)):
        lists = Lists()
        lists.full(0)
        assert lists.quick(at, "runs", took=took) == {}
        assert not lists.new_groups.are_seen
        assert lists.quick(at + 1.5, "runs too") == {}
        lists.full(at + 2, "runs", "runs too")
        assert lists.quick(at + 2.5, "new") == {"new": at + 2}


def test_a_list_with_a_gap_counts_as_none() -> None:
    """A broker that does not answer, or loads groups, may know of a birth; two complete lists may be near enough."""
    lists = Lists()
    lists.full(0)
    assert lists.quick(0.5, "new", complete=False) == {"new": 0}
    assert lists.quick(1.0, "newer") == {"newer": 0}
    assert lists.quick(1.5, "newest", complete=False) == {"newest": 1.0}
    assert lists.quick(3.5, complete=False) == {}
    assert lists.quick(4.0, "runs") == {}


def test_other_brokers_than_before_may_bring_groups() -> None:
    """A broker that has just come may coordinate groups that were born there before it was asked."""
    lists = Lists()
    lists.full(0)
    assert lists.quick(0.5, "runs there", brokers=BOTH | {3}) == {}
    assert not lists.new_groups.are_seen
    lists.full(0.6, "runs there", brokers=BOTH | {3})
    assert lists.quick(1.0, "new", brokers=BOTH | {3}) == {"new": 0.6}


def test_without_the_brokers_delay_nothing_is_proved() -> None:
    """Where the agent may not read it, a birth may be shorter than the time between two lists."""
    lists = Lists()
    lists.full(0, delay=None)
    assert lists.quick(0.5, "new", delay=None) == {}
    lists.full(1.0)
    assert lists.quick(1.5, "newer", delay=None) == {}
    assert lists.quick(2.0, "newest") == {}


def test_a_group_that_one_list_misses_is_not_born_anew() -> None:
    """While its coordinator moves no broker lists it; what has ceased to exist for longer may be born again."""
    lists = Lists()
    lists.full(0)
    lists.quick(0.5, "runs")
    lists.full(1.0)
    assert lists.quick(1.5, "runs") == {}
    for at in (2.0, 3.0, 4.0):
        lists.full(at)
    assert lists.quick(4.5, "runs") == {"runs": 4.0}
