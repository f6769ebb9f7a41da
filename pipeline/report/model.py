"""The report as one value: what the page, the terminal and JSON show. Times are UTC, shares between 0 and 1.

"A month" is the rate of the period for 730 hours. None stands where nothing is known.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from typing import Final

from pydantic import TypeAdapter

from common.money import PriceTable


@dataclass(frozen=True, slots=True, kw_only=True)
class Period:
    """What the report is about.

    Attributes:
        first: first day.
        last: last day, which counts as well.
        begin: first minute that has traffic.
        end: end of the last one.
        seconds: measured, without days that nobody measured.
    """

    first: date
    last: date
    begin: datetime
    end: datetime
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Money:
    """Dollars a month: spent on what crossed racks, saved by agents, still possible; None where no state tells."""

    spent: float
    saved: float | None
    possible: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Headline:
    """The whole fleet in the period.

    Attributes:
        bytes: read.
        crossing_bytes: of them from another rack.
        unknown_bytes: of them with an unknown rack on either side.
        exact_bytes: of them counted by clients.
        judged_bytes: of them of groups whose states are known that day, so that savings are.
        saved_bytes: what agents kept from crossing.
        possible_bytes: what the best plans would keep from crossing.
        share: of bytes with known racks that crossed.
        dollars: for what crossed in the period.
        month: the same and savings for a month.
        groups: how many.
        led_groups: of them led by an agent at the end.
        clusters: how many.
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
    """From replicas in one rack to clients in another, over all clusters; "" is unknown."""

    client_rack: str
    replica_rack: str
    bytes: int
    dollars: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """A minute, hour or day: bytes, and dollars a month at its rate."""

    at: datetime
    bytes: int
    crossing_bytes: int
    dollars_per_month: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Day:
    """One day of the fleet; dollars of that day, savings None where no state tells."""

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
    """One group over the period; what its states tell, as it was last.

    Attributes:
        share: of bytes with known racks that crossed.
        random: the share without regard to racks.
        led: part of its bytes that was read while an agent led it.
        rackless: members whose rack nobody knows.
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
class TopicLine:
    """One topic, over all groups that read it."""

    cluster: str
    topic: str
    groups: int
    bytes: int
    crossing_bytes: int
    dollars_per_month: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """A group that lost rack awareness: shares of its bytes before and after, and now; what a month of it costs."""

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
    """A group in two spans: dollars in each."""

    cluster: str
    group: str
    earlier: float
    later: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Trend:
    """Two spans of days beside each other: dollars of the fleet, and the groups that changed most."""

    name: str
    earlier_from: date
    later_from: date
    days: int
    earlier: float
    later: float
    movers: tuple[Mover, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bad:
    """Records in quarantine, by what is wrong with them, from the first day on."""

    reason: str
    records: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Everything that is shown.

    Attributes:
        prices: whose prices all dollars are by.
        made: when.
        unit: of the timeline: minute, hour or day.
        groups: the most expensive first; lists hold as many as were asked for.
        savers: the groups with most saved and possible together.
        losses_in_all: how many there are, shown or not.
        twice: groups that agents without a common election measured side by side.
        failed: groups whose states could not be worked out.
        failure: what was wrong with one of them.
        bad: records in quarantine.
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
    topics: tuple[TopicLine, ...]
    losses: tuple[Loss, ...]
    losses_in_all: int
    trends: tuple[Trend, ...]
    bad: tuple[Bad, ...]
    twice: int
    failed: int
    failure: str


_JSON: Final = TypeAdapter(Report)


def to_json(report: Report) -> bytes:
    """The report for programs."""
    return _JSON.dump_json(report)
