"""Samples the log for the bytes of a range of offsets: for compacted topics, old data, and the size of batches.

A raw fetch reads at most 64 KiB at some places of the range, from the replica in the agent's own rack where there is
one, within a budget of bytes per cycle. Batch headers have offsets and sizes; nothing is decompressed and no record is
kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from struct import Struct
from typing import Final

from samerack.cluster.wire import Question, Wire
from samerack.traffic.collect import Partition
from samerack.traffic.gaps import answered, refused
from samerack.traffic.probe import raw_fetch
from samerack.traffic.snapshot import Family, Gap

PLACE_BYTES: Final = 65_536
MAX_PLACES: Final = 9

_HEADER: Final = Struct(">qiibihi")  # base offset, length, leader epoch, magic, CRC, attributes, last offset delta
_BEFORE_LENGTH: Final = 12
"""A batch's length counts what follows it: base offset and length itself come before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """A sample at one place of a log: offsets `first` to before `end` hold `size_bytes` in `batches` batches."""

    first: int
    end: int
    size_bytes: int
    batches: int

    @property
    def density(self) -> float:
        """Bytes per offset."""
        return self.size_bytes / (self.end - self.first) if self.end > self.first else 0.0


def read_stretch(records: bytes | bytearray | memoryview, asked: int, until: int) -> Stretch | None:
    """Return the stretch in a fetch response, from batch headers alone; None where there is no whole header.

    A batch cut off at its end still has its size. The gap that compaction left before a batch counts as offsets
    without bytes. Offsets outside `asked` to `until` are counted in full with their batch.
    """
    data = memoryview(records)
    at, size, batches, first, end = 0, 0, 0, asked, asked
    while at + _HEADER.size <= len(data):
        base, length, _, _, _, _, last_delta = _HEADER.unpack_from(data, at)
        if length <= 0 or base >= until:
            break
        if not batches:
            first = min(asked, base)
        size += _BEFORE_LENGTH + length
        batches += 1
        end = base + last_delta + 1
        at += _BEFORE_LENGTH + length
    return Stretch(first=first, end=end, size_bytes=size, batches=batches) if end > first else None


def places(first: int, end: int) -> list[int]:
    """Return where to sample offsets `first` to before `end`: evenly spread, beginning with the first."""
    count = min(MAX_PLACES, end - first)
    return [first + (end - first) * place // count for place in range(count)]


def bytes_of(stretches: Sequence[Stretch], first: int, end: int) -> float:
    """Estimate the bytes of offsets `first` to before `end`: each place stands for the offsets up to the next."""
    ordered = sorted(stretches, key=lambda stretch: stretch.first)
    total = 0.0
    for index, stretch in enumerate(ordered):
        begin = first if index == 0 else stretch.first
        until = ordered[index + 1].first if index + 1 < len(ordered) else end
        total += max(0, until - begin) * stretch.density
    return total


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplePlace:
    """Where to sample: from an offset of a partition on, counting batches that begin before `until`."""

    partition: Partition
    offset: int
    until: int


@dataclass(slots=True, kw_only=True, eq=False, repr=False)
class Sampler:
    """Samples logs within a budget.

    `rack` is the agent's own, "" where unknown; one cycle may read `budget_bytes`, of which some are left.
    """

    wire: Wire
    rack: str
    budget_bytes: int
    _left: int = field(default=0, init=False)

    def refill(self) -> None:
        """Reset the budget for a new cycle."""
        self._left = self.budget_bytes

    def poll(
        self, wanted: Sequence[SamplePlace], serving: Mapping[Partition, int], *, max_bytes: int = PLACE_BYTES
    ) -> tuple[dict[SamplePlace, Stretch], list[Gap]]:
        """Sample places, from the broker in `serving`; those that the budget does not allow are left out."""
        questions = []
        for place in wanted:
            if place.partition not in serving or self._left < max_bytes:
                continue
            self._left -= max_bytes
            request = raw_fetch([(place.partition, place.offset, max_bytes)], rack=self.rack, max_bytes=max_bytes)
            questions.append(Question(broker=serving[place.partition], request=request, about=place))
        found: dict[SamplePlace, Stretch] = {}
        gaps: list[Gap] = []
        for answer in answered(self.wire.ask(questions), Family.SAMPLE, gaps):
            place = answer.question.about
            for topic in answer.response.responses:
                for one in topic.partitions:
                    gaps += refused(Family.SAMPLE, str(topic.topic), one.error_code)
                    if not one.error_code and one.records:
                        stretch = read_stretch(one.records, place.offset, place.until)
                        if stretch is not None:
                            found[place] = stretch
        return found, gaps
