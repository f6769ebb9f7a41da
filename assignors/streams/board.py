"""Tasks on clients while an assignor deals them out: the one thing in this room that changes.

Assignors keep a board to themselves and give out values (`KafkaStreamsAssignment`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from assignors.model import AssignmentError
from assignors.streams.model import KafkaStreamsAssignment, TaskType, assignment_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from assignors.streams.model import ApplicationState, KafkaStreamsState, ProcessId, TaskId


class Seat:
    """One client and the tasks that it has so far; load is tasks per thread."""

    __slots__ = ("active", "process", "rack", "standby", "tags", "threads")

    def __init__(self, client: KafkaStreamsState) -> None:
        self.process: ProcessId = client.process_id
        self.threads: int = client.num_processing_threads
        self.rack: str = client.rack_id or ""
        self.tags: Mapping[str, str] = client.client_tags
        self.active: set[TaskId] = set()
        self.standby: set[TaskId] = set()

    @property
    def count(self) -> int:
        """Tasks of both kinds."""
        return len(self.active) + len(self.standby)

    @property
    def load(self) -> float:
        """Tasks of both kinds per thread (KIP-925, 3: taskLoad)."""
        return self.count / self.threads

    @property
    def active_load(self) -> float:
        """Active tasks per thread."""
        return len(self.active) / self.threads

    def of(self, kind: TaskType) -> set[TaskId]:
        """Its tasks of one kind, not a copy."""
        return self.active if kind is TaskType.ACTIVE else self.standby

    def has(self, task: TaskId) -> bool:
        """Whether it has the task in either role."""
        return task in self.active or task in self.standby

    def give(self, task: TaskId, kind: TaskType) -> None:
        """Take a task.

        Raises:
            AssignmentError: it has the task already, in any role: an assignor's mistake.
        """
        if self.has(task):
            raise AssignmentError(f"client {self.process} has task {task} already; it cannot have it twice")
        self.of(kind).add(task)


class Board(dict["ProcessId", Seat]):
    """The seats of all clients, by process id, in ascending order."""

    def __init__(self, clients: Iterable[KafkaStreamsState]) -> None:
        super().__init__((client.process_id, Seat(client)) for client in clients)

    def move(self, task: TaskId, kind: TaskType, source: ProcessId, target: ProcessId) -> None:
        """Take a task from one client to another.

        Raises:
            AssignmentError: the other has it already.
        """
        self[source].of(kind).remove(task)
        self[target].give(task, kind)

    def assignments(self) -> dict[ProcessId, KafkaStreamsAssignment]:
        """What everybody has, as values."""
        return {
            process: assignment_of(process, active=sorted(seat.active), standby=sorted(seat.standby))
            for process, seat in self.items()
        }

    def put(self, assignments: Mapping[ProcessId, KafkaStreamsAssignment]) -> None:
        """Give everybody exactly these tasks."""
        for process, seat in self.items():
            seat.active = set(assignments[process].of_type(TaskType.ACTIVE))
            seat.standby = set(assignments[process].of_type(TaskType.STANDBY))


def board_of(state: ApplicationState) -> Board:
    """An empty board for the clients of an application."""
    return Board(state.states.values())
