"""What two polls of committed offsets show, case by case, each with the report that it comes from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samerack.traffic.collect import Offsets
from samerack.traffic.positions import Left, Polls, Span, named, spans_of
from samerack.traffic.snapshot import Uncounted

P0, P1 = ("t", 0), ("t", 1)
GB: Final = 1_000_000
"""A thousand million bytes in records of a thousand bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Offsets of one partition at two polls five seconds apart, and what comes of them.

    Attributes:
        before: Committed; None for no commit.
        now: The same now.
        log_before: First and end offset of the log.
        log: The same now.
        owned_before: Whether somebody owned it.
        owned: Whether somebody owns it now.
        bare: Whether the commit has no leader epoch, though those of the group's consumers have one.
        epochs: Whether they have.
        simple: Whether the group never has members.
        read: First offset and end of what counts.
        left: What does not count, and how much of it.
    """

    before: int | None
    now: int
    log_before: tuple[int, int] | None = (0, 1000 * GB)
    log: tuple[int, int] = (0, 1000 * GB)
    owned_before: bool = True
    owned: bool = True
    bare: bool = False
    epochs: bool = True
    simple: bool = False
    read: tuple[int, int] | None = None
    left: tuple[Uncounted, int] | None = None


CASES: Final = {
    "a consumer that reads": Case(before=10, now=15, read=(10, 15)),
    "nothing new": Case(before=10, now=10),
    "a first commit far in the log: it began at latest, or at a timestamp": Case(
        before=None, now=600 * GB, left=(Uncounted.BEGIN_UNKNOWN, 600 * GB)
    ),
    "a first commit in a log that was empty": Case(before=None, now=7, log_before=(5, 5), read=(5, 7)),
    "a first commit in a log that was not seen before": Case(
        before=None, now=7, log_before=None, log=(2, 9), left=(Uncounted.BEGIN_UNKNOWN, 5)
    ),
    "a first commit at the log's start": Case(before=None, now=5, log_before=(5, 9)),
    "offsets reset forward while the group was empty": Case(
        before=1, now=600 * GB, owned_before=False, owned=False, bare=True, left=(Uncounted.MOVED, 600 * GB - 1)
    ),
    "... by an older tool, in a group of older clients": Case(
        before=1, now=9, owned_before=False, owned=False, epochs=False, bare=True, left=(Uncounted.MOVED, 8)
    ),
    "... and the group started again between the polls": Case(
        before=1, now=600 * GB, owned_before=False, bare=True, left=(Uncounted.MOVED, 600 * GB - 1)
    ),
    "... of older clients": Case(
        before=1, now=600 * GB, owned_before=False, epochs=False, left=(Uncounted.MOVED, 600 * GB - 1)
    ),
    "stopped, reset and started between two polls": Case(before=1, now=9, bare=True, left=(Uncounted.MOVED, 8)),
    "a consumer that came and went between two polls": Case(
        before=1, now=9, owned_before=False, owned=False, read=(1, 9)
    ),
    "one of older clients that has started": Case(before=1, now=9, owned_before=False, epochs=False, read=(1, 9)),
    "the last commit of one that has left": Case(before=1, now=9, owned=False, epochs=False, bare=True, read=(1, 9)),
    "a reader that is no member, such as Flink's": Case(
        before=1, now=9, owned_before=False, owned=False, epochs=False, bare=True, simple=True, read=(1, 9)
    ),
    "retention deleted what was not read": Case(
        before=0, now=599 * GB + 500, log=(599 * GB, 600 * GB), read=(599 * GB, 599 * GB + 500),
        left=(Uncounted.DELETED, 599 * GB),
    ),
    "a commit below the log's start": Case(before=1, now=3, log=(9, 20), left=(Uncounted.DELETED, 2)),
}  # fmt: skip


def _log(offsets: tuple[int, int]) -> Offsets:
    return Offsets(start=offsets[0], end=offsets[1])


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_what_was_read(case: Case) -> None:
    """Between two known positions, as far as the log had it; the rest is named."""
    found = spans_of(
        Polls(
            before={} if case.before is None else {P0: case.before},
            now={P0: case.now},
            owned_before={P0} if case.owned_before else set(),
            owned={P0} if case.owned else set(),
            logs_before={} if case.log_before is None else {P0: _log(case.log_before)},
            logs={P0: _log(case.log)},
            bare={P0} if case.bare else set(),
            commits_have_epochs=case.epochs,
            without_members=case.simple,
            seconds=5.0,
        )
    )
    assert found.spans == (() if case.read is None else (Span(partition=P0, first=case.read[0], end=case.read[1]),))
    assert found.left == (() if case.left is None else (Left(partition=P0, why=case.left[0], records=case.left[1]),))
    assert named(found.left) == ({} if case.left is None else {case.left[0]: case.left[1]})


def test_what_went_back_and_what_is_not_committed() -> None:
    """An offset that went back, and an owned partition without one, are listed."""
    found = spans_of(Polls(before={P0: 10, P1: 9}, now={P0: 10, P1: 4}, owned={P0, P1, ("t", 2)}))
    assert (found.rewound, found.uncommitted) == (frozenset({P1}), frozenset({("t", 2)}))
    assert found.spans == ()


def test_the_first_poll_shows_nothing() -> None:
    """Offsets that were committed before the agent started are its start."""
    assert spans_of(Polls(before=None, now={P0: 15}, owned={P0})).spans == ()


POLLS = st.builds(
    Polls,
    before=st.fixed_dictionaries({P0: st.integers(0, 100)}),
    now=st.fixed_dictionaries({P0: st.integers(0, 100)}),
    owned_before=st.sets(st.just(P0)),
    owned=st.sets(st.just(P0)),
    logs=st.fixed_dictionaries({P0: st.builds(Offsets, start=st.integers(0, 100), end=st.just(200))}),
    bare=st.sets(st.just(P0)),
    commits_have_epochs=st.booleans(),
    without_members=st.booleans(),
    seconds=st.just(5.0),
)


@given(POLLS)
def test_no_record_counts_twice_or_without_having_been_there(polls: Polls) -> None:
    """What counts and what is left out add up to the step of the offset."""
    found = spans_of(polls)
    assert polls.before is not None
    read = sum(span.end - span.first for span in found.spans)
    assert read + sum(one.records for one in found.left) == max(0, polls.now[P0] - polls.before[P0])
    assert all(span.first >= polls.logs[P0].start for span in found.spans)
