"""The report of bytes and money, as values that the agent sends as JSON.

The page and `samerack cost` show these values. Of a sum None is what is not known, and 0 what was measured.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final, TypeVar

from pydantic import TypeAdapter

from samerack.common import words
from samerack.common.money import PriceTable
from samerack.common.records import JsonAnswer
from samerack.reporting.bill import Bill, BillPart, parts_of
from samerack.reporting.group_lag import Lag
from samerack.traffic.snapshot import Gap

MIN_SHARE: Final = 0.05
"""Shares that differ by less than this are treated as equal: five points, the default of `policy.min_saving`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PairCost:
    """Bytes from replicas in one rack to clients in one rack; "" is an unknown rack: then `dollars` is None."""

    client_rack: str
    replica_rack: str
    wire_bytes: int
    dollars: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicCost(Lag):
    """What a group read of one topic, and its lag; None where it is not known, as in `GroupCost`.

    Attributes:
        wire_bytes: bytes read in the window.
        cross_rack_bytes: those from another rack.
        unknown_bytes: those with an unknown rack on either side, which are in neither the former nor the dollars.
    """

    topic: str
    wire_bytes: int | None
    cross_rack_bytes: int | None
    dollars: float | None
    unknown_bytes: int | None = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerAssignment:
    """How brokers assign a group of the new protocol (KIP-848), and what samerack's assignor there would change.

    Attributes:
        assignor: the assignor that the brokers use for the group; "" if not known.
        installed: whether every broker has samerack's assignor; None if not known.
        lacking: brokers known not to have it.
        on_some_brokers: whether some brokers have it and some have not.
        unknown: why the brokers' assignors are not known, or "".
        share: cross-rack share under samerack's assignor, by the same weights as the group's optimal share; None if not
            known.
        saves_dollars_per_month: what it would save; None if not known, or if the group uses it already.
        advice: what to do, or that nothing is to be done.
    """

    assignor: str
    installed: bool | None
    lacking: tuple[int, ...]
    on_some_brokers: bool
    unknown: str
    share: float | None
    saves_dollars_per_month: float | None
    advice: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupCost(Lag):
    """One group in the window, and its lag. Shares are between 0 and 1, None if not known.

    Attributes:
        kind: its protocol: classic, consumer (KIP-848), streams-classic, streams (KIP-1071), share (KIP-932), other.
        state: as the brokers name it.
        role: the agent's role in it, "" if it only measures.
        members_without_rack: members without a rack that a broker has.
        wire_bytes: bytes read in the window; None if not measured, as are all amounts then.
        cross_rack_bytes: those known to be from another rack, a lower bound where others have an unknown rack; None
            where all that may be from another rack are such.
        unknown_bytes: those with an unknown rack on either side; neither near nor across.
        bytes_per_second: wire bytes per second; None before the first measurement.
        dollars: cost of the cross-rack bytes in the window; None like them.
        dollars_per_month: the same rate for a month; None like them.
        share: cross-rack share, by bytes if they are known, else by partitions.
        share_by: bytes or partitions.
        optimal_share: cross-rack share of the best balanced plan.
        random_share: cross-rack share of an assignment that ignores racks.
        own_share: cross-rack share of a plan of the group's own assignor.
        saved_dollars_per_month: what the agent saves against the group's own assignor; None if it does not lead.
        exact: whether clients counted all of the bytes themselves.
        pairs: bytes and cost by pair of racks.
        topics: bytes, cost and lag by topic, the most expensive first.
        blind_spots: limits of the figures, in sentences.
        not_counted: records that no figure includes since the agent began to measure, at most, by reason.
        note: why the group is not shown in full, or "".
        server: how brokers assign it; None for a group that brokers do not assign by KIP-848.
        avoidable_share: the part of what it reads that crosses racks and would not under the best plan; 0 if that is
            hardly any, None if not known.
        avoidable_dollars_per_month: its cost, at most that of all that crosses.
        guessed_dollars_per_month: what the bytes with an unknown rack would cost if they were read at random; None if
            not known.
    """

    group: str
    kind: str
    state: str
    assignor: str
    role: str
    members: int
    members_without_rack: int
    partitions: int
    wire_bytes: int | None
    cross_rack_bytes: int | None
    unknown_bytes: int | None
    bytes_per_second: float | None
    dollars: float | None
    dollars_per_month: float | None
    share: float | None
    share_by: str
    optimal_share: float | None
    random_share: float | None
    own_share: float | None
    saved_dollars_per_month: float | None
    exact: bool
    pairs: tuple[PairCost, ...]
    topics: tuple[TopicCost, ...]
    blind_spots: tuple[str, ...]
    note: str
    not_counted: Mapping[str, int] = field(default_factory=dict)
    server: ServerAssignment | None = None
    avoidable_share: float | None = None
    avoidable_dollars_per_month: float | None = None
    guessed_dollars_per_month: float | None = None

    @property
    def known_bytes(self) -> int | None:
        """Bytes with both racks known; None if not measured."""
        return None if self.wire_bytes is None or self.unknown_bytes is None else self.wire_bytes - self.unknown_bytes

    @property
    def dollars_to_sort_by(self) -> float:
        """Its cost a month; the guess where all of its bytes have an unknown rack."""
        known = self.dollars_per_month
        return (self.guessed_dollars_per_month if known is None else known) or 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CostSums:
    """What crosses racks costs a month over all groups, as far as it is known; None where nothing is.

    Attributes:
        dollars_per_month: the cost of what crosses racks, at the window's rate.
        avoidable_dollars_per_month: the part of it that the best plans avoid.
        unknown_bytes: those in the window with an unknown rack on either side, which are in neither.
        unmeasured_groups: how many groups have members and no measured bytes; they are in no sum.
        guessed_dollars_per_month: what the bytes with an unknown rack would cost if they were read at random; in no
            other sum. None if that is not known of one group.
    """

    dollars_per_month: float | None = None
    avoidable_dollars_per_month: float | None = None
    unknown_bytes: int | None = 0
    unmeasured_groups: int = 0
    guessed_dollars_per_month: float | None = None

    @property
    def is_lower_bound(self) -> bool:
        """Whether something that may have crossed racks is in no sum."""
        return not _is_whole(self.unknown_bytes, self.unmeasured_groups)


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals(CostSums):
    """Sums over all groups in the window of what is known; None where that is nothing.

    Attributes:
        wire_bytes: bytes read.
        cross_rack_bytes: those from another rack, as in `GroupCost`.
        share: the cross-rack share of what is known.
    """

    wire_bytes: int | None
    cross_rack_bytes: int | None
    share: float | None


