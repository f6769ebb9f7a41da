"""The report as one value, for the page, the terminal and JSON. Times are UTC, shares between 0 and 1.

"A month" is the rate of the period for 730 hours. None means unknown.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from typing import Final

from pydantic import TypeAdapter

from samerack.common.money import PriceTable


@dataclass(frozen=True, slots=True, kw_only=True)
class Period:
    """The period of the report.

    Attributes:
        last: last day, included.
        begin: first minute that has traffic.
        end: end of the last such minute.
        seconds: measured time, without days that have no samples.
    """

    first: date
    last: date
    begin: datetime
    end: datetime
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Money:
    """Dollars a month: spent on cross-rack bytes, saved by agents, still possible; None without states."""

    spent: float
    saved: float | None
    possible: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Headline:
    """The whole fleet in the period.

    Attributes:
        bytes: all bytes read.
        crossing_bytes: of them from another rack.
        unknown_bytes: of them with an unknown rack on either side.
        exact_bytes: of them counted by clients.
        judged_bytes: of them read by groups with known states on that day, so that their savings are known.
        saved_bytes: cross-rack bytes that agents avoided.
        possible_bytes: cross-rack bytes that the best plans would avoid.
        share: cross-rack share of the bytes with known racks.
        dollars: cost of cross-rack bytes in the period.
        month: this cost and the savings for a month.
        led_groups: groups that an agent led at the end.
    """

    bytes: int
    crossing_bytes: int
    unknown_bytes: int
    exact_bytes: int
    judged_bytes: int
    saved_bytes: float | None
    possible_bytes: float | None
    share: float | None
    dollars: float
    month: Money
    groups: int
    led_groups: int
    clusters: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Traffic from replicas in one rack to clients in a rack, over all clusters.

    Attributes:
        client_rack: rack of the clients; "" if it is unknown.
        replica_rack: rack of the replicas; "" if it is unknown.
        dollars: their price in the period.
    """

    client_rack: str
    replica_rack: str
    bytes: int
    dollars: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """One step of the timeline.

    Attributes:
        at: when the minute, hour or day begins.
        crossing_bytes: bytes that crossed racks.
        dollars_per_month: the price of a month at this rate.
    """

    at: datetime
    bytes: int
    crossing_bytes: int
    dollars_per_month: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Day:
    """One day of the fleet.

    Attributes:
        day: in UTC.
        crossing_bytes: bytes that crossed racks.
        dollars: their price on that day.
        saved_dollars: what the agents saved on that day; None without states of groups.
        possible_dollars: what the best plans would save beyond that; None without states of groups.
        seconds: how much of the day was measured.
    """

    day: date
    groups: int
    bytes: int
    crossing_bytes: int
    dollars: float
    saved_dollars: float | None
    possible_dollars: float | None
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupLine:
    """One group over the period, with facts from its last states.

    Attributes:
        share: cross-rack share of the bytes with known racks.
        random: the share of a placement that ignores racks.
        led: part of its bytes of days with known states that was read while an agent led it.
        rackless: members of unknown rack.
    """

    cluster: str
    group: str
    kind: str
    assignor: str
    members: int | None
    rackless: int | None
    bytes: int
    crossing_bytes: int
    share: float | None
    random: float | None
    led: float | None
    month: Money


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerLine:
    """The groups of one owner over the period; `owner` is "" for groups without one.

    Attributes:
        share: cross-rack share of the bytes with known racks.
    """

    owner: str
    groups: int
    bytes: int
    crossing_bytes: int
    share: float | None
    month: Money


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicLine:
    """One topic, summed over all groups that read it."""

    cluster: str
    topic: str
    groups: int
    bytes: int
    crossing_bytes: int
    dollars_per_month: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """A group that lost rack awareness.

    Attributes:
        before: cross-rack share of its bytes before the loss.
        random: the share of a placement that ignores racks.
        now: the share at the end of the period.
        lasts: whether the loss is still there.
        dollars_per_month: the price of the difference.
    """

    cluster: str
    group: str
    at: datetime
    cause: str
    kind: str
    assignor: str
    before: float
    after: float
    random: float
    now: float
    lasts: bool
    dollars_per_month: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Mover:
    """A group whose price changed between two spans of days.

    Attributes:
        earlier: dollars in the earlier span.
        later: dollars in the later one.
    """

    cluster: str
    group: str
    earlier: float
    later: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Trend:
    """Two spans of days compared: dollars of the fleet, and the groups that changed most."""

    name: str
    earlier_from: date
    later_from: date
    days: int
    earlier: float
    later: float
    movers: tuple[Mover, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bad:
    """Number of records in quarantine for one reason, from the first day on."""

    reason: str
    records: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetReport:
    """Everything that is shown.

    Attributes:
        unit: of the timeline: minute, hour or day.
        groups: the most expensive first; lists hold as many as were asked for.
        savers: the groups with most saved and possible together.
        owners: all owners, the most expensive first; none without `pipeline.owners`.
        losses_in_all: number of losses, shown or not.
        twice: groups that agents without a common election measured at the same time.
        failed: number of groups whose plans could not be computed.
        failure: the error of one of them.
    """

    period: Period
    prices: PriceTable
    made: datetime
    headline: Headline
    pairs: tuple[Pair, ...]
    unit: str
    timeline: tuple[Moment, ...]
    days: tuple[Day, ...]
    groups: tuple[GroupLine, ...]
    savers: tuple[GroupLine, ...]
    owners: tuple[OwnerLine, ...]
    topics: tuple[TopicLine, ...]
    losses: tuple[Loss, ...]
    losses_in_all: int
    trends: tuple[Trend, ...]
    bad: tuple[Bad, ...]
    twice: int
    failed: int
    failure: str


_JSON: Final = TypeAdapter(FleetReport)


def to_json(report: FleetReport) -> bytes:
    """Return the report as JSON."""
    return _JSON.dump_json(report)
