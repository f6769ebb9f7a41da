"""What replication and producers carry between racks, and its cost: with what consumers read, the cluster's whole bill.

Where producers are is not known, so that their part is a range: none, all, or what placement at random makes of it.
"""

from __future__ import annotations

from dataclasses import dataclass

from samerack.common import words
from samerack.common.money import SECONDS_PER_MONTH, PriceTable
from samerack.traffic.log_growth import Replication


@dataclass(frozen=True, slots=True, kw_only=True)
class CarriedCost:
    """Bytes from leaders in one rack to followers in one rack; "" is an unknown rack: then `dollars` is None."""

    leader_rack: str
    follower_rack: str
    log_bytes: int
    dollars: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicationCost:
    """What followers copied in the window; None where bytes were copied and none of them has both racks known.

    Attributes:
        log_bytes: all bytes, those within a rack included.
        cross_rack_bytes: those from another rack.
        unknown_bytes: those with an unknown rack on either side.
        dollars_per_month: cost of the cross-rack bytes, at the window's rate.
        pairs: bytes and cost by pair of racks.
    """

    log_bytes: int
    cross_rack_bytes: int | None
    unknown_bytes: int
    dollars_per_month: float | None
    pairs: tuple[CarriedCost, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Crossing:
    """Bytes that cross racks in the window, and their cost at its rate."""

    cross_rack_bytes: int
    dollars_per_month: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerCost:
    """What producers sent in the window, and what of it crosses racks in three cases; None if no rack is known.

    Attributes:
        log_bytes: bytes as they are in the logs of leaders; internal topics are left out.
        unknown_bytes: those sent to a leader with an unknown rack; they are in no case.
        least: every producer is in its leader's rack: nothing crosses.
        random: producers are in all R racks of brokers alike: 1 - 1/R crosses.
        most: no producer is in its leader's rack: everything crosses.
    """

    log_bytes: int
    unknown_bytes: int
    least: Crossing | None
    random: Crossing | None
    most: Crossing | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Bill:
    """The parts of the bill that no assignment changes, in a window of their own.

    Attributes:
        unknown: why neither is known, or "".
        partitions: all partitions of the cluster that the agent may describe.
        unknown_partitions: those whose growth was not known in some part of the window: its bytes are left out.
        replication: None if not known.
        producers: None if not known.
    """

    unknown: str
    window_seconds: float
    partitions: int
    unknown_partitions: int
    replication: ReplicationCost | None
    producers: ProducerCost | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BillPart:
    """One part: whose bytes cross racks, how many, their cost (None where not known), and what decides that.

    `is_lower_bound`: of more bytes it is not known whether they cross racks.
    """

    name: str
    bytes_per_second: float | None
    dollars_per_month: float | None
    decided_by: str
    is_lower_bound: bool


def bill(found: Replication, prices: PriceTable, *, random_share: float | None) -> Bill:
    """Return the cost of what was measured.

    `random_share` is the share of bytes that crosses without regard to racks; None if it is not known.
    """
    known = not found.unknown and found.seconds > 0
    return Bill(
        unknown=found.unknown,
        window_seconds=found.seconds,
        partitions=found.partitions,
        unknown_partitions=found.unknown_partitions,
        replication=_replication(found, prices) if known else None,
        producers=_producers(found, prices, random_share) if known else None,
    )


def _replication(found: Replication, prices: PriceTable) -> ReplicationCost:
    carried = {pair: round(size) for pair, size in sorted(found.copied.carried.items())}
    whole = sum(carried.values())
    unknown = sum(size for pair, size in carried.items() if "" in pair)
    crossing = sum(size for (leader, follower), size in carried.items() if leader and follower and leader != follower)
    is_known = not whole or whole > unknown
    return ReplicationCost(
        log_bytes=whole,
        cross_rack_bytes=crossing if is_known else None,
        unknown_bytes=unknown,
        dollars_per_month=_per_month(crossing, found, prices) if is_known else None,
        pairs=tuple(
            CarriedCost(
                leader_rack=leader,
                follower_rack=follower,
                log_bytes=size,
                dollars=prices.dollars(size if leader != follower else 0) if leader and follower else None,
            )
            for (leader, follower), size in carried.items()
        ),
    )


def _producers(found: Replication, prices: PriceTable, random_share: float | None) -> ProducerCost:
    sent = {rack: round(size) for rack, size in found.copied.produced.items()}
    whole, unknown = sum(sent.values()), sent.get("", 0)
    is_known = not whole or whole > unknown

    def case(share: float | None) -> Crossing | None:
        if share is None or not is_known:
            return None
        crossing = round((whole - unknown) * share)
        dollars = _per_month(crossing, found, prices)
        return Crossing(cross_rack_bytes=crossing, dollars_per_month=dollars)

    return ProducerCost(
        log_bytes=whole,
        unknown_bytes=unknown,
        least=case(0.0),
        random=case(random_share),
        most=case(1.0),
    )


def _per_month(crossing: int, found: Replication, prices: PriceTable) -> float:
    return prices.dollars(crossing) / found.seconds * SECONDS_PER_MONTH


def parts_of(bill: Bill) -> tuple[BillPart, ...]:
    """Return replication, and producers in three cases, as rows for the page and the terminal."""
    replication, producers = bill.replication, bill.producers
    copied = bill.unknown_partitions or (replication is not None and replication.unknown_bytes)
    sent = bill.unknown_partitions or (producers is not None and producers.unknown_bytes)

    def part(name: str, of: Crossing | ReplicationCost | None, decided_by: str, unknown: int = 0) -> BillPart:
        crossing, dollars = (of.cross_rack_bytes, of.dollars_per_month) if of is not None else (None, None)
        rate = crossing / bill.window_seconds if crossing is not None and bill.window_seconds > 0 else None
        return BillPart(
            name=name,
            bytes_per_second=rate,
            dollars_per_month=dollars,
            decided_by=decided_by,
            is_lower_bound=bool(unknown),
        )

    return (
        part("replication", replication, "replicas in other racks", copied),
        part("producers, least", producers.least if producers else None, "if each is in its leader's rack"),
        part(
            "producers, random",
            producers.random if producers else None,
            "if they are spread evenly over all racks",
            sent,
        ),
        part("producers, most", producers.most if producers else None, "if none is in its leader's rack", sent),
    )


def missing(bill: Bill | None) -> tuple[str, ...]:
    """Return what the parts lack and why, in sentences."""
    if bill is None:
        return ()
    if bill.unknown:
        return (f"replication and producers are not known: {bill.unknown}",)
    found = []
    if bill.unknown_partitions:
        found.append(
            f"not in replication and producers: {bill.unknown_partitions} of {bill.partitions} partitions, whose "
            "growth is not known in all of the window"
        )
    unknown = bill.replication.unknown_bytes if bill.replication else 0
    if unknown:
        found.append(
            f"neither local nor across racks: {words.size(unknown)} that brokers without known racks copied or led"
        )
    return tuple(found)
