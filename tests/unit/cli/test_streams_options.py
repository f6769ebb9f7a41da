"""Options of a live Streams application: bills now and with each strategy, null where something is not known."""

from __future__ import annotations

import json
from dataclasses import replace
from io import StringIO
from typing import Any

import pytest
from typer.testing import CliRunner

from samerack.assignors.streams.application import AssignmentConfigs, Strategy
from samerack.cli.main import app
from samerack.cli.streams import show
from samerack.cli.streams_options import FoundApplication, Option, OptionReads, Rates, bill_of, options_of
from samerack.cli.streams_report import report_of
from samerack.common.console import Console
from samerack.common.words import money
from samerack.settings.measuring import MoneySettings, price_table
from samerack.traffic.streams_application import Brokers, application_of, standbys_now
from samerack.traffic.streams_instances import match
from tests.unit.agent.values import Described
from tests.unit.traffic.live_streams import COUNTING, cluster, counting_cluster, instances, thread

CONFIGS = AssignmentConfigs()
ENDS = {("app-counts-changelog", 0): 100_000, ("app-counts-changelog", 1): 50_000}
MEASURED = Rates(
    bytes_per_second={
        ("in", 0): 10.0,
        ("in", 1): 20.0,
        ("app-counts-repartition", 0): 1.0,
        ("app-counts-repartition", 1): 2.0,
        ("app-counts-changelog", 0): 100.0,
        ("app-counts-changelog", 1): 200.0,
    },
    log_bytes={("app-counts-changelog", 0): 1_000, ("app-counts-changelog", 1): 2_000},
)
SOME_STATE = (
    thread(1, {"0_0": [("in", 0)], "1_1": [("app-other-repartition", 1)]}, rack="a", sums={"0_0": -2, "1_1": -2}),
    thread(2, {"0_1": [("in", 1)], "1_0": [("app-other-repartition", 0)]}, rack="b", sums={"0_1": -2, "1_0": -2}),
)
"""Both subtopologies have state, so that it is not known whose the one changelog is."""


def found(
    *members: Described, rates: Rates = MEASURED, aware: bool | None = True, ends: dict[tuple[str, int], int] = ENDS
) -> FoundApplication:
    """An application as it was read from the brokers."""
    clients = instances(*members)
    brokers = Brokers(cluster=counting_cluster(), rack_aware_fetch=aware, end_offsets=ends)
    logs = match("app", {"app-counts-changelog": 2}, clients.sources, stateful=clients.stateful, given={})
    return FoundApplication(
        kind="streams-classic",
        live=application_of(clients, logs, brokers, AssignmentConfigs(num_standby_replicas=standbys_now(clients))),
        brokers=brokers,
        rates=rates,
        standbys=standbys_now(clients),
        unknown=(),
    )


def options(one: FoundApplication, *standbys: int) -> dict[tuple[str, str, int], Option]:
    """All options by assignor, strategy and standbys."""
    all_of_them = options_of(one, standbys=standbys or [1], compatible=False, now_ms=0)
    return {(option.assignor, option.strategy, option.standbys): option for option in all_of_them}


def test_the_bill_now_counts_what_is_read() -> None:
    """Sources of actives and changelogs of standbys, each near or across, with bytes; nothing has moved."""
    one = found(*COUNTING)
    bill = bill_of(one, one.live.present, with_racks=False)
    assert (bill.sources.near, bill.sources.across, bill.sources.unknown) == (0, 4, 0)
    assert bill.sources.across_bytes_per_second == pytest.approx(33.0)
    assert bill.changelogs is not None
    assert (bill.changelogs.near, bill.changelogs.across) == (0, 1)
    assert bill.changelogs.across_bytes_per_second == pytest.approx(200.0)
    assert (bill.moved_active, bill.moved_standby, bill.restored_bytes) == (0, 0, 0)
    assert (bill.standbys, bill.beside_active_rack, bill.single_rack) == (1, 0, 0)
    assert bill.missing_standbys == 1


