"""Publishes measured traffic to other packages: one snapshot, replaced as a whole, and totals that only grow.

The cycle's thread writes it; any thread reads it without waiting.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from samerack.traffic.snapshot import Flow, GroupTraffic, Totals, TrafficSnapshot, Volume

_NOTHING: Final = Volume()
_KEPT_SECONDS: Final = 3600.0
"""The totals of a group that is gone are kept for this time: every scrape has seen their last value then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """A snapshot with the totals of the same moment, and what was added to them since the last publication."""

    snapshot: TrafficSnapshot
    totals: Totals
    counted: tuple[Flow, ...] = ()


class TrafficBoard:
    """The latest snapshot and the totals."""

    def __init__(self) -> None:
        self._published = Published(snapshot=TrafficSnapshot(), totals=MappingProxyType({}))
        self._by_name: dict[str, GroupTraffic] = {}
        self._seen: dict[str, float] = {}
        """When each group with totals was in a snapshot last, in seconds since 1970."""
        self._lock = threading.Lock()
        self._listeners: list[Callable[[Published], None]] = []

    def latest(self) -> TrafficSnapshot:
        """Return the latest snapshot; one with cycle 0 before anything was measured."""
        return self._published.snapshot

    def totals(self) -> Totals:
        """Return the volumes that this agent counted since it started, of groups that are there or just gone."""
        return self._published.totals

    def published(self) -> Published:
        """Return both, of the same moment."""
        return self._published

    def group(self, name: str) -> GroupTraffic | None:
        """Return one group of the latest snapshot."""
        return self._by_name.get(name)

    def listen(self, listener: Callable[[Published], None]) -> None:
        """Call `listener` (quick, from the cycle's thread) after each publication, and after `clear`."""
        self._listeners.append(listener)

    def publish(self, snapshot: TrafficSnapshot, counted: Iterable[Flow]) -> None:
        """Replace the snapshot and add what was counted since the last one to the totals."""
        counted = tuple(counted)
        with self._lock:
            names = {group.group for group in snapshot.groups}
            now = snapshot.window_end
            self._seen |= dict.fromkeys(names, now)
            gone = {name for name, at in self._seen.items() if now - at > _KEPT_SECONDS}
            for name in gone:
                del self._seen[name]
            totals = {key: volume for key, volume in self._published.totals.items() if key.group not in gone}
            for flow in counted:
                totals[flow.key] = totals.get(flow.key, _NOTHING) + flow.volume
            self._published = Published(snapshot=snapshot, totals=MappingProxyType(totals), counted=counted)
            self._by_name = {group.group: group for group in snapshot.groups}
        self._notify()

    def clear(self) -> None:
        """Replace the snapshot with an empty one of cycle 0, when nothing is measured any more; the totals stay."""
        with self._lock:
            end = self._published.snapshot.window_end
            snapshot = TrafficSnapshot(window_start=end, window_end=end)
            self._published = Published(snapshot=snapshot, totals=self._published.totals)
            self._by_name = {}
        self._notify()

    def _notify(self) -> None:
        for listener in self._listeners:
            listener(self._published)