def monthly_cost(group: GroupCost) -> str:
    """Return what a group costs a month; a guess where no rack is known."""
    known, guessed = group.dollars_per_month, group.guessed_dollars_per_month
    if known is None and guessed is not None:
        return words.estimate(guessed, guessed=True)
    return words.at_least(words.money(known), is_lower_bound=bool(group.unknown_bytes))


def monthly_sum(sums: CostSums) -> str:
    """Return dollars a month of all that crosses racks; where they are not known, what they may come to."""
    dollars, guessed = sums.dollars_per_month, sums.guessed_dollars_per_month
    if dollars is None:
        return "unknown" + (f", {words.estimate(guessed, guessed=True)}" if guessed else "")
    return words.at_least(words.money(dollars), is_lower_bound=sums.is_lower_bound)


def sums_in_words(sums: CostSums) -> str:
    """Return what all groups read across racks costs, and the part that better plans avoid."""
    avoidable = sums.avoidable_dollars_per_month
    less = "unknown" if avoidable is None else words.monthly(avoidable)
    return (
        f"monthly cost of what all groups read across racks: {monthly_sum(sums)}; avoidable with better plans: {less}"
    )


def not_in_sums(sums: CostSums, window_seconds: float) -> str:
    """Return what the sums over all groups lack; empty if nothing."""
    unknown, guessed, unmeasured = sums.unknown_bytes, sums.guessed_dollars_per_month, sums.unmeasured_groups
    bound = "" if guessed is None else f", {words.monthly(guessed, guessed=True)}"
    parts = [f"{words.rate(unknown / window_seconds)} read where a rack is unknown{bound}"] if unknown else []
    parts += [f"{unmeasured} groups whose bytes are unknown"] if unmeasured else []
    return f"not in it: {'; '.join(parts)}" if parts else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """All figures at one moment.

    Attributes:
        prices: the price table of all dollars.
        bootstrap: `bootstrap.servers` of the measured cluster, which identifies it for readers.
        window_start: start of the window of bytes and dollars, in seconds since 1970.
        window_end: its end; the same as its start before the first measurement.
        cycle: number of the measuring cycle, 0 before the first.
        groups: all groups, the most expensive first.
        pairs: bytes and cost by pair of racks, over all groups.
        gaps: requests that failed.
        bill: what replication and producers carry; None in the report of one group.
    """

    prices: PriceTable
    bootstrap: str
    racks: tuple[str, ...]
    window_start: float
    window_end: float
    cycle: int
    groups: tuple[GroupCost, ...]
    pairs: tuple[PairCost, ...]
    gaps: tuple[Gap, ...]
    bill: Bill | None = None

    @property
    def window_seconds(self) -> float:
        """The length of the window."""
        return self.window_end - self.window_start

    @property
    def totals(self) -> Totals:
        """The sums over all groups, as every command and page shows them."""
        groups = self.groups
        wire_bytes = total_of(group.wire_bytes for group in groups)
        unknown = total_of(group.unknown_bytes for group in groups)
        unmeasured = sum(group.wire_bytes is None and group.members > 0 for group in groups)
        whole = _is_whole(unknown, unmeasured)
        crossing = _lower_bound((group.cross_rack_bytes for group in groups), is_whole=whole)
        known = (wire_bytes or 0) - (unknown or 0)
        return Totals(
            wire_bytes=wire_bytes,
            cross_rack_bytes=crossing,
            unknown_bytes=unknown,
            unmeasured_groups=unmeasured,
            share=crossing / known if known and crossing is not None else None,
            dollars_per_month=_lower_bound((group.dollars_per_month for group in groups), is_whole=whole),
            avoidable_dollars_per_month=_lower_bound(
                (group.avoidable_dollars_per_month for group in groups),
                is_whole=whole
                and all(group.avoidable_dollars_per_month is not None for group in groups if group.cross_rack_bytes),
            ),
            guessed_dollars_per_month=_total_if_known(group.guessed_dollars_per_month for group in groups),
        )

    @property
    def cross_rack_bytes_per_second(self) -> float | None:
        """What crosses racks over all groups, as a rate; None if it is not known."""
        crossing, window = self.totals.cross_rack_bytes, self.window_seconds
        return crossing / window if crossing is not None and window > 0 else None

    @property
    def bill_parts(self) -> tuple[BillPart, ...]:
        """Consumers, replication, and producers in three cases; nothing in the report of one group."""
        if self.bill is None:
            return ()
        consumers = BillPart(
            name="consumers",
            bytes_per_second=self.cross_rack_bytes_per_second,
            dollars_per_month=self.totals.dollars_per_month,
            decided_by="assignments: what samerack moves",
            is_lower_bound=self.totals.is_lower_bound,
        )
        return consumers, *parts_of(self.bill)

    @property
    def unknown_bytes_per_second(self) -> float | None:
        """What is read over all groups where a rack is unknown, as a rate; None before the first measurement."""
        unknown, window = self.totals.unknown_bytes, self.window_seconds
        return unknown / window if unknown is not None and window > 0 else None

    @property
    def saved_dollars_per_month(self) -> float | None:
        """What the agent saves over all groups; None if it is known of no group."""
        return total_of(group.saved_dollars_per_month for group in self.groups)