def test_each_assignor_has_each_strategy() -> None:
    """`min_traffic` brings every source into its rack; `none` leaves them where they are dealt."""
    all_of_them = options(found(*COUNTING), 0, 1)
    assert all_of_them.keys() == {
        (name, strategy.value, count) for name in ("ha", "sticky") for strategy in Strategy for count in (0, 1)
    }
    best = all_of_them["ha", "min_traffic", 1]
    assert best.error is None
    assert best.obstacle == "every client costs the same for every standby task: nothing to gain"
    assert best.bill is not None
    assert best.bill.sources.across == 0
    assert best.bill.moved_active == 4
    assert best.bill.standbys == 2
    without = all_of_them["ha", "min_traffic", 0].bill
    assert without is not None
    assert (without.standbys, without.changelogs and without.changelogs.across) == (0, 0)


def test_tasks_that_wait_for_state_take_follow_ups() -> None:
    """A task whose target lacks its state is warmed up there first; its changelog is read once, whole."""
    best = options(found(*COUNTING))["ha", "min_traffic", 1]
    assert best.warm_ups == 1  # 1_0; the standby of 1_1 has caught up
    assert best.followups == 1
    assert best.bill is not None
    assert best.bill.restored_bytes == 1_000


def test_what_is_not_measured_is_null() -> None:
    """Without rates there are partitions and no bytes, without sizes no restored bytes, without ends no warm-ups."""
    best = options(found(*COUNTING, rates=Rates(), ends={}))["ha", "min_traffic", 1]
    assert best.bill is not None
    assert best.bill.sources.across_bytes_per_second is None
    assert best.bill.restored_bytes is None
    assert (best.warm_ups, best.followups) == (None, None)


def test_changelogs_of_no_known_subtopology_have_no_bill() -> None:
    """What standbys read is null, what actives read is known."""
    one = found(*SOME_STATE)
    best = options(one)["ha", "min_traffic", 1]
    assert best.bill is not None
    assert best.bill.changelogs is None
    assert best.bill.sources.unknown == 2  # a topic that the cluster does not have
    assert best.obstacle is not None


def test_standbys_of_unknown_changelogs_are_not_nothing_across_racks() -> None:
    """A strategy with such standbys is not advised: what they read is not known."""
    one = found(*COUNTING)
    listed = list(options(one).values())
    near = OptionReads(near=4, across=0, unknown=0, across_bytes_per_second=0.0)
    blind = [replace(each, bill=replace(each.bill, sources=near, changelogs=None)) for each in listed if each.bill]
    report = report_of("app", one, blind, price_table(MoneySettings()))
    assert report["advice"][0].startswith("not known whether a strategy reads less across racks than now")


def test_a_client_without_rack_is_neither_near_nor_across() -> None:
    """Its partitions are counted as unknown, strategies say that racks do not count, and placements are null."""
    one = found(COUNTING[0], thread(2, {"0_1": [("in", 1)], "1_0": [("app-counts-repartition", 0)]}))
    bill = bill_of(one, one.live.present, with_racks=False)
    assert (bill.sources.across, bill.sources.unknown, bill.beside_active_rack) == (2, 2, None)
    assert bill.sources.across_bytes_per_second is None
    best = options(one)["ha", "min_traffic", 1]
    assert best.obstacle is not None
    assert "has no rack: set client.rack there" in best.obstacle
    report = shown(one)
    assert report["standby_placements"] is None
    assert "placements of standbys" in [each["what"] for each in report["unknown"]]
    assert report["present"]["dollars_per_month"] is None
    assert shown(one, 0)["advice"][0].startswith("not known whether a strategy reads less across racks than now")


def shown(one: FoundApplication, *standbys: int) -> dict[str, Any]:
    """The report, through JSON."""
    listed = list(options(one, *standbys).values())
    report: dict[str, Any] = json.loads(json.dumps(report_of("app", one, listed, price_table(MoneySettings()))))
    return report


