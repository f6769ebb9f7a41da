"""A rolling window of volumes: what was read in the last `seconds`, by key. Time is an argument; no I/O."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from samerack.traffic.model import Flow, FlowKey, Volume


class Window:
    """Volumes of the last `seconds`, in steps of a cycle."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._steps: deque[tuple[float, float, tuple[Flow, ...]]] = deque()
        self._sums: dict[FlowKey, tuple[int, int]] = {}

    def add(self, begin: float, end: float, flows: Iterable[Flow]) -> None:
        """Add what was read from `begin` to `end`, and drop steps that began before the window."""
        step = tuple(flows)
        self._steps.append((begin, end, step))
        self._count(step, 1)
        while len(self._steps) > 1 and self._steps[0][0] < end - self._seconds - 1e-6:
            self._count(self._steps.popleft()[2], -1)

    def _count(self, step: tuple[Flow, ...], sign: int) -> None:
        for flow in step:
            wire_bytes, records = self._sums.get(flow.key, (0, 0))
            wire_bytes += sign * flow.volume.wire_bytes
            records += sign * flow.volume.records
            if wire_bytes or records:
                self._sums[flow.key] = (wire_bytes, records)
            else:
                self._sums.pop(flow.key, None)

    @property
    def begin(self) -> float:
        """When the window begins; 0 while it is empty."""
        return self._steps[0][0] if self._steps else 0.0

    def by_group(self) -> dict[str, tuple[Flow, ...]]:
        """Return the volumes by group, in the order of their keys."""
        groups: dict[str, list[Flow]] = {}
        for key in sorted(self._sums):
            wire_bytes, records = self._sums[key]
            flow = Flow(key=key, volume=Volume(wire_bytes=wire_bytes, records=records))
            groups.setdefault(key.group, []).append(flow)
        return {group: tuple(flows) for group, flows in groups.items()}