_Number = TypeVar("_Number", int, float)


def total_of(values: Iterable[_Number | None]) -> _Number | None:
    """Return the sum of what is known; None if nothing is."""
    known = [value for value in values if value is not None]
    return sum(known[1:], known[0]) if known else None


def _lower_bound(values: Iterable[_Number | None], *, is_whole: bool) -> _Number | None:
    """Return the sum of what is known; None if that is nothing, or 0 where something else is not known."""
    known = total_of(values)
    return known if known or is_whole else None


def _is_whole(unknown_bytes: int | None, unmeasured_groups: int) -> bool:
    """Return whether sums over groups have all that may have crossed racks."""
    return not unknown_bytes and not unmeasured_groups


def _total_if_known(values: Iterable[_Number | None]) -> _Number | None:
    """Return the sum; None if one of the values is not known."""
    values = list(values)
    return None if None in values else total_of(values)


_JSON: Final = JsonAnswer(Report, "is not a traffic report")
_SHOWN: Final = TypeAdapter(dict[str, Any])
from_json = _JSON.from_json


def to_json(report: Report) -> bytes:
    """Return a report with its totals as JSON, for `GET /v1/traffic` and `samerack cost --json`."""
    return _SHOWN.dump_json({**_JSON.kind.dump_python(report, mode="json"), "totals": asdict(report.totals)})
