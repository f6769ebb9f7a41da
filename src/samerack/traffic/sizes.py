"""Computes the bytes of spans: from the curve where that is reliable, else from a sample of the log, within a budget.

Not reliable are compacted topics, whose cleaner hides growth, and offsets from before the agent's first poll. A sample
is a raw fetch of at most 64 KiB at some places of the span, from the replica in the agent's own rack where there is
one. Batch headers have offsets and sizes; nothing is decompressed and no record is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from struct import Struct
from typing import Final

from samerack.cluster.wire import BrokerClient, BrokerRequest
from samerack.traffic.collect import Partition
from samerack.traffic.curve import Curve, bytes_between
from samerack.traffic.gaps import answered, refused
from samerack.traffic.positions import Span
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


_BATCH_TOPICS: Final = 64
"""This many topics per cycle are sampled for the size of their batches."""
_BATCH_BYTES: Final = 16_384
_LATER_BYTES: Final = 32_768


class Sizes:
    """What is known of the bytes of partitions beyond their curves."""

    def __init__(
        self, wire: BrokerClient, *, rack: str, budget_bytes: int, serving: Callable[[Partition], int | None]
    ) -> None:
        """Prepare.

        `rack` is the agent's own, "" where unknown, and `serving` returns the broker that serves it, None where
        unknown. Samples of one cycle have `budget_bytes` together.
        """
        self._wire = wire
        self._rack = rack
        self._budget_bytes = budget_bytes
        self._budget_left = 0
        self._serving = serving
        self._sampled: dict[Span, float] = {}
        self._sampled_in: dict[str, int] = {}
        self._turns = 0
        self.batch_bytes: dict[str, float] = {}
        self.sampled_partitions: frozenset[Partition] = frozenset()

    def prepare(
        self, spans: Iterable[Span], curves: Mapping[Partition, Curve], *, compacted: Collection[str]
    ) -> list[Gap]:
        """Sample the log for spans without a reliable curve; to be called once a cycle, before `size_of`."""
        self._sampled = {}
        self.sampled_partitions = frozenset()
        if not self._budget_bytes:
            return []
        self._budget_left = self._budget_bytes
        unsure = sorted(
            {span for span in spans if _unsure(span, curves.get(span.partition), compacted)},
            key=lambda span: (span.partition, span.first, span.end),
        )
        begins = {span: _place(span, curves[span.partition]) for span in unsure}
        found, gaps = self._sample([place for place in begins.values() if place is not None])
        # spans beyond one sample are sampled in more places: record sizes may vary
        longer = {
            span: [replace(place, offset=offset) for offset in places(found[place].end, place.until)]
            for span, place in begins.items()
            if place is not None and place in found and found[place].end < place.until
        }
        more, missing = self._sample([place for spread in longer.values() for place in spread], max_bytes=_LATER_BYTES)
        for span, place in begins.items():
            if place is not None and place in found:
                first = found[place]
                self._sampled[span] = bytes_of([first], place.offset, min(first.end, place.until))
                rest = [more[one] for one in longer.get(span, ()) if one in more]
                self._sampled[span] += bytes_of(rest or [first], first.end, place.until)
        self.sampled_partitions = frozenset(span.partition for span in self._sampled)
        return gaps + missing

    def sample_batches(self, spans: Iterable[Span], curves: Mapping[Partition, Curve]) -> list[Gap]:
        """Sample the size of the batches just read: in one partition of each topic, those sampled longest ago first.

        Producers change their batches with their load, so an old sample is of little use; many topics take turns.
        """
        if not self._budget_bytes:
            return []
        widest: dict[str, Span] = {}
        for span in spans:
            before = widest.get(span.partition[0])
            if before is None or span.end - span.first > before.end - before.first:
                widest[span.partition[0]] = span
        self._turns += 1
        topics = sorted(widest, key=lambda topic: (self._sampled_in.get(topic, 0), topic))[:_BATCH_TOPICS]
        wanted = []
        for topic in topics:
            self._sampled_in[topic] = self._turns
            span = widest[topic]
            curve = curves.get(span.partition)
            if curve is not None and curve.extent.start <= span.first < curve.extent.end:
                wanted.append(SamplePlace(partition=span.partition, offset=span.first, until=span.end))
        found, gaps = self._sample(wanted, max_bytes=_BATCH_BYTES)
        for place, stretch in found.items():
            self.batch_bytes[place.partition[0]] = stretch.size_bytes / stretch.batches
        return gaps

    def size_of(self, span: Span, curves: Mapping[Partition, Curve]) -> float:
        """Return the bytes of the log in a span."""
        sampled, curve = self._sampled.get(span), curves.get(span.partition)
        if curve is None:
            return sampled or 0.0
        if sampled is not None:
            return sampled + bytes_between(curve, span.first, curve.extent.start)
        return bytes_between(curve, span.first, span.end)

    def _sample(
        self, wanted: Iterable[SamplePlace], *, max_bytes: int = PLACE_BYTES
    ) -> tuple[dict[SamplePlace, Stretch], list[Gap]]:
        """Sample places; those that the budget does not allow, and that no broker serves, are left out."""
        questions = []
        for place in wanted:
            broker = self._serving(place.partition)
            if broker is None or self._budget_left < max_bytes:
                continue
            self._budget_left -= max_bytes
            request = raw_fetch([(place.partition, place.offset, max_bytes)], rack=self._rack, max_bytes=max_bytes)
            questions.append(BrokerRequest(broker=broker, request=request, about=place))
        found: dict[SamplePlace, Stretch] = {}
        gaps: list[Gap] = []
        for answer in answered(self._wire.ask(questions), Family.SAMPLE, gaps):
            place = answer.question.about
            for topic in answer.response.responses:
                for partition in topic.partitions:
                    gaps += refused(Family.SAMPLE, str(topic.topic), partition.error_code)
                    if not partition.error_code and partition.records:
                        stretch = read_stretch(partition.records, place.offset, place.until)
                        if stretch is not None:
                            found[place] = stretch
        return found, gaps


def _place(span: Span, curve: Curve) -> SamplePlace | None:
    """Return where a span begins, cut to what the log has."""
    first, end = max(span.first, curve.extent.start), min(span.end, curve.extent.end)
    return SamplePlace(partition=span.partition, offset=first, until=end) if end > first else None


def _unsure(span: Span, curve: Curve | None, compacted: Collection[str]) -> bool:
    if curve is None:
        return False
    return span.partition[0] in compacted or curve.hidden or span.first < curve.known_from