def test_the_report_has_everything() -> None:
    """Clients, subtopologies, changelogs, bills with dollars, placements of standbys, and what is not known."""
    report = shown(found(*COUNTING))
    assert [(one["rack"], one["active"], one["standby"]) for one in report["clients"]] == [
        ("a", ["0_0", "1_1"], []),
        ("b", ["0_1", "1_0"], ["1_1"]),
    ]
    assert [(one["subtopology"], one["tasks"], one["stateful"]) for one in report["subtopologies"]] == [
        (0, 2, False),
        (1, 2, True),
    ]
    (log,) = report["changelogs"]
    assert (log["topic"], log["subtopology"], log["known_by"]) == ("app-counts-changelog", 1, "name")
    assert report["present"]["dollars_per_month"] > 0
    assert {one["strategy"] for one in report["standby_placements"]} == {
        "default",
        "swaps (4.C.I)",
        "min_traffic",
        "min_traffic, racks apart",
    }
    assert [one["what"] for one in report["unknown"]] == ["lags of 1 standbys", "the application's configuration"]
    assert report["advice"] == [
        "set rack.aware.assignment.strategy=min_traffic, unless it is set, with the ha assignor: 1 partitions and 200 "
        "B/s are then read across racks in place of 5 and 233 B/s"
    ]


def test_no_strategy_is_advised_that_saves_nothing() -> None:
    """Where the tasks are near already, nothing is to be done; other numbers of standbys cannot be compared."""
    near = (
        thread(1, {"0_1": [("in", 1)], "1_0": [("app-counts-repartition", 0)]}, rack="a", sums={"1_0": -2}),
        thread(2, {"0_0": [("in", 0)], "1_1": [("app-counts-repartition", 1)]}, rack="b", sums={"1_1": -2}),
    )
    (advice,) = shown(found(*near), 0)["advice"]
    assert advice.startswith(
        "nothing: no strategy reads fewer bytes across racks than now; strategies count partitions"
    )
    (advice,) = shown(found(*near, rates=Rates()), 0)["advice"]
    assert advice.startswith(
        "nothing: no strategy reads fewer partitions across racks than now; bytes, which `samerack "
    )
    assert "give --standbys" in shown(found(*near), 2)["advice"][0]


def test_no_plan_is_advised_that_breaks_what_tags_keep_apart() -> None:
    """All replicas are in one rack: standbys there read none across racks, and would be beside their actives."""
    tags = [{"zone": zone} for zone in "ab"]
    zones = (
        thread(1, {"0_0": [("in", 0)], "0_1": [("in", 1)]}, rack="a", tags=tags[0], sums={"0_0": -2, "0_1": -2}),
        thread(2, {}, rack="a", tags=tags[0], name="2"),
        thread(
            3,
            {"0_2": [("in", 2)]},
            rack="b",
            tags=tags[1],
            sums={"0_2": -2, "0_0": 7, "0_1": 7},
            standby={"0_0": [("in", 0)], "0_1": [("in", 1)]},
        ),
    )
    clients = instances(*zones)
    logs = {"in": [[1], [1], [2]], "app-counts-changelog": [[1], [1], [1]]}
    brokers = Brokers(cluster=cluster(**logs), rack_aware_fetch=True, end_offsets={})
    matched = match("app", {"app-counts-changelog": 3}, clients.sources, stateful=clients.stateful, given={})
    live = application_of(clients, matched, brokers, AssignmentConfigs(num_standby_replicas=1))
    one = FoundApplication(kind="streams-classic", live=live, brokers=brokers, rates=Rates(), standbys=1, unknown=())
    best = options(one)["ha", "min_traffic", 1].bill
    now = bill_of(one, live.present, with_racks=False)
    assert best is not None
    assert best.changelogs is not None
    assert now.changelogs is not None
    assert best.changelogs.across < now.changelogs.across
    assert (now.beside_active_rack, best.beside_active_rack) == (0, 1)
    advice = shown(one)["advice"][0]
    assert advice.startswith("nothing: no strategy reads fewer partitions")
    assert advice.endswith(
        "the tags zone of clients keep standbys in other racks than their actives, where they read "
        "changelogs across racks"
    )


def test_the_advice_says_what_stands_in_the_way() -> None:
    """Clients that send no rack, and brokers that serve from leaders, are named."""
    members = (COUNTING[0], thread(2, {"0_1": [("in", 1)]}, tags={"zone": "b"}))
    one = found(*members, aware=False)
    _, silent, leaders = shown(one)["advice"]
    assert "1 of 2 clients do not send a rack, 00000000-0000-0000-0000-000000000002 among them" in silent
    assert "replica.selector.class" in leaders
    _, silent, leaders = shown(replace(one, kind="streams"))["advice"]
    assert silent.endswith("among them: these clients read from leaders; set client.rack")
    assert leaders.endswith("RackAwareReplicaSelector")  # no strategy of Kafka's has a say (KIP-1071)


