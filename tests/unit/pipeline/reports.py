"""Reports with fixed figures, for the tests of the report's page."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

from samerack.common.money import shipped
from samerack.pipeline.report import fleet_report

_FIRST = date(2026, 11, 1)
_BEGIN = datetime(2026, 11, 1, tzinfo=UTC)
_DAYS = 14
_RACKS = ("rack-a", "rack-b", "rack-c")


def line(number: int, **changes: Any) -> fleet_report.GroupLine:
    """One group; lower numbers are more expensive."""
    spent = 900.0 / number
    made = fleet_report.GroupLine(
        cluster=f"kafka-{number % 2 + 1}",
        group=f"orders-{number}",
        kind="classic",
        assignor="range",
        members=6,
        rackless=0,
        bytes=9_000_000_000_000 // number,
        crossing_bytes=3_000_000_000_000 // number,
        share=1 / 3,
        random=2 / 3,
        led=1.0 if number % 2 else 0.0,
        month=fleet_report.Money(spent=spent, saved=spent / 2 if number % 2 else 0.0, possible=spent / 4),
    )
    return replace(made, **changes)


def report(**changes: Any) -> fleet_report.FleetReport:
    """Two weeks of a fleet with everything that a page shows."""
    groups = (
        line(1, group="reports <b>&amp;</b> $HOME $PATH", rackless=2),
        *(line(number) for number in range(2, 13)),
        line(13, group="a-group-with-a-name-that-is-as-long-as-somebody-thought-that-it-had-to-be.v2"),
    )
    made = fleet_report.FleetReport(
        period=fleet_report.Period(
            first=_FIRST,
            last=_FIRST + timedelta(days=_DAYS - 1),
            begin=_BEGIN,
            end=_BEGIN + timedelta(days=_DAYS),
            seconds=_DAYS * 86400.0,
        ),
        prices=shipped("aws"),
        made=datetime(2026, 11, 15, 6, tzinfo=UTC),
        headline=fleet_report.Headline(
            bytes=120_000_000_000_000,
            crossing_bytes=41_000_000_000_000,
            unknown_bytes=4_000_000_000_000,
            exact_bytes=24_000_000_000_000,
            judged_bytes=118_000_000_000_000,
            saved_bytes=22_000_000_000_000.0,
            possible_bytes=30_500_000_000_000.0,
            share=41 / 116,
            dollars=763.69,
            month=fleet_report.Money(spent=1659.27, saved=890.34, possible=1234.33),
            groups=412,
            led_groups=155,
            clusters=2,
        ),
        pairs=tuple(
            fleet_report.Pair(
                client_rack=client,
                replica_rack=replica,
                bytes=(20 if client == replica else 6 + 2 * place) * 1_000_000_000_000,
                dollars=0.0 if client == replica else 110.0 + place,
            )
            for place, client in enumerate((*_RACKS, ""))
            for replica in _RACKS
        ),
        owners=(
            fleet_report.OwnerLine(
                owner="team <b>orders</b>",
                groups=12,
                bytes=80_000_000_000_000,
                crossing_bytes=30_000_000_000_000,
                share=0.375,
                month=fleet_report.Money(spent=1200.0, saved=600.0, possible=300.0),
            ),
            fleet_report.OwnerLine(
                owner="",
                groups=400,
                bytes=40_000_000_000_000,
                crossing_bytes=11_000_000_000_000,
                share=None,
                month=fleet_report.Money(spent=459.27, saved=None, possible=None),
            ),
        ),
        unit="day",
        timeline=tuple(
            fleet_report.Moment(
                at=_BEGIN + timedelta(days=day),
                bytes=9_000_000_000_000,
                crossing_bytes=3_000_000_000_000,
                dollars_per_month=2400.0 - 90 * day + 200 * (day % 3),
            )
            for day in range(_DAYS)
        ),
        days=tuple(
            fleet_report.Day(
                day=_FIRST + timedelta(days=day),
                groups=412,
                bytes=9_000_000_000_000,
                crossing_bytes=3_000_000_000_000,
                dollars=55.0,
                saved_dollars=29.0,
                possible_dollars=41.0,
                seconds=86400.0,
            )
            for day in range(_DAYS)
        ),
        groups=groups,
        savers=groups,
        topics=tuple(
            fleet_report.TopicLine(
                cluster="kafka-1",
                topic=f"orders-{number}.0",
                groups=3,
                bytes=9_000_000_000_000 // number,
                crossing_bytes=3_000_000_000_000 // number,
                dollars_per_month=400.0 / number,
            )
            for number in range(1, 6)
        ),
        losses=(
            fleet_report.Loss(
                cluster="kafka-1",
                group="orders-2",
                at=datetime(2026, 11, 6, 13, 20, tzinfo=UTC),
                cause="members without rack",
                kind="classic",
                assignor="range",
                before=0.18,
                after=0.667,
                random=0.667,
                now=0.667,
                lasts=True,
                dollars_per_month=205.2,
            ),
        ),
        losses_in_all=3,
        trends=(
            fleet_report.Trend(
                name="week over week",
                earlier_from=_FIRST,
                later_from=_FIRST + timedelta(days=7),
                days=7,
                earlier=420.0,
                later=344.0,
                movers=(
                    fleet_report.Mover(cluster="kafka-1", group="orders-2", earlier=100.0, later=40.0),
                    fleet_report.Mover(cluster="kafka-2", group="orders-3", earlier=0.0, later=12.0),
                ),
            ),
        ),
        bad=(fleet_report.Bad(reason="no JSON object", records=17),),
        twice=1,
        failed=1,
        failure="a topic occurs twice",
    )
    return replace(made, **changes)


def empty() -> fleet_report.FleetReport:
    """One minute of one group without agent and without traffic between racks."""
    nothing = fleet_report.Money(spent=0.0, saved=None, possible=None)
    whole = report()
    return replace(
        whole,
        period=replace(whole.period, last=_FIRST, end=_BEGIN + timedelta(minutes=1), seconds=60.0),
        headline=replace(
            whole.headline,
            crossing_bytes=0,
            saved_bytes=None,
            possible_bytes=None,
            share=None,
            unknown_bytes=whole.headline.bytes,
            dollars=0.0,
            month=nothing,
            groups=1,
            led_groups=0,
        ),
        unit="minute",
        timeline=(replace(whole.timeline[0], dollars_per_month=0.0),),
        days=(replace(whole.days[0], saved_dollars=None, possible_dollars=None, seconds=60.0),),
        groups=(line(1, share=None, random=None, led=None, members=None, rackless=None, kind="", month=nothing),),
        savers=(),
        losses=(),
        losses_in_all=0,
        trends=(),
        bad=(),
        twice=0,
        failed=0,
        failure="",
    )


def unjudged() -> fleet_report.FleetReport:
    """The same report without published states."""
    found = empty()
    return replace(found, headline=replace(found.headline, judged_bytes=0))
