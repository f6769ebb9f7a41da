"""The parts of the bill between racks as rows, alike for the page and the terminal."""

from __future__ import annotations

from dataclasses import dataclass

from samerack.common import words
from samerack.reporting.bill import Crossing
from samerack.reporting.report import Report


@dataclass(frozen=True, slots=True, kw_only=True)
class BillPart:
    """One part: whose bytes cross racks, how many, their cost (None where not known), and what decides that."""

    name: str
    bytes_per_second: float | None
    dollars_per_month: float | None
    decided_by: str


def bill_parts(report: Report) -> tuple[BillPart, ...]:
    """Return consumers, replication, and producers in three cases; nothing for the report of one group."""
    bill, totals = report.bill, report.totals
    if bill is None:
        return ()
    replication, producers = bill.replication, bill.producers

    def part(name: str, crossing: int | None, seconds: float, dollars: float | None, decided_by: str) -> BillPart:
        rate = crossing / seconds if crossing is not None and seconds > 0 else None
        return BillPart(name=name, bytes_per_second=rate, dollars_per_month=dollars, decided_by=decided_by)

    def case(name: str, of: Crossing | None, decided_by: str) -> BillPart:
        crossing, dollars = (of.cross_rack_bytes, of.dollars_per_month) if of is not None else (None, None)
        return part(f"producers, {name}", crossing, bill.window_seconds, dollars, decided_by)

    return (
        part(
            "consumers",
            totals.cross_rack_bytes,
            report.window_seconds,
            totals.dollars_per_month,
            "assignments: what samerack moves",
        ),
        part(
            "replication",
            replication.cross_rack_bytes if replication else None,
            bill.window_seconds,
            replication.dollars_per_month if replication else None,
            "replicas in other racks",
        ),
        case("least", producers.least if producers else None, "if each is in its leader's rack"),
        case("random", producers.random if producers else None, "if they are spread evenly over all racks"),
        case("most", producers.most if producers else None, "if none is in its leader's rack"),
    )


def missing(report: Report) -> tuple[str, ...]:
    """Return what the parts lack and why, in sentences."""
    bill = report.bill
    if bill is None:
        return ()
    if bill.unknown:
        return (f"replication and producers are not known: {bill.unknown}",)
    found = []
    if bill.unknown_partitions:
        found.append(
            f"not in replication and producers: {bill.unknown_partitions} of {bill.partitions} partitions, whose "
            "sizes or offsets are not known"
        )
    unknown = bill.replication.unknown_bytes if bill.replication else 0
    if unknown:
        found.append(
            f"neither local nor across racks: {words.size(unknown)} that brokers without known racks copied or led"
        )
    return tuple(found)
