"""What clients have committed: each partition's offset is the time of the last commit by its owner, in milliseconds."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.simulator.consumers import Consumer, Partition
    from tests.simulator.world import World


class Commits:
    """The offsets of the group of one world; each client commits at intervals, or none ever does."""

    def __init__(self, world: World, every_ms: int) -> None:
        self._world, self.every_ms = world, every_ms
        self._last: dict[Partition, int] = {}

    def latest(self) -> dict[Partition, int]:
        """The offsets by now."""
        for one in self._world.consumers:
            self.keep(one)
        return self._last

    def keep(self, one: Consumer) -> None:
        """Keep what a client has committed until now, before it ends, stops, or owns other partitions."""
        if not self.every_ms or not one.host.alive or one.host.stopped:
            return
        phase = sum(one.name.encode()) * 37 % self.every_ms
        at = (self._world.timeline.now + phase) // self.every_ms * self.every_ms - phase
        if at >= one.owned_since:
            self._last |= dict.fromkeys(one.owned, at)
