"""The page's list of events has one row for each rebalance and takeover, and one for each event that is neither."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest

from samerack.agent.web.tables import EventRow, event_rows
from samerack.events.event import Event, Kind, cause

_T = 1_800_000_000.0


def _at(after: float, kind: Kind, action: str = "", *, group: str = "orders", **fields: Any) -> Event:
    return Event(at=_T + after, group=group, kind=kind, action=action, **fields)


def _rebalance(after: float, generation: int | None, **fields: Any) -> Event:
    known = {"cause": "agent", "members": 3, "partitions": 6, "moved": 2, "pause_seconds": 0.4, "seconds": 0.5}
    return _at(after, "rebalance", generation=generation, **{**known, **fields})


def _rows(*events: Event) -> list[EventRow]:
    """The rows of events that happened in this order."""
    return list(event_rows(events[::-1]))


DECISION = _at(0, "decision", "rebalance", reason="racks-changed", share_before=0.47, share_after=0.0)
PLAN = _at(3, "plan", "optimal", generation=7, seconds=0.01, share_before=0.47, share_after=0.0)


def test_a_decision_its_plan_and_its_rebalance_are_one_row() -> None:
    """The row says why, the share before and after, what moved and how long it paused; its events are in order."""
    over = _rebalance(3.2, 7, reason="racks-changed", share_before=0.5, share_after=0.1)
    (row,) = _rows(DECISION, PLAN, over)
    assert row.events == (DECISION, PLAN, over)
    assert (row.at, row.group, row.what, row.why) == (over.at, "orders", "rebalance 7", "the agent (racks-changed)")
    assert row.figures == "across racks 50 % > 10 %, 2 of 6 partitions moved, pause 400 ms"


def test_a_takeover_is_one_row_from_its_request_to_its_second_rebalance() -> None:
    """Steps, plan, role and both rebalances belong to it; moves of both are shown, and the longest pause."""
    steps = [
        _at(0, "decision", "rebalance", reason="placement"),
        _at(0.1, "takeover", "begin", reason="47 % across racks, 0 % possible"),
        *(_at(1 + step, "takeover", name, seconds=1.0) for step, name in enumerate(("gather", "hold", "evict"))),
        _at(3.3, "plan", "optimal", generation=8),
        _rebalance(3.4, 8, moved=4, pause_seconds=3.0, share_before=0.47, share_after=0.0),
        _at(3.5, "takeover", "leads", seconds=3.4, detail="held for 1.20 s"),
        _at(3.6, "role", "leading", reason="was following"),
        _at(6.1, "plan", "optimal", generation=9),
        _rebalance(6.2, 9, cause="member-joined", moved=3, pause_seconds=0.5, share_before=0.0, share_after=0.0),
    ]
    (row,) = _rows(*steps)
    assert row.events == tuple(steps)
    assert (row.what, row.why) == ("took over the lead", "47 % across racks, 0 % possible")
    assert row.figures == "across racks 47 % > 0 %, 4 and 3 of 6 partitions moved, pause 3.0 s"


def test_a_takeover_that_is_undone_says_why() -> None:
    """Its last step has the reason; the rebalance that goes on by itself belongs to it."""
    begin = _at(0, "takeover", "begin", reason="47 % across racks, 0 % possible")
    undone = _at(30, "takeover", "undone", reason="the members did not rejoin", seconds=30.0)
    (row,) = _rows(begin, undone, _rebalance(33, 8, cause="unknown"))
    assert (row.what, row.why) == ("takeover undone", "the members did not rejoin")


def test_two_rebalances_are_two_rows_however_near() -> None:
    """In a deploy a generation follows the other within a second, each with its plan; the newest row is first."""
    plans = [_at(number, "plan", "optimal", generation=number) for number in (1, 2)]
    ends = [_rebalance(number + 0.1, number, cause="member-left") for number in (1, 2)]
    rows = _rows(plans[0], ends[0], plans[1], ends[1])
    assert [row.events for row in rows] == [(plans[1], ends[1]), (plans[0], ends[0])]


def test_both_rounds_of_a_cooperative_rebalance_are_one_row() -> None:
    """What moves is given up in the first round and taken in the second."""
    rounds = _rebalance(1, 1, cause="member-joined", moved=0), _rebalance(3, 2, cause="second-round", moved=2)
    (row,) = _rows(*rounds)
    assert (row.what, row.why) == ("rebalance 2", "a member joined")
    assert row.figures == "2 of 6 partitions moved, pause 400 ms"


def test_what_was_overtaken_belongs_to_the_rebalance_that_overtook_it() -> None:
    """A generation without assignment has no outcome, so that it hides none of the other's figures."""
    overtaken = _at(1, "rebalance", cause="member-joined", generation=4, detail="another followed")
    (row,) = _rows(overtaken, _rebalance(1.001, 5))
    assert (row.what, row.figures) == ("rebalance 5", "2 of 6 partitions moved, pause 400 ms")


