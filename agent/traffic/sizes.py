"""Bytes of spans: from the curve where that is sure, from a look into the log where it is not, within the budget.

Not sure are compacted topics, whose cleaner hides growth, and offsets from before the agent's first look. What must
not enter: groups and who reads.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from agent.cluster import ClusterView
from agent.traffic.attribute import Span
from agent.traffic.collect import Partition
from agent.traffic.curve import Curve, bytes_between
from agent.traffic.model import Gap
from agent.traffic.probe import guess
from agent.traffic.sample import PLACE_BYTES, Sampler, bytes_of, places

_BATCH_TOPICS: Final = 64
"""So many topics a cycle are looked into for the size of their batches."""
_BATCH_BYTES: Final = 16_384


class Sizes:
    """What is known of the bytes of partitions beyond their curves."""

    def __init__(self, sampler: Sampler, *, rack: str, enabled: bool) -> None:
        self._sampler = sampler
        self._rack = rack
        self._enabled = enabled
        self._sampled: dict[Span, float] = {}
        self._looked_at: dict[str, int] = {}
        self._turns = 0
        self.batch_bytes: dict[str, float] = {}
        self.sampled_partitions: frozenset[Partition] = frozenset()

    def prepare(
        self,
        spans: Iterable[Span],
        curves: Mapping[Partition, Curve],
        *,
        compacted: Mapping[str, bool],
        cluster: ClusterView,
        rack_aware: bool,
    ) -> list[Gap]:
        """Look into the log for the spans that no curve is sure of; to be called once a cycle, before `size_of`."""
        self._sampled = {}
        self.sampled_partitions = frozenset()
        if not self._enabled:
            return []
        self._sampler.refill()
        unsure = sorted(
            {span for span in spans if _unsure(span, curves.get(span.partition), compacted)},
            key=lambda span: (span.partition, span.first, span.end),
        )
        gaps: list[Gap] = []
        for span in unsure:
            curve = curves[span.partition]
            first, end = max(span.first, curve.look.start), min(span.end, curve.look.end)
            if end <= first:
                continue
            serving = self._serving([span.partition], cluster, rack_aware=rack_aware)
            wanted = {span.partition: places(first, end, curve.density or PLACE_BYTES)}
            found, missing = self._sampler.look(wanted, serving, {span.partition: end})
            gaps += missing
            if found.get(span.partition):
                self._sampled[span] = bytes_of(found[span.partition], first, end)
        self.sampled_partitions = frozenset(span.partition for span in self._sampled)
        return gaps

    def look_at_batches(
        self, spans: Iterable[Span], curves: Mapping[Partition, Curve], *, cluster: ClusterView, rack_aware: bool
    ) -> list[Gap]:
        """Learn the size of the batches just read: in one partition of each topic, those looked at longest ago first.

        Producers change their batches with their load, so an old look says little; but topics come in turns where
        there are many.
        """
        if not self._enabled:
            return []
        widest: dict[str, Span] = {}
        for span in spans:
            before = widest.get(span.partition[0])
            if before is None or span.end - span.first > before.end - before.first:
                widest[span.partition[0]] = span
        self._turns += 1
        topics = sorted(widest, key=lambda topic: (self._looked_at.get(topic, 0), topic))[:_BATCH_TOPICS]
        wanted, ends = {}, {}
        for topic in topics:
            self._looked_at[topic] = self._turns
            span = widest[topic]
            curve = curves.get(span.partition)
            if curve is not None and curve.look.start <= span.first < curve.look.end:
                wanted[span.partition] = [span.first]
                ends[span.partition] = span.end
        serving = self._serving(wanted, cluster, rack_aware=rack_aware)
        found, gaps = self._sampler.look(wanted, serving, ends, most_bytes=_BATCH_BYTES)
        for (topic, _), stretches in found.items():
            batches = sum(stretch.batches for stretch in stretches)
            self.batch_bytes[topic] = sum(stretch.size_bytes for stretch in stretches) / batches
        return gaps

    def size_of(self, span: Span, curves: Mapping[Partition, Curve]) -> float:
        """Bytes of the log in a span."""
        sampled = self._sampled.get(span)
        if sampled is not None:
            return sampled
        curve = curves.get(span.partition)
        return bytes_between(curve, span.first, span.end) if curve is not None else 0.0

    def _serving(
        self, partitions: Iterable[Partition], cluster: ClusterView, *, rack_aware: bool
    ) -> dict[Partition, int]:
        serving = {}
        for topic, number in partitions:
            views = cluster.topics.get(topic, ())
            if number < len(views):
                broker = guess(cluster, views[number], self._rack or None, rack_aware=rack_aware)
                if broker is not None:
                    serving[topic, number] = broker
        return serving


def _unsure(span: Span, curve: Curve | None, compacted: Mapping[str, bool]) -> bool:
    if curve is None:
        return False
    return compacted.get(span.partition[0], False) or curve.hidden or span.first < curve.known_from
