"""Money summed over time, figures computed once per snapshot, and numbers as text."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from samerack.agent.web.page import Cell, matrix
from samerack.common import words
from samerack.common.money import shipped
from samerack.reporting.ledger import Ledger
from samerack.reporting.report import PairCost
from samerack.traffic.board import TrafficBoard
from tests.unit.agent.measured import GB, A, B, busy, flow, group, publish, reports, snapshot

PRICES = shipped("aws")


def booked(role: str, own: float | None) -> tuple[Ledger, TrafficBoard]:
    """A ledger that listens to a board."""
    board = TrafficBoard()
    ledger = Ledger(PRICES, roles=lambda: {"orders": role}, own_share=lambda _: own)
    board.listen(ledger.take)
    return ledger, board


def test_while_the_agent_leads_its_group_is_booked_at_its_own_assignors_share() -> None:
    """The group's bytes are booked at the share of its own assignor."""
    ledger, board = booked("leading", 0.5)
    for _ in range(2):
        publish(board, snapshot(group(flows=[flow(A, A, 9 * GB), flow(A, B, GB), flow("", B, GB)])))
    assert ledger.dollars()["orders"] == pytest.approx(PRICES.dollars(0.5 * 20 * GB))


def test_otherwise_what_crossed_is_booked() -> None:
    """The own assignor's result is what happened, so the bytes that crossed are booked."""
    ledger, board = booked("following", 0.5)
    publish(board, snapshot(group(flows=[flow(A, A, 9 * GB), flow(A, B, GB)])))
    assert ledger.dollars()["orders"] == pytest.approx(PRICES.dollars(GB))


def test_a_group_whose_own_assignor_is_not_known_is_not_booked() -> None:
    """While the own assignor is unknown nothing is booked, and the sum is hidden until it is known again."""
    share: list[float | None] = [0.5, None, 0.5]
    board = TrafficBoard()
    ledger = Ledger(PRICES, roles=lambda: {"orders": "leading"}, own_share=lambda _: share[0])
    board.listen(ledger.take)
    told = []
    while share:
        publish(board, snapshot(group(flows=[flow(A, A, 9 * GB), flow(A, B, GB)])))
        told.append(ledger.dollars().get("orders"))
        share.pop(0)
    once = PRICES.dollars(5 * GB)
    assert told == [pytest.approx(once), None, pytest.approx(2 * once)]


def test_report_and_verdict_are_worked_out_once_per_snapshot() -> None:
    """The same objects are returned until the next publication."""
    shown = reports(busy())
    first = shown.report()
    assert shown.report() is first
    assert shown.verdict() is shown.verdict()
    publish(shown.board, busy())
    assert shown.report() is not first


def test_a_verdict_may_be_a_little_old_where_that_is_enough() -> None:
    """A scrape does not compute a verdict each time."""
    shown = reports(busy())
    first = shown.verdict()
    publish(shown.board, snapshot())
    assert shown.verdict(max_age_seconds=60.0) is first
    assert shown.verdict().findings == ()


def test_the_own_share_is_not_worked_out_at_each_look() -> None:
    """The own share is kept for the same members and assignor, and computed again for others."""
    shown = reports()
    learned = group(source="client-id")
    assert shown.own_share(learned) == pytest.approx(4 / 6)
    assert shown.own_share(replace(learned, assignor="mine")) is None


@pytest.mark.parametrize(
    ("written", "numbers"),
    [
        (words.size, {0: "0 B", 999: "999 B", 1000: "1 kB", 43e9: "43 GB", 1.234e6: "1.23 MB", 123456: "123 kB"}),
        (words.money, {0.0: "$0", 1e-9: "<$0.000001", 0.037: "$0.037", 12.5: "$12.50", -1632.4: "-$1,632"}),
        (words.percent, {0.0: "0 %", 0.0165: "1.7 %", 2 / 3: "67 %"}),
    ],
)
def test_numbers_as_text(written: Callable[[float | None], str], numbers: dict[float, str]) -> None:
    """Sizes have decimal units and three digits, small amounts two, small shares one decimal; unknown is no zero."""
    assert {number: written(number) for number in numbers} == numbers
    assert written(None) == "-"


def test_the_matrix_has_a_field_for_every_pair() -> None:
    """Pairs without traffic have a field too; unknown racks are last, and only if there are some."""
    made = matrix(
        [
            PairCost(client_rack=A, replica_rack=B, wire_bytes=10, dollars=1.0),
            PairCost(client_rack="", replica_rack=A, wire_bytes=1, dollars=0.0),
        ],
        [A, B],
    )
    assert made.columns == (A, B)
    assert [client for client, _ in made.rows] == [A, B, ""]
    assert made.rows[0][1][1] == Cell(wire_bytes=10, dollars=1.0, kind="across", heat=5)
    assert made.rows[2][1][0].kind == "unknown"
    assert matrix([], []).rows == ()
