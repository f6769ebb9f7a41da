"""The report of bytes and money, as values that the agent sends as JSON.

The page and `samerack cost` show these values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from pydantic import TypeAdapter

from samerack.common.money import PriceTable
from samerack.common.records import JsonAnswer
from samerack.reporting.amounts import is_whole, lower_bound, total_if_known, total_of
from samerack.reporting.bill import Bill
from samerack.traffic.evenness import BusiestMember, TopicShare
from samerack.traffic.snapshot import Gap


@dataclass(frozen=True, slots=True, kw_only=True)
class PairCost:
    """Bytes from replicas in one rack to clients in one rack; "" is an unknown rack: then `dollars` is None."""

    client_rack: str
    replica_rack: str
    wire_bytes: int
    dollars: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicCost:
    """What a group read of one topic; None where it is not known, as in `GroupCost`.

    Attributes:
        wire_bytes: bytes read in the window.
        cross_rack_bytes: those from another rack.
        lag_records: records that are not read yet, at least; None if nothing is known.
        lag_seconds: the age of the oldest of them, at least; 0 if there is none, None if nothing is known.
        lag_unknown_partitions: partitions that `lag_records` lacks; with 0 it is exact.
        lag_seconds_unknown_partitions: the same of `lag_seconds`.
    """

    topic: str
    wire_bytes: int | None
    cross_rack_bytes: int | None
    dollars: float | None
    lag_records: int | None = None
    lag_seconds: float | None = None
    lag_unknown_partitions: int = 0
    lag_seconds_unknown_partitions: int = 0


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
class GroupCost:
    """One group in the window. Shares are between 0 and 1, None if not known.

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
        topic_share: the topic of which one member has most; None if no topic is shared.
        busiest: the member that reads most; None if rates are not known.
        exact: whether clients counted all of the bytes themselves.
        pairs: bytes and cost by pair of racks.
        topics: bytes, cost and lag by topic, the most expensive first.
        blind_spots: limits of the figures, in sentences.
        not_counted: records that no figure includes since the agent began to measure, so many at most, by reason.
        note: why the group is not shown in full, or "".
        lag_records, lag_seconds, lag_unknown_partitions, lag_seconds_unknown_partitions: as of a topic.
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
    topic_share: TopicShare | None
    busiest: BusiestMember | None
    exact: bool
    pairs: tuple[PairCost, ...]
    topics: tuple[TopicCost, ...]
    blind_spots: tuple[str, ...]
    note: str
    not_counted: Mapping[str, int] = field(default_factory=dict)
    lag_records: int | None = None
    lag_seconds: float | None = None
    lag_unknown_partitions: int = 0
    lag_seconds_unknown_partitions: int = 0
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
class Totals:
    """Sums over all groups in the window of what is known; None where that is nothing.

    Attributes:
        wire_bytes: bytes read.
        cross_rack_bytes: those from another rack, as in `GroupCost`.
        unknown_bytes: those with an unknown rack on either side.
        unmeasured_groups: how many groups have members and no measured bytes; they are in no sum.
        share: the cross-rack share of what is known.
        dollars_per_month: the cost of what crosses racks, at the window's rate.
        avoidable_dollars_per_month: the part of it that the best plans avoid.
        guessed_dollars_per_month: what the bytes with an unknown rack would cost if they were read at random; in no
            other sum. None if that is not known of one group.
    """

    wire_bytes: int | None
    cross_rack_bytes: int | None
    unknown_bytes: int | None
    unmeasured_groups: int
    share: float | None
    dollars_per_month: float | None
    avoidable_dollars_per_month: float | None
    guessed_dollars_per_month: float | None

    @property
    def is_lower_bound(self) -> bool:
        """Whether something that may have crossed racks is in no sum."""
        return not is_whole(self.unknown_bytes, self.unmeasured_groups)


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
        whole = is_whole(unknown, unmeasured)
        crossing = lower_bound((group.cross_rack_bytes for group in groups), is_whole=whole)
        known = (wire_bytes or 0) - (unknown or 0)
        return Totals(
            wire_bytes=wire_bytes,
            cross_rack_bytes=crossing,
            unknown_bytes=unknown,
            unmeasured_groups=unmeasured,
            share=crossing / known if known and crossing is not None else None,
            dollars_per_month=lower_bound((group.dollars_per_month for group in groups), is_whole=whole),
            avoidable_dollars_per_month=lower_bound(
                (group.avoidable_dollars_per_month for group in groups),
                is_whole=whole
                and all(group.avoidable_dollars_per_month is not None for group in groups if group.cross_rack_bytes),
            ),
            guessed_dollars_per_month=total_if_known(group.guessed_dollars_per_month for group in groups),
        )

    @property
    def cross_rack_bytes_per_second(self) -> float | None:
        """What crosses racks over all groups, as a rate; None if it is not known."""
        crossing, window = self.totals.cross_rack_bytes, self.window_seconds
        return crossing / window if crossing is not None and window > 0 else None

    @property
    def unknown_bytes_per_second(self) -> float | None:
        """What is read over all groups where a rack is unknown, as a rate; None before the first measurement."""
        unknown, window = self.totals.unknown_bytes, self.window_seconds
        return unknown / window if unknown is not None and window > 0 else None

    @property
    def saved_dollars_per_month(self) -> float | None:
        """What the agent saves over all groups; None if it is known of no group."""
        return total_of(group.saved_dollars_per_month for group in self.groups)


_JSON: Final = JsonAnswer(Report, "is not a traffic report")
_SHOWN: Final = TypeAdapter(dict[str, Any])


def to_json(report: Report) -> bytes:
    """Return a report with its totals as JSON, for `GET /v1/traffic` and `samerack cost --json`."""
    return _SHOWN.dump_json({**_JSON.kind.dump_python(report, mode="json"), "totals": asdict(report.totals)})


def from_json(text: bytes | str) -> Report:
    """Return the report in such a JSON text.

    Raises:
        AgentError: The text contains none.
    """
    return _JSON.from_json(text)
