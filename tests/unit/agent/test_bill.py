"""The bill: the same figures in report, JSON, page and metrics; money over time; unknown where nothing was measured."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from samerack.agent.web import page as web_page
from samerack.agent.web.page import MatrixCell, matrix
from samerack.cli.asking import Measuring
from samerack.common import words
from samerack.common.money import SECONDS_PER_MONTH, shipped
from samerack.reporting import report
from samerack.reporting.bill import bill, missing, parts_of
from samerack.reporting.costs import report as report_of
from samerack.reporting.money_metrics import BillCollector, Ledger
from samerack.reporting.report import PairCost
from samerack.settings.all_settings import Settings
from samerack.settings.measuring import TrafficSettings
from samerack.traffic.board import TrafficBoard
from samerack.traffic.log_growth import Copied, Replication
from samerack.traffic.metrics import OTHER, SeriesLimits
from tests.unit.agent.measured import GB, REPLICATED, A, B, busy, flow, group, publish, reports, snapshot
from tests.unit.agent.serving import ask, served

PRICES = shipped("aws")
_RACKS = st.sampled_from([A, B, ""])


def per_month(crossing: float) -> float:
    """The dollars of so many bytes a minute."""
    return PRICES.dollars(crossing) / 60 * SECONDS_PER_MONTH


def test_followers_in_other_racks_cost() -> None:
    """Copies within a rack cost nothing; those with an unknown rack have no price and are no part of the sum."""
    found = bill(REPLICATED, PRICES, random_share=2 / 3).replication
    assert found is not None
    assert (found.log_bytes, found.cross_rack_bytes, found.unknown_bytes) == (14 * GB, 8 * GB, GB)
    assert found.dollars_per_month == pytest.approx(per_month(8 * GB))
    dollars = {(pair.leader_rack, pair.follower_rack): pair.dollars for pair in found.pairs}
    assert (dollars["rack-c", ""], dollars["rack-c", "rack-c"]) == (None, 0.0)
    assert dollars[A, B] == pytest.approx(PRICES.dollars(3 * GB))


def test_producers_are_a_range() -> None:
    """What producers send crosses racks not at all, at random, or in full; leaders without rack are in no case."""
    found = bill(REPLICATED, PRICES, random_share=2 / 3).producers
    assert found is not None
    assert (found.log_bytes, found.unknown_bytes) == (6 * GB, GB)
    cases = [found.least, found.random, found.most]
    assert [one.cross_rack_bytes for one in cases if one] == [0, round(10 / 3 * GB), 5 * GB]
    assert [one.dollars_per_month for one in cases if one] == pytest.approx(
        [0, per_month(10 / 3 * GB), per_month(5 * GB)]
    )


@pytest.mark.parametrize("random_share", [2 / 3, None])
def test_without_racks_there_are_bytes_and_no_dollars(random_share: float | None) -> None:
    """Where no rack is known, what crosses is not 0."""
    found = replace(REPLICATED, copied=Copied(carried={("", ""): 5.0}, produced={"": 5.0}))
    made = bill(found, PRICES, random_share=random_share)
    assert made.replication is not None
    assert made.producers is not None
    replicated = made.replication
    assert (replicated.log_bytes, replicated.cross_rack_bytes, replicated.dollars_per_month) == (5, None, None)
    assert (made.producers.least, made.producers.random, made.producers.most) == (None, None, None)


def test_what_crosses_at_random_is_unknown_while_a_broker_has_no_rack() -> None:
    """The least and the most that producers send across racks do not depend on it."""
    producers = bill(REPLICATED, PRICES, random_share=None).producers
    assert producers is not None
    assert (producers.least is None, producers.random, producers.most is None) == (False, None, False)


@pytest.mark.parametrize(
    ("unknown_partitions", "carried", "produced", "bounds"),
    [
        (0, {(A, B): 5.0}, {A: 5.0}, [False, False, False, False]),
        (1, {(A, B): 5.0}, {A: 5.0}, [True, False, True, True]),
        (0, {(A, B): 5.0, (A, ""): 1.0}, {A: 5.0}, [True, False, False, False]),
        (0, {(A, B): 5.0}, {A: 5.0, "": 1.0}, [False, False, True, True]),
    ],
)
def test_a_part_of_which_something_is_not_known_is_a_lower_bound(
    unknown_partitions: int, carried: dict[tuple[str, str], float], produced: dict[str, float], bounds: list[bool]
) -> None:
    """The least that producers send across racks is 0 in any case."""
    found = Replication(
        seconds=60.0,
        copied=Copied(carried=carried, produced=produced),
        partitions=3,
        unknown_partitions=unknown_partitions,
    )
    assert [part.is_lower_bound for part in parts_of(bill(found, PRICES, random_share=0.5))] == bounds


def test_a_cluster_at_rest_costs_nothing() -> None:
    """Nothing was appended in a measured window: that is 0, and no unknown."""
    made = bill(Replication(seconds=60.0, partitions=3), PRICES, random_share=0.5)
    assert made.replication is not None
    assert made.producers is not None
    assert made.replication.dollars_per_month == 0
    assert made.producers.most is not None
    assert made.producers.most.dollars_per_month == 0


def test_what_was_not_measured_is_unknown_with_its_cause() -> None:
    """Without a measurement there is no figure anywhere, and the sentence why."""
    shown = report_of(snapshot(replication=Replication(unknown="traffic.replication is false")), PRICES, roles={})
    assert shown.bill is not None
    assert (shown.bill.replication, shown.bill.producers) == (None, None)
    assert [part.dollars_per_month for part in shown.bill_parts[1:]] == [None] * 4
    assert missing(shown.bill) == ("replication and producers are not known: traffic.replication is false",)
    registry = CollectorRegistry()
    registry.register(BillCollector(reports(snapshot()), limits=SeriesLimits.of(100)))
    assert [sample for family in registry.collect() for sample in family.samples] == []


@pytest.mark.parametrize(
    ("asked", "set_to", "measured"), [(True, True, True), (False, True, False), (True, False, False)]
)
def test_commands_that_do_not_show_it_do_not_measure_it(*, asked: bool, set_to: bool, measured: bool) -> None:
    """All logs of the cluster are polled for `cost` alone, and never against the settings."""
    traffic = TrafficSettings(replication=set_to)
    settings = Settings(kafka={"bootstrap.servers": "127.0.0.1:1"}, traffic=traffic)
    with Measuring(settings, seconds=4.0, replication=asked) as measuring:
        assert measuring._settings.traffic.replication is measured
        assert measuring._settings.traffic.groups == ("*",)


def test_the_report_of_an_older_agent_has_no_bill() -> None:
    """Its JSON is read, and nothing is shown of what it does not have."""
    shown = json.loads(report.to_json(reports(busy()).report()))
    del shown["bill"]
    read = report.from_json(json.dumps(shown))
    assert (read.bill, read.bill_parts, missing(read.bill)) == (None, (), ())


def test_all_places_have_the_same_figures() -> None:
    """The JSON, the rows of table and page, and the metrics are of one report."""
    shown = reports(busy())
    made = shown.report()
    decoded = report.from_json(report.to_json(made))
    assert decoded.bill == made.bill
    rows = {part.name: part for part in decoded.bill_parts}
    assert rows["consumers"].dollars_per_month == made.totals.dollars_per_month
    with served(*web_page.routes(shown)) as port:
        text = ask(port, "/")[1]
    for part in rows.values():
        row = text[text.index(f'<th scope="row">{part.name}</th>') :].partition("</tr>")[0]
        bound = "<small>at least</small>" if part.is_lower_bound else ""
        assert f'"number">{bound}{words.money(part.dollars_per_month)}<' in row
        assert f'"number">{bound}{words.rate(part.bytes_per_second)}<' in row
    assert "7 of 120 partitions" in text
    registry = CollectorRegistry()
    registry.register(BillCollector(shown, limits=SeriesLimits.of(1000)))
    value = registry.get_sample_value
    for case in ("least", "random", "most"):
        assert value("samerack_producer_dollars_per_month", {"case": case}) == pytest.approx(
            rows[f"producers, {case}"].dollars_per_month
        )
    assert value("samerack_replication_bytes_total", {"leader_rack": A, "follower_rack": B}) == 30 * GB
    assert value("samerack_replication_bytes_total", {"leader_rack": "rack-c", "follower_rack": ""}) == GB
    priced = [one for family in registry.collect() for one in family.samples if "replication_dollars" in one.name]
    assert sum(one.value for one in priced) == pytest.approx(PRICES.dollars(80 * GB))
    assert value("samerack_produced_bytes_total", {"leader_rack": A}) == 30 * GB


def test_series_are_bounded() -> None:
    """Pairs of racks beyond the bound are added up, so that no byte is lost."""
    registry = CollectorRegistry()
    registry.register(BillCollector(reports(busy()), limits=SeriesLimits.of(100)))
    samples = [
        one for family in registry.collect() for one in family.samples if one.name == "samerack_replication_bytes_total"
    ]
    assert len(samples) == 3
    assert sum(one.value for one in samples) == 131 * GB
    assert samples[0].labels == {"leader_rack": OTHER, "follower_rack": OTHER}


@given(st.dictionaries(st.tuples(_RACKS, _RACKS), st.integers(0, 10**12).map(float), max_size=9))
def test_every_byte_is_near_across_or_unknown(carried: dict[tuple[str, str], float]) -> None:
    """The parts are those of a plain sum over pairs."""
    made = bill(Replication(seconds=1.0, copied=Copied(carried=carried, produced={})), PRICES, random_share=0.5)
    found = made.replication
    assert found is not None
    near = sum(size for (one, other), size in carried.items() if one == other != "")
    across = sum(size for (one, other), size in carried.items() if "" not in (one, other) and one != other)
    unknown = sum(size for pair, size in carried.items() if "" in pair)
    assert found.unknown_bytes == unknown
    assert found.log_bytes == near + across + unknown
    assert found.cross_rack_bytes == (None if unknown and not near + across else across)


# money over time, and numbers as text


def booked(role: str, own: float | None) -> tuple[Ledger, TrafficBoard]:
    """A ledger that listens to a board."""
    board = TrafficBoard()
    ledger = Ledger(PRICES, roles=lambda: {"orders": role}, own_share=lambda _: own)
    board.listen(ledger.take)
    return ledger, board


def test_while_the_agent_leads_its_group_is_booked_at_its_own_assignors_share() -> None:
    """Otherwise the own assignor's result is what happened, so the bytes that crossed are booked.

    Where all that has racks is near, one member without a rack hid what that saves.
    """
    near, unknown = flow(A, A, 9 * GB), flow("", B, GB)
    for role, flows, crossed in (
        ("leading", [near, flow(A, B, GB), unknown], 0.5 * 20 * GB),
        ("leading", [near, unknown], 0.5 * 18 * GB),
        ("leading", [unknown], None),
        ("following", [near, flow(A, B, GB), unknown], 2 * GB),
        ("following", [near, unknown], None),
    ):
        ledger, board = booked(role, 0.5)
        for _ in range(2):
            publish(board, snapshot(group(flows=flows)))
        expected = {} if crossed is None else {"orders": pytest.approx(PRICES.dollars(crossed))}
        assert ledger.dollars() == expected


def test_a_group_whose_own_assignor_is_not_known_is_not_booked() -> None:
    """While the own assignor is unknown nothing is booked, and the sum is hidden until it is known again."""
    share: list[float | None] = [0.5, None, 0.5]
    board = TrafficBoard()
    ledger = Ledger(PRICES, roles=lambda: {"orders": "leading"}, own_share=lambda _: share[0])
    board.listen(ledger.take)
    spent = []
    while share:
        publish(board, snapshot(group(flows=[flow(A, A, 9 * GB), flow(A, B, GB)])))
        spent.append(ledger.dollars().get("orders"))
        share.pop(0)
    once = PRICES.dollars(5 * GB)
    assert spent == [pytest.approx(once), None, pytest.approx(2 * once)]


def test_report_and_verdict_are_worked_out_once_per_snapshot() -> None:
    """The same objects are returned until the next publication, a verdict for longer where that is enough."""
    shown = reports(busy())
    first = shown.report()
    assert shown.report() is first
    assert shown.verdict() is shown.verdict()
    verdict = shown.verdict()
    publish(shown.board, snapshot())
    assert shown.report() is not first
    assert shown.verdict(max_age_seconds=60.0) is verdict
    assert shown.verdict().findings == ()


def test_the_own_share_is_not_worked_out_at_each_poll() -> None:
    """The own share is kept for the same members and assignor, and computed again for others."""
    shown = reports()
    learned = group(source="client-id")
    assert shown.own_share(learned) == pytest.approx(4 / 6)
    assert shown.own_share(replace(learned, assignor="mine")) is None


@pytest.mark.parametrize(
    ("written", "numbers"),
    [
        (words.size, {0: "0 B", 999: "999 B", 1000: "1 kB", 43e9: "43 GB", 1.234e6: "1.23 MB", 123456: "123 kB"}),
        (
            words.money,
            {
                0.0: "$0",
                5.4e-6: "<$0.01",
                0.0099: "<$0.01",
                -0.002: "-<$0.01",
                0.037: "$0.04",
                12.5: "$12.50",
                999.994: "$999.99",
                999.996: "$1,000",
                -1632.4: "-$1,632",
            },
        ),
        (words.percent, {0.0: "0 %", 0.0165: "1.7 %", 2 / 3: "67 %"}),
    ],
)
def test_numbers_as_text(written: Callable[[float | None], str], numbers: dict[float, str]) -> None:
    """Sizes have decimal units and three digits, amounts whole cents, small shares one decimal; unknown is no zero."""
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
        seconds=SECONDS_PER_MONTH / 2,
    )
    assert made.columns == (A, B)
    assert [client for client, _ in made.rows] == [A, B, ""]
    assert made.rows[0][1][1] == MatrixCell(wire_bytes=10, dollars_per_month=2.0, kind="across", heat=5)
    assert made.rows[2][1][0].kind == "unknown"
    assert made.rows[2][1][1].dollars_per_month == 0
    assert matrix([], [], seconds=60).rows == ()
    ((_, (cell,)),) = matrix([], [A], seconds=0).rows
    assert cell.dollars_per_month is None  # before a measurement
