"""Bytes of spans: from the curve where that is sure, from a look into the log where it is not, within the budget.

Not sure are compacted topics, whose cleaner hides growth, and offsets from before the agent's first look. What must
not enter: groups and who reads.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from agent.cluster import ClusterView
from agent.traffic.attribute import Span
from agent.traffic.collect import Offsets, Partition
from agent.traffic.curve import Curve, bytes_between
from agent.traffic.model import Gap
from agent.traffic.probe import guess
from agent.traffic.sample import PLACE_BYTES, Sampler, bytes_of, places

_BATCHES_SECONDS: Final = 60.0
_BATCH_TOPICS: Final = 8
"""So many topics a cycle are looked into for the size of their batches."""


class Sizes:
    """What is known of the bytes of partitions beyond their curves."""

    def __init__(self, sampler: Sampler, *, rack: str, enabled: bool) -> None:
        self._sampler = sampler
        self._rack = rack
        self._enabled = enabled
        self._sampled: dict[Span, float] = {}
        self._batched_at: dict[str, float] = {}
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
        self,
        logs: Mapping[Partition, Offsets],
        *,
        read: Iterable[Partition],
        cluster: ClusterView,
        rack_aware: bool,
        now: float,
    ) -> list[Gap]:
        """Learn the average size of the newest batches of some topics, one partition of each."""
        if not self._enabled:
            return []
        chosen: dict[str, Partition] = {}
        for partition in read:
            if now - self._batched_at.get(partition[0], float("-inf")) >= _BATCHES_SECONDS:
                chosen.setdefault(partition[0], partition)
            if len(chosen) >= _BATCH_TOPICS:
                break
        wanted, ends = {}, {}
        for topic, partition in chosen.items():
            self._batched_at[topic] = now
            log = logs.get(partition)
            if log is not None and log.end > log.start:
                wanted[partition] = [max(log.start, log.end - 100)]
                ends[partition] = log.end
        found, gaps = self._sampler.look(wanted, self._serving(wanted, cluster, rack_aware=rack_aware), ends)
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
