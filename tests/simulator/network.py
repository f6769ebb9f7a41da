"""Processes and their network to the coordinator: requests have a latency, and only running processes get answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeVar

from tests.simulator.coordinator import Coordinator
from tests.simulator.group import Described, Error, Join, Joined, Sync, Synced
from tests.simulator.timeline import Action, Event, Timeline

LATENCY_MS: Final = 2
Answer = TypeVar("Answer")


class Host:
    """One process: it can be killed, or suspended for a while; on resume all queued actions run at once."""

    def __init__(self, timeline: Timeline, *, around: Callable[[Action], None] = lambda action: action()) -> None:
        self._timeline = timeline
        self._around = around
        self._backlog: list[Action] = []
        self.alive = True
        self.stopped = False

    def later(self, milliseconds: int, action: Action, *, repeats: bool = False) -> Event:
        """Schedule an action of this process."""
        return self._timeline.after(milliseconds, partial(self.do, action), repeats=repeats)

    def do(self, action: Action) -> None:
        """Run an action now, on resume if suspended, or never if killed."""
        if self.alive and self.stopped:
            self._backlog.append(action)
        elif self.alive:
            self._around(action)

    def stop(self) -> None:
        """Suspend the process, as by SIGSTOP."""
        self.stopped = True

    def go_on(self) -> None:
        """Resume the process, as by SIGCONT."""
        self.stopped = False
        backlog, self._backlog = self._backlog, []
        for action in backlog:
            self.do(action)

    def kill(self) -> None:
        """Kill the process, as by SIGKILL."""
        self.alive = False
        self._backlog.clear()


@dataclass(slots=True, kw_only=True)
class Trouble:
    """A fault for requests of one kind."""

    name: str  # the kind: join, sync, heartbeat, leave, find, describe or commits
    error: Error | None = None  # the error in the answer; None without one
    lost: bool = False  # whether the connection breaks instead of an answer
    before: bool = False  # whether it breaks before the request takes effect
    until: int = 0  # when the fault ends
    times: int = 1  # the number of affected requests


class Network:
    """The network to the group's coordinator, which may be unavailable for a while."""

    def __init__(self, timeline: Timeline, coordinator: Coordinator) -> None:
        self._timeline = timeline
        self.coordinator = coordinator
        self.available = True
        self.broker = 1  # the broker that coordinates the group
        self.troubles: list[Trouble] = []
        self.commits: Callable[[], Mapping[tuple[str, int], int]] = dict  # the group's committed offsets
        self.outdated: Described | None = None  # the former state of the group that a new coordinator still describes
        self.up_to_date_at = -1_000_000  # since when it does no longer

    def group_type(self, _: str) -> str:
        """The group type as brokers list it."""
        return "consumer" if self.coordinator.converted_at is not None else "classic"

    def trouble(self, name: str) -> Trouble | None:
        """The fault for this request of an agent, which it uses up; None without one."""
        now = self._timeline.now
        self.troubles = [one for one in self.troubles if one.times and one.until > now]
        found = next((one for one in self.troubles if one.name == name), None)
        if found is not None:
            found.times -= 1
        return found

    def join(self, host: Host, request: Join, answer: Callable[[Joined], None]) -> None:
        """JoinGroup."""
        refused = Joined(error=Error.NOT_COORDINATOR, member_id=request.member_id)
        self._send(host, partial(self.coordinator.join, request), refused, answer)

    def sync(self, host: Host, request: Sync, answer: Callable[[Synced], None]) -> None:
        """SyncGroup."""
        self._send(host, partial(self.coordinator.sync, request), Synced(error=Error.NOT_COORDINATOR), answer)

    def heartbeat(
        self, host: Host, member_id: str, instance_id: str | None, generation: int, answer: Callable[[Error], None]
    ) -> None:
        """Heartbeat."""

        def deliver(back: Callable[[Error], None]) -> None:
            back(self.coordinator.heartbeat(member_id, instance_id, generation))

        self._send(host, deliver, Error.NOT_COORDINATOR, answer)

    def leave(self, host: Host, members: Mapping[str, str | None], answer: Callable[[Error], None]) -> None:
        """LeaveGroup of members by member id, with their instance ids; the answer is the first error."""

        def deliver(back: Callable[[Error], None]) -> None:
            errors = self.coordinator.leave(members.items())
            back(next((error for error in errors if error is not Error.NONE), Error.NONE))

        self._send(host, deliver, Error.NOT_COORDINATOR, answer)

    def _send(
        self,
        host: Host,
        deliver: Callable[[Callable[[Answer], None]], None],
        refused: Answer,
        answer: Callable[[Answer], None],
    ) -> None:
        def back(content: Answer) -> None:
            host.later(LATENCY_MS, partial(answer, content), repeats=True)

        def arrive() -> None:
            if self.available:
                deliver(back)
            else:
                back(refused)

        if host.alive:
            self._timeline.after(LATENCY_MS, arrive, repeats=True)
