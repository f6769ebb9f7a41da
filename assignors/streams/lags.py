"""The lags of one client of many: those that are its own, and those that all clients without the task's state share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from samerack.assignors.streams.model import TaskId


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedLags(Mapping["TaskId", int]):
    """Lags by task.

    A thousand clients and ten thousand tasks have ten million lags, but a client has state of few tasks; of all others
    its lag is the sum of the end offsets, which is the same for every client.

    Attributes:
        own: lags that are the client's own; they have priority.
        common: lags of the tasks that the client does not name, the same mapping for all clients.
    """

    own: Mapping[TaskId, int]
    common: Mapping[TaskId, int]

    def __getitem__(self, task: TaskId) -> int:
        own = self.own.get(task)
        return self.common[task] if own is None else own

    def __iter__(self) -> Iterator[TaskId]:
        yield from self.common
        yield from (task for task in self.own if task not in self.common)

    def __len__(self) -> int:
        return len(self.common) + sum(task not in self.common for task in self.own)
