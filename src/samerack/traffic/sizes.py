"""Computes the bytes of spans: from the curve where that is reliable, else from a sample of the log, within a budget.

Not reliable are compacted topics, whose cleaner hides growth, and offsets from before the agent's first poll.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import Final

from samerack.traffic.collect import Partition
from samerack.traffic.curve import Curve, bytes_between
from samerack.traffic.positions import Span
from samerack.traffic.sample import SamplePlace, Sampler, bytes_of, places
from samerack.traffic.snapshot import Gap

_BATCH_TOPICS: Final = 64
"""This many topics per cycle are sampled for the size of their batches."""
_BATCH_BYTES: Final = 16_384
_LATER_BYTES: Final = 32_768


class Sizes:
    """What is known of the bytes of partitions beyond their curves."""

    def __init__(self, sampler: Sampler, *, serving: Callable[[Partition], int | None]) -> None:
        """Prepare; `serving` returns the broker that serves the agent's own rack, None where unknown."""
        self._sampler = sampler
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
        if not self._sampler.budget_bytes:
            return []
        self._sampler.refill()
        unsure = sorted(
            {span for span in spans if _unsure(span, curves.get(span.partition), compacted)},
            key=lambda span: (span.partition, span.first, span.end),
        )
        serving = self._brokers(span.partition for span in unsure)
        begins = {span: _place(span, curves[span.partition]) for span in unsure}
        found, gaps = self._sampler.poll([place for place in begins.values() if place is not None], serving)
        # spans beyond one sample are sampled in more places: record sizes may vary
        longer = {
            span: [replace(place, offset=offset) for offset in places(found[place].end, place.until)]
            for span, place in begins.items()
            if place is not None and place in found and found[place].end < place.until
        }
        more, missing = self._sampler.poll(
            [place for spread in longer.values() for place in spread], serving, max_bytes=_LATER_BYTES
        )
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
        if not self._sampler.budget_bytes:
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
        serving = self._brokers(place.partition for place in wanted)
        found, gaps = self._sampler.poll(wanted, serving, max_bytes=_BATCH_BYTES)
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

    def _brokers(self, partitions: Iterable[Partition]) -> dict[Partition, int]:
        return {one: broker for one in partitions if (broker := self._serving(one)) is not None}


def _place(span: Span, curve: Curve) -> SamplePlace | None:
    """Return where a span begins, cut to what the log has."""
    first, end = max(span.first, curve.extent.start), min(span.end, curve.extent.end)
    return SamplePlace(partition=span.partition, offset=first, until=end) if end > first else None


def _unsure(span: Span, curve: Curve | None, compacted: Collection[str]) -> bool:
    if curve is None:
        return False
    return span.partition[0] in compacted or curve.hidden or span.first < curve.known_from
