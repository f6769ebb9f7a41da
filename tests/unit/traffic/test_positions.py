"""What two polls of committed offsets show, case by case, each with the report that it comes from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samerack.traffic.collect import Offsets
from samerack.traffic.positions import CommitSpans, Polls, Position, Positions, Span, spans_of
from samerack.traffic.snapshot import Uncounted
from tests.unit.traffic.histories import History, played

P0, P1 = ("t", 0), ("t", 1)
GB: Final = 1_000_000
"""A thousand million bytes in records of a thousand bytes."""
NETWORK: Final = 1.25e9


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
        alone: Whether it is known to be read without.
        step: How many records the last step had.
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
    alone: bool = False
    step: int = 100
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
    "a reader that is no member, and is known to be one, such as Flink's": Case(
        before=1, now=9, owned_before=False, owned=False, epochs=False, bare=True, simple=True, alone=True, read=(1, 9)
    ),
    "... and commits with leader epochs, as Java's with assign()": Case(
        before=1, now=9, owned_before=False, owned=False, simple=True, read=(1, 9)
    ),
    "a tool that copies offsets, such as MirrorMaker's": Case(
        before=1, now=9, owned_before=False, owned=False, epochs=False, bare=True, simple=True,
        left=(Uncounted.NO_READER, 8),
    ),
    "a commit beyond the end of the log (KAFKA-12635)": Case(
        before=100, now=9 * GB, log=(0, 100), left=(Uncounted.BEYOND_END, 9 * GB - 100)
    ),
    "a seek to the end, faster than any network": Case(before=1, now=600 * GB, left=(Uncounted.MOVED, 600 * GB - 1)),
    "retention deleted what was not read": Case(
        before=0, now=599 * GB + 500, log=(599 * GB, 600 * GB), step=200, read=(599 * GB, 599 * GB + 500),
        left=(Uncounted.DELETED, 599 * GB),
    ),
    "a commit below the log's start": Case(before=1, now=3, log=(9, 20), left=(Uncounted.DELETED, 2)),
}  # fmt: skip


def _position(offset: int, *, step: int = 0) -> Position:
    return Position(committed=offset, offset=offset, counted=offset, at=0.0, end=1000 * GB, step=step)


def _log(offsets: tuple[int, int]) -> Offsets:
    return Offsets(start=offsets[0], end=offsets[1])


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_what_was_read(case: Case) -> None:
    """Between two known positions, as far as the log had it; the rest is named."""
    before = {} if case.before is None else {P0: _position(case.before, step=case.step)}
    found = spans_of(
        Polls(
            before=before,
            now={P0: case.now},
            at=5.0,
            owned_before={P0} if case.owned_before else set(),
            owned={P0} if case.owned else set(),
            logs_before={} if case.log_before is None else {P0: _log(case.log_before)},
            logs={P0: _log(case.log)},
            bare={P0} if case.bare else set(),
            commits_have_epochs=case.epochs,
            without_members=case.simple,
            reads_alone=case.alone,
            network=NETWORK,
        )
    )
    assert found.spans == (() if case.read is None else (Span(partition=P0, first=case.read[0], end=case.read[1]),))
    assert found.left == ({} if case.left is None else {case.left[0]: case.left[1]})


def test_what_went_back_and_what_is_not_committed() -> None:
    """An offset that went back, and an owned partition without one, are listed."""
    logs = dict.fromkeys((P0, P1), Offsets(start=0, end=20))
    before = {P0: _position(10), P1: _position(9)}
    found = spans_of(Polls(before=before, now={P0: 10, P1: 4}, owned={P0, P1, ("t", 2)}, logs=logs))
    assert (found.rewound, found.uncommitted) == (frozenset({P1}), frozenset({("t", 2)}))
    assert found.spans == ()


def test_the_first_poll_shows_nothing() -> None:
    """Offsets that were committed before the agent started are its start."""
    assert spans_of(Polls(before=None, now={P0: 15}, owned={P0})).spans == ()


def _polled(*offsets: int, written: int = 100, end: int = 1000 * GB, **changed: Any) -> list[CommitSpans]:
    """What polls five seconds apart show of a partition that grows by so many records each time."""
    positions: Positions | None = None
    found = []
    for number, offset in enumerate(offsets):
        logs = {P0: Offsets(start=0, end=end + number * written)}
        now = {P0: offset} if offset >= 0 else {}
        polls = Polls(
            before=positions, now=now, at=5.0 * number, owned={P0}, owned_before={P0}, logs=logs, logs_before=logs
        )
        found.append(spans_of(replace(polls, network=NETWORK, **changed)))
        positions = found[-1].positions
    return found


def _sums(found: list[CommitSpans]) -> tuple[int, dict[Uncounted, int]]:
    records = sum(span.end - span.first for one in found for span in one.spans)
    left: Counter[Uncounted] = Counter()
    for one in found:
        left.update(one.left)
    return records, left


def test_a_commit_that_has_vanished_is_gone() -> None:
    """A first commit at the end of the log, after the former one expired, counted as 4,000,100 records."""
    found = _polled(GB, -1, 5 * GB + 100, 5 * GB + 200, end=5 * GB)
    assert _sums(found) == (100, {Uncounted.BEGIN_UNKNOWN: 5 * GB + 100})


def test_two_readers_of_one_group_count_as_the_one_that_is_ahead() -> None:
    """Offsets of blue and green went back and forth without members: 169.8 million records for 2.46 million."""
    offsets = [reader + 100 * number for number in range(20) for reader in (5 * GB, GB)]
    found = _polled(*offsets, written=50, owned=frozenset(), owned_before=frozenset(), commits_have_epochs=True)
    records, left = _sums(found)
    assert records == 1900
    assert left.keys() == {Uncounted.SEVERAL_POSITIONS}
    assert len([one for one in found if one.rewound]) == 20


def test_a_reader_that_catches_up_counts_once_four_steps_are_alike() -> None:
    """What is read of a log that was there before may be a jump; four steps in a row are none."""
    found = _polled(0, 9000, 18_000, 27_000, 36_000, 40_000)
    assert [sum(span.end - span.first for span in one.spans) for one in found] == [0, 0, 0, 0, 36_000, 4000]
    assert _sums(found)[1] == {}


def test_a_jump_counts_not_even_when_reading_goes_on() -> None:
    """A seek to the end of what lies behind is far beyond what was written, and the next step is not."""
    found = _polled(0, 100, 200, 400_000, 400_100, 400_200)
    assert _sums(found) == (400, {Uncounted.MOVED: 399_800})


def test_members_that_go_back_read_again() -> None:
    """An offset that went back in a partition with an owner counts from there on."""
    found = _polled(40_000, 0, 9000, 18_000, 27_000, 36_000)
    assert _sums(found) == (36_000, {})


def test_what_could_not_be_asked_goes_on_from_where_it_was() -> None:
    """A coordinator that does not answer loses nothing, and a log without an end shows nothing yet."""
    before = {P0: _position(10, step=100), P1: _position(20, step=100)}
    logs = {P0: Offsets(start=0, end=1000)}
    found = spans_of(Polls(before=before, now={P0: 30}, at=5.0, unanswered={P1}, owned={P0, P1}, logs=logs))
    assert found.positions is not None
    assert found.positions[P1] == before[P1]
    found = spans_of(Polls(before=found.positions, now={P0: 30, P1: 90}, at=10.0, owned={P0, P1}, logs=logs))
    assert (found.spans, found.positions) == (
        (),
        {P0: found.positions[P0], P1: before[P1]} if found.positions else None,
    )
    assert _polled(0, 100)[1].spans == (Span(partition=P0, first=0, end=100),)


def _check(histories: Iterable[History]) -> None:
    """No history counts more than was read, beside what is named, and what waits to be confirmed."""
    for history in histories:
        assert history.counted <= history.read + history.named + history.waits, history


@given(st.integers(0, 2**32))
def test_nothing_counts_that_nobody_read(seed: int) -> None:
    """Whatever happens to offsets, logs, readers and brokers."""
    _check([played(seed)])


@pytest.mark.extended
def test_nothing_counts_that_nobody_read_in_100_000_histories() -> None:
    """Every second one of them counted too much once, up to ten million times what was read."""
    _check(map(played, range(100_000)))


@given(st.integers(0, 2**32))
def test_steady_readers_count_in_full(seed: int) -> None:
    """Between the first and the last commit that polls saw."""
    history = played(seed, steady=True, polls=100)
    assert history.commit is not None
    assert history.named == 0
    assert history.counted >= 0.98 * (history.commit - history.begin)
