"""What the agent shows of bytes and money, as values that travel as JSON between the agent and its readers.

The page, `samerack cost` and `samerack top` are drawn from these.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pydantic import TypeAdapter

from agent.answers import read
from agent.evenness import BusiestMember, TopicShare
from common.money import PriceTable


@dataclass(frozen=True, slots=True, kw_only=True)
class PairCost:
    """What went from replicas in one rack to clients in another; "" is an unknown rack, which costs nothing here."""

    client_rack: str
    replica_rack: str
    wire_bytes: int
    dollars: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicCost:
    """What a group read of one topic."""

    topic: str
    wire_bytes: int
    cross_rack_bytes: int
    dollars: float


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupCost:
    """One group in the window. Shares are between 0 and 1, None where nothing is known.

    Attributes:
        group: its name.
        kind: its protocol: classic, consumer (KIP-848), streams-classic, streams (KIP-1071), other.
        state: as the brokers name it.
        assignor: that the group uses.
        role: what the agent is to it, "" where it only measures.
        members: how many.
        members_without_rack: those whose rack no source knows.
        partitions: that it reads.
        wire_bytes: read in the window.
        cross_rack_bytes: of them from another rack.
        unknown_bytes: of them with a rack unknown on either side; neither near nor across.
        bytes_per_second: wire bytes; None before anything was measured.
        dollars: for what crossed in the window.
        dollars_per_month: the same rate for a month; None before anything was measured, and while no rack is known.
        share: across racks, by bytes where they are known, else by partitions.
        share_by: which of the two.
        optimal_share: of the best balanced plan.
        random_share: of placement without regard to racks.
        own_share: of what the group's own assignor would deal.
        saved_dollars_per_month: what the agent saves against the group's own assignor; None where it does not lead.
        topic_share: the topic of which one member has most; None where no topic is shared.
        busiest: the member that reads most; None where rates are not known.
        exact: whether clients counted all of the bytes themselves.
        pairs: by racks.
        topics: by topic, the most expensive first.
        blind_spots: what the figures cannot know, in sentences.
        note: why the group is not shown in full, or "".
    """

    group: str
    kind: str
    state: str
    assignor: str
    role: str
    members: int
    members_without_rack: int
    partitions: int
    wire_bytes: int
    cross_rack_bytes: int
    unknown_bytes: int
    bytes_per_second: float | None
    dollars: float
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """What could not be asked, and what the figures lack for it."""

    what: str
    where: str
    refused: bool
    reason: str
    consequence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Everything at one moment.

    Attributes:
        prices: whose prices all dollars are by.
        bootstrap: `bootstrap.servers` of whoever measured, so that readers know of which cluster this is.
        racks: of brokers.
        window_start: of bytes and dollars, in seconds since 1970.
        window_end: its end; the same as its start before anything was measured.
        cycle: number of the measuring cycle, 0 before the first.
        groups: the most expensive first.
        pairs: rack by rack over all groups.
        gaps: what could not be asked.
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

    @property
    def window_seconds(self) -> float:
        """Length of the window."""
        return self.window_end - self.window_start


_JSON: Final = TypeAdapter(Report)


def to_json(report: Report) -> bytes:
    """A report as `GET /v1/traffic` answers it and `samerack cost --json` prints it."""
    return _JSON.dump_json(report)


def from_json(text: bytes | str) -> Report:
    """The report of such a text.

    Raises:
        AgentError: It is none.
    """
    return read(_JSON, text, "is no report of traffic")