def test_what_is_not_known_is_left_out() -> None:
    """A pause that is known of one rebalance only is not that of both; a share that is known after stands alone."""
    rounds = _rebalance(1, 1, pause_seconds=None, share_after=0.1), _rebalance(3, 2, cause="second-round", moved=None)
    (row,) = _rows(*rounds)
    assert row.figures == "across racks - > 10 %"


@pytest.mark.parametrize(
    "later",
    [
        _rebalance(14, 7),  # so late that it has another cause
        _rebalance(3.2, 7, group="other"),
        _at(1, "decision", "suppress", reason="below-min-saving"),
        _at(1, "takeover", "refused", reason="it is cooperative"),
        _at(1, "back-off", "leaves"),
        _at(1, "role", "observing"),
        _at(1, "worker", "replaced", group=""),
    ],
    ids=lambda event: f"{event.kind} {event.action} {event.group}",
)
def test_what_has_nothing_to_do_with_a_rebalance_is_a_row_of_its_own(later: Event) -> None:
    """Another group's, a later one, what was not followed or refused, and what concerns the agent."""
    rows = _rows(DECISION, later)
    assert [row.events for row in rows] == [(later,), (DECISION,)]


def test_nothing_follows_what_was_suppressed() -> None:
    """The next rebalance has another cause than a decision that was not followed."""
    suppressed = _at(0, "decision", "suppress", reason="below-min-saving")
    assert len(_rows(suppressed, _rebalance(1, 3))) == 2


def test_one_event_alone_has_its_own_figures() -> None:
    """Took, pause and cost are those of the command line."""
    (row,) = _rows(_rebalance(1, 3, cause="member-left", left=("worker-1",), share_before=0.5, share_after=0.2))
    assert (row.mark, row.what) == ("rebalance", "rebalance 3")
    assert row.why == "a member left -worker-1; 2 of 6 partitions moved; 3 members"
    assert row.figures == "took 500 ms, pause 400 ms, across racks 50 % > 20 %"


def test_a_client_id_is_named_once() -> None:
    """Of a member that came back, and of several that have it."""
    back = _rebalance(1, 3, cause="member-left", left=("a", "pay", "pay", "pay"), joined=("b", "pay"))
    assert cause(back) == "a member left ±pay +b -a, pay (2)"


def test_every_event_is_in_one_row() -> None:
    """None is lost and none doubled, whatever the kinds."""
    clock = count(0, 4)
    kinds: tuple[tuple[Kind, str], ...] = (
        ("plan", ""),
        ("rebalance", ""),
        ("takeover", "begin"),
        ("takeover", "leads"),
    )
    events = [
        _at(next(clock), kind, action, generation=number % 3 or None) for number in range(40) for kind, action in kinds
    ]
    shown = [event for row in _rows(*events) for event in row.events]
    assert sorted(event.id for event in shown) == sorted(event.id for event in events)