def printed(report: dict[str, Any], width: int = 200) -> str:
    """The tables as a terminal shows them."""
    file = StringIO()
    show(report, Console(width=width, file=file))
    return file.getvalue()


@pytest.mark.parametrize("width", [60, 80, 160])
def test_no_figure_of_an_option_is_cut(width: int) -> None:
    """The price of each option and the tasks of each client are there at any width, and nothing ends in an ellipsis."""
    report = shown(found(*COUNTING))
    text = printed(report, width)
    assert max(map(len, text.splitlines())) <= width
    assert "…" not in text
    prices = [money(one["bill"]["dollars_per_month"]) for one in report["options"] if one["bill"]]
    assert [word for word in text.split() if word.lstrip("<").startswith("$")][1:] == prices
    for client in report["clients"]:
        assert {*client["active"], *client["standby"]} <= set(text.split())


def test_the_tables_show_the_same() -> None:
    """A row for each option and placement, a line for all that is not known, and no 0 for what was not measured."""
    text = printed(shown(found(*COUNTING)))
    for words in ("ha, min_traffic", "sticky, balance_subtopology", "33 B/s", "racks apart", "lags of 1 standbys"):
        assert words in text
    text = printed(shown(found(*SOME_STATE, rates=Rates())))
    (now,) = (line for line in text.splitlines() if line.split()[:1] == ["now"])
    assert "0 B/s" not in now
    assert "app-other-repartition-0 of task 1_0 has no rack" in text


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        ([], "Usage"),
        (["--json"], "give --group APPLICATION"),
        (["--group", "app", "-b", "127.0.0.1:1", "--changelog", "x"], "expected TOPIC=SUBTOPOLOGY"),
        (["--group", "app"], "kafka: is missing"),
    ],
)
def test_wrong_usage_is_one_line(arguments: list[str], part: str) -> None:
    """A group is needed, and changelogs are given with their subtopology."""
    result = CliRunner().invoke(app, ["streams", "plan", *arguments], env={"COLUMNS": "200"})
    assert result.exit_code == 2
    assert part in result.output


def test_by_bytes_the_partition_that_carries_least_is_read_across_racks() -> None:
    """Three partitions are at home in a rack with room for two of them; counted alike, any of them goes elsewhere."""
    clients = instances(
        thread(1, {"0_0": [("in", 0)], "0_1": [("in", 1)]}, rack="a"),
        thread(2, {"0_2": [("in", 2)], "0_3": [("in", 3)]}, rack="b"),
    )
    brokers = Brokers(cluster=cluster(**{"in": [[1], [1], [1], [2]]}), rack_aware_fetch=True, end_offsets={})
    live = application_of(clients, match("app", {}, clients.sources, stateful=frozenset(), given={}), brokers, CONFIGS)
    for lightest in range(3):
        rates = Rates(bytes_per_second={("in", n): 1.0 if n == lightest else 1000.0 for n in range(4)})
        one = FoundApplication(kind="streams-classic", live=live, brokers=brokers, rates=rates, standbys=0, unknown=())
        every = options_of(one, standbys=[0], by_bytes=True, compatible=False, now_ms=0)
        best = [each.bill.sources for each in every if each.strategy == "min_traffic" and each.bill is not None]
        assert [(reads.across, reads.across_bytes_per_second) for reads in best] == [(1, 1.0), (1, 1.0)]


def test_by_bytes_needs_a_measurement() -> None:
    """It is refused before brokers are asked; and a report says what its plans count by."""
    result = CliRunner().invoke(app, ["streams", "plan", "--group", "app", "-b", "h:1", "--by-bytes"])
    assert (result.exit_code, "--by-bytes: bytes are measured only with --seconds" in result.stderr) == (2, True)
    one, prices = found(*COUNTING), price_table(MoneySettings())
    assert report_of("app", one, [], prices, by_bytes=True)["weights"] == "bytes"
    assert any("streams.weights=bytes" in line for line in report_of("app", one, [], prices, by_bytes=True)["advice"])
    unmeasured = found(*COUNTING, rates=Rates())
    assert report_of("app", unmeasured, [], prices, by_bytes=True)["weights"] == "partitions"
