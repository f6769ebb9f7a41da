"""The metrics: an exposition that parses, documented names, and gauges that never show half of an update."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from samerack.agent.group_status import GroupStatus
from samerack.agent.metrics import GROUP_ERRORS, Metrics
from samerack.agent.policy import REFUSALS, TRIGGERS, Reason
from samerack.agent.policy.back_off_causes import Cause
from samerack.agent.publishing.metrics import DropReason, PublishingMetrics, TopicRefusal
from samerack.agent.publishing.outbox import Kind
from samerack.agent.streams.figures import Summary
from samerack.agent.streams.metrics import FAILURES, StreamsMetrics
from samerack.agent.streams.reporter import Computed, StreamsBoard, StreamsReporter
from samerack.election.election import ElectionCollector
from samerack.election.leadership_state import LeadershipState
from samerack.events import EventLog
from samerack.events.event_log import EventMetrics
from samerack.reporting.evidence import Code
from samerack.reporting.money_metrics import BillCollector, Ledger, MoneyCollector
from samerack.reporting.wanted import WantedMembers
from samerack.traffic.metrics import SeriesLimits, TrafficCollector, TrafficMetrics
from samerack.traffic.snapshot import Family, Shares, Uncounted
from tests.integration import metrics_page
from tests.integration.metrics_page import row, shown
from tests.unit.agent.measured import GB, REPLICATED, A, B, flow, group, publish, reports, snapshot

MAX_LINES = 45
"""Of a led group that reads across racks, has a counter of each kind and money; without these about thirty."""
DOCS = metrics_page.PAGE.parent
PAGE = metrics_page.PAGE.read_text(encoding="utf-8")


def sample() -> Metrics:
    """An agent that has led a group for a while."""
    metrics = Metrics()
    metrics.expect("orders")
    for _ in range(4):
        metrics.polled(0.005)
        metrics.position_rejoins.labels("orders").inc()
    metrics.planned("orders", "optimal", 0.0021)
    metrics.planned("orders", "optimal", 0.0018)
    metrics.rebalances.labels("orders", Reason.RACKS_CHANGED.value).inc()
    metrics.suppressed.labels("orders", Reason.BELOW_MIN_SAVING.value).inc()
    metrics.ignored("broker-absent")
    metrics.failed("orders", "kafka")
    metrics.watch_failed()
    metrics.up.set(1)
    measured(metrics)
    PublishingMetrics(metrics.registry, ("samerack-traffic", "samerack-states"))
    EventMetrics(metrics.registry).happened("rebalance")
    metrics.registry.register(ElectionCollector(LeadershipState()))
    planned(metrics)
    metrics.board.publish(
        GroupStatus(
            group="orders",
            state="Stable",
            protocol="range",
            role="leading",
            first_in_order=True,
            members=6,
            members_without_rack=0,
            partitions=36,
            cross_rack=4,
            possible_cross_rack=3,
            load_above_least=0.04,
            budget=2.5,
            mode="act",
            breaker_open=False,
            saved_bytes_per_second=1000.0,
            saved_dollars_per_day=1.6,
            rack_sources={"subscription": 6},
        )
    )
    metrics.board.publish(GroupStatus(group="ledger", role="observing", why="its protocol type is 'connect'"))
    return metrics


STREAMS_PLAN = Summary(
    application="payments",
    plan="1",
    assignor="ha",
    strategy="min_traffic",
    clients=3,
    tasks=24,
    sources=24,
    sources_before=16,
    sources_after=1,
    changelogs_before=8,
    changelogs_after=2,
    cost_before=240,
    cost_after=30,
    moved=15,
    standbys=26,
    warmups=2,
    followup_ms=600_000,
)
"""The plan of an application."""


def planned(metrics: Metrics) -> None:
    """A plan of a Streams application that it rejected, and one that is in use."""
    board = StreamsBoard()
    metrics.registry.register(board)
    reporter = StreamsReporter(events=EventLog(), metrics=StreamsMetrics(metrics.registry), board=board)
    reporter.planned(STREAMS_PLAN, 0.02)
    reporter.computed(Computed(application="payments", plan="1", error="MISSING_PROCESS_ID", fallback=""))
    reporter.planned(STREAMS_PLAN, 0.02)


def measured(metrics: Metrics) -> None:
    """A minute of traffic: one group that the agent leads."""
    shown = reports(roles={"orders": "leading"})
    ledger = Ledger(shown.prices, roles=shown.roles, own_share=shown.own_share)
    shown.board.listen(ledger.take)
    counted, limits = TrafficMetrics(metrics.registry), SeriesLimits.of(1000)
    metrics.registry.register(TrafficCollector(shown.board, limits=limits))
    metrics.registry.register(MoneyCollector(shown, ledger, limits=limits))
    metrics.registry.register(BillCollector(shown, limits=limits))
    counted.polled(0.02)
    counted.failed(Family.LOG_DIRS)
    shares = Shares(present_bytes=0.25, present_partitions=0.5, optimal=0.0, optimal_by="bytes", random=2 / 3)
    read = [flow(A, A, 3 * GB), flow(A, B, GB)]
    orders = replace(group(flows=read, shares=shares, source="client-id"), not_counted={Uncounted.MOVED: 1000})
    wanted = WantedMembers(prices=shown.prices, roles=shown.roles, capacity_of=lambda _: 1e6)
    metrics.registry.register(wanted)
    shown.board.listen(wanted.take)
    publish(shown.board, snapshot(orders, replication=REPLICATED))


def families(metrics: Metrics) -> dict[str, Metric]:
    """The exposition as Prometheus parses it."""
    return {family.name: family for family in text_string_to_metric_families(metrics.exposition().decode())}


def test_the_page_names_every_metric() -> None:
    """docs/metrics.md has an entry for every metric with its type, labels and meaning, and for no other."""
    rows = [line for line in PAGE.splitlines() if line.startswith("- `samerack_")]
    assert sorted(rows) == sorted(row(family) for family in families(sample()).values())


def test_every_query_uses_metrics_that_exist() -> None:
    """The queries and the text of the page name only metrics that exist."""
    known = {shown(family) for family in families(sample()).values()}
    known |= {f"{name}_{part}" for name in known for part in ("bucket", "sum", "count")}
    assert set(re.findall(r"samerack_\w+", PAGE)) <= known


def test_the_page_names_every_reason_and_kind() -> None:
    """The page explains each value that a label may have."""
    roles = ("outside", "observing", "following", "leading", "standby", "fenced")
    kinds = (*TRIGGERS, *REFUSALS, *Family, *Kind, *DropReason, *TopicRefusal)
    values = [*GROUP_ERRORS, "watch", "broker-absent", *roles, *FAILURES.values(), "internal"]
    values += [one.value for one in kinds]
    assert [value for value in values if f"`{value}`" not in PAGE] == []


def test_each_kind_of_error_of_a_group_is_announced() -> None:
    """The kinds that leaders count are those that have a series without a group, and an explanation."""
    texts = [file.read_text(encoding="utf-8") for file in (DOCS.parent / "agent" / "leading").glob("*.py")]
    counted = {kind for text in texts for kind in re.findall(r'\.failed\((?:[\w.]+, )?"([a-z-]+)"', text)}
    assert sorted(counted) == sorted(GROUP_ERRORS)


def test_each_kind_of_finding_is_explained() -> None:
    """docs/cost.md has a row for each value of the label `finding`, and metrics.md says so."""
    rows = re.findall(
        r"^\| (`[a-z-]+`(?:, `[a-z-]+`)*) \|", (DOCS / "cost.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    named = {name for row in rows for name in re.findall(r"`([a-z-]+)`", row)}
    assert {code.value for code in Code} <= named
    assert "(cost.md#what-is-wrong)" in PAGE


def test_a_group_has_few_lines_and_its_counters_begin_with_their_first_event() -> None:
    """Zeros for each reason, cause and kind of a thousand groups would be most of a scrape."""
    metrics = Metrics()
    metrics.expect("orders")
    counters = [family for family in families(metrics).values() if family.type != "gauge"]
    assert {one.labels.get("group", "") for family in counters for one in family.samples} == {""}
    assert {one.value for family in counters for one in family.samples} == {0.0}
    metrics.back_offs.labels("orders", Cause.EVICTED.value).inc()
    assert metrics.registry.get_sample_value("samerack_back_offs_total", {"group": "orders", "cause": "evicted"}) == 1
    metrics.forget("orders")
    assert 'group="orders"' not in metrics.exposition().decode()
    led = sample().exposition().decode().splitlines()
    assert sum('group="orders"' in line for line in led) <= MAX_LINES


def test_unknown_values_have_no_sample() -> None:
    """A group before its first poll shows its state and role, and no unknown number."""
    metrics = Metrics()
    metrics.expect("orders")
    fresh = families(metrics)
    assert fresh["samerack_group_state"].samples[0].labels == {"group": "orders", "state": "Unknown"}
    assert fresh["samerack_group_role"].samples[0].labels == {"group": "orders", "role": "outside"}
    assert fresh["samerack_partitions"].samples == []
    assert fresh["samerack_cross_rack_partitions"].samples == []


def test_a_scrape_sees_whole_statuses() -> None:
    """While statuses are replaced, a scrape shows numbers that belong together."""
    board = Metrics().board
    values = set()
    board.publish(GroupStatus(group="g", members=1, partitions=1, cross_rack=1))
    for family in board.collect():
        board.publish(GroupStatus(group="g", members=2, partitions=2, cross_rack=2))
        if family.name in ("samerack_members", "samerack_partitions", "samerack_cross_rack_partitions"):
            values |= {sample.value for sample in family.samples}
    assert values == {1}


LED = GroupStatus(group="orders", state="Stable", role="leading", first_in_order=True, members=3)


@pytest.mark.parametrize(
    ("before", "role", "shown"),
    [
        (LED, "fenced", replace(LED, role="fenced", first_in_order=False)),
        (LED, "outside", GroupStatus(group="orders", role="outside")),
        (LED, "following", replace(LED, role="following")),
        (LED, "standby", GroupStatus(group="orders", role="standby")),
        (None, "outside", GroupStatus(group="orders", role="outside")),
    ],
    ids=[
        "fenced",
        "outside: the brokers may be away",
        "following",
        "a standby's members are counted by another agent",
        "never polled",
    ],
)
def test_a_new_role_shows_at_once(before: GroupStatus | None, role: str, shown: GroupStatus) -> None:
    """Even if the group is never polled again; who is not in it is not next to lead either."""
    board = Metrics().board
    board.publish(GroupStatus(group="payments"))
    if before is not None:
        board.publish(before)
    board.become("orders", role)
    assert board.all() == (shown, GroupStatus(group="payments"))
