"""One agent with its supervisor, in virtual time: it replaces a process that dies, or leaves the groups for it.

The rules are those of `agent.supervisor.watchdog`, whose own code uses processes and sockets.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from samerack.agent.leading.group_memory import GroupMemory
from samerack.agent.leading.leader import GroupLeader
from samerack.agent.policy import Reason
from samerack.agent.supervisor.protocol import MemberIdentity
from samerack.agent.supervisor.watchdog import HANG_SECONDS, MAX_RESTARTS
from samerack.settings.leading import SupervisorSettings
from tests.simulator.agent import build, run, settings_of
from tests.simulator.leadership import SimulatedLeadership
from tests.simulator.network import Host
from tests.simulator.place import Watch
from tests.simulator.process import Process

if TYPE_CHECKING:
    from tests.simulator.world import World

START_MS: Final = 1300  # measured time from the start of a process to its first request
_NOTICE_MS: Final = 100
_LOST_MS: Final = 200  # the supervisor does not receive the changes of the last moments before a process dies
_LEAVING_MS: Final = 500
_FREE_RESTARTS: Final = 2
_MAX_PAUSE_MS: Final = 30_000
_RULES: Final = SupervisorSettings()


class SupervisedAgent:
    """One agent with its supervisor."""

    def __init__(self, world: World, number: int) -> None:
        self.name = f"samerack-{number}"  # its client id, and its identity in the election
        self.instance_id = self.name if world.setting.strangers else "samerack"
        self.settings = settings_of(self.instance_id, "clean" if world.setting.clean else "patient")
        self._setting, self._election, self._invariants = world.setting, world.election, world.invariants
        self._timeline, self._network, self._place = world.timeline, world.network, world.place
        self._restarts: deque[int] = deque()
        self._evicted, self._sizes = (GroupMemory(None, name=one) for one in ("evicted", "sizes"))  # as in its files
        self._notified: list[tuple[int, frozenset[MemberIdentity]]] = []
        self._known: frozenset[MemberIdentity] = frozenset()
        self._observes_until = 0
        self._armed, self._happens = "", self.kill
        self._watch: Watch | None = None
        self.leadership: SimulatedLeadership | None = None
        self.process: Process | None = None
        self.leader: GroupLeader | None = None
        self.wanted = False

    @property
    def up(self) -> bool:
        """Whether its process runs."""
        return self.process is not None and self.process.host.alive and not self.process.ended

    def ids(self) -> frozenset[str]:
        """The member ids of its process in the group."""
        process = self.process
        return (
            frozenset(one.member_id for one in process.presences()) if process is not None and self.up else frozenset()
        )

    @property
    def is_stopped(self) -> bool:
        """Whether its process is suspended, as by SIGSTOP."""
        return self.process is not None and self.process.host.alive and self.process.host.stopped

    @property
    def at_work(self) -> bool:
        """Whether it is in the wanted state: running if it is wanted, and ended if it is not."""
        resting = self._timeline.now < self._observes_until
        return (
            not self.is_stopped
            and (self.up == self.wanted or resting)
            and (not self.up or self._watch is None or self._watch.settled)
        )

    @property
    def waits(self) -> bool:
        """Whether a rebalance waits for signs of life of the members."""
        parts = self.leader._parts if self.up and self.leader is not None else None
        decision = parts.evaluator.decision if parts is not None else None
        return decision is not None and decision.reason is Reason.MEMBER_MAY_BE_AWAY

    def start(self) -> None:
        """Start the supervisor with its process."""
        if not self.wanted:
            self.wanted = True
            self._timeline.after(START_MS, self._begin)

    def stop(self) -> None:
        """Stop it, as by SIGTERM."""
        self.wanted = False
        process, leader = self.process, self.leader
        if process is None or leader is None or not self.up:
            self._leave(self._known)
            if self._election is not None:
                self._election.leave(self.name)
            return
        process.host.do(leader.stop)
        if self._election is not None:
            self._election.leave(self.name)

    def arm(self, step: str, happens: Callable[[], None]) -> None:
        """Run an action at the next such step of the process."""
        self._armed, self._happens = step, happens

    def kill(self) -> None:
        """Kill the process, as by SIGKILL."""
        if self.up and self.process is not None:
            process = self.process
            self._invariants.killed(self)
            self._end(process)
            if self._election is not None:
                self._election.falls_silent(self.name)
            self._timeline.after(_NOTICE_MS, self._handle_worker_exit)

    def freeze(self, milliseconds: int, *, whole: bool) -> None:
        """Suspend the process and resume it later, with `whole` its supervisor too, which kills it otherwise."""
        process = self.process
        if not self.up or process is None or process.host.stopped:
            return
        process.host.stop()
        if self._election is not None:
            self._election.falls_silent(self.name)

        def go_on() -> None:
            if process.host.alive:
                process.host.go_on()
                if self._election is not None and self.leadership is not None:
                    self._election.comes_back(self.name, self.leadership)

        def hangs() -> None:
            if process.host.alive and process.host.stopped:
                self.kill()

        self._timeline.after(milliseconds, go_on)
        if not whole:
            self._timeline.after(round(HANG_SECONDS * 1000) + _NOTICE_MS, hangs)

    # the process

    def _begin(self) -> None:
        if not self.wanted or self.up:
            return
        process = Process(self, timeline=self._timeline, network=self._network)
        process.plan_ms, process.metadata_ms = self._setting.plan_ms, self._setting.metadata_ms
        coordinator = self._network.coordinator
        delay, limit = coordinator.initial_delay_ms / 1000, coordinator.max_size or 2**31 - 1
        self._watch = Watch(process, self._place, delay, coordinator.record_limit, limit)
        self.leadership = self._election.enter(self.name, process.host) if self._election is not None else None
        leader = build(
            process,
            settings=self.settings,
            watch=self._watch,
            leadership=self.leadership,
            evicted=self._evicted,
            sizes=self._sizes,
            broke=lambda error: self._invariants.breaks(self, error),
            backs_off=lambda cause: self._invariants.backs_off(self, process, cause),
            notify=lambda: self._report_ids(process),
            group_type=self._network.group_type,
        )
        process.presences = leader.member_ids
        self.process, self.leader = process, leader
        self._notified = []
        self._invariants.note(f"{self.name} has a process")
        process.run(partial(run, leader), self._ends)

    def _ends(self) -> None:
        """The leader has returned, and the process ends."""
        present: frozenset[MemberIdentity] = frozenset()
        if self.process is not None:
            present = self.process.presences()
            self._end(self.process)
        # a process that reported no membership: brokers may still have the member of the process before it
        self._leave(present if any(members for _, members in self._notified) else self._known)
        if self.wanted:
            self._timeline.after(START_MS, self._begin)

    def _end(self, process: Process) -> None:
        process.kill()
        if self._watch is not None:
            self._watch.end()
            self._watch = None

    # what its process does

    def changed(self, process: Process, step: str) -> None:
        """A membership reaches a step, or the network thread has run."""
        if process is not self.process:
            return
        now = self._timeline.now
        present = process.presences()
        if not self._notified or self._notified[-1][1] != present:
            self._notified.append((now, present))
        if step:
            self._invariants.steps(self, step)
        if self._armed and self._armed == step:
            self._armed = ""
            self._happens()

    def _report_ids(self, process: Process) -> None:
        """Report the memberships to the supervisor at once, so that a later kill cannot lose them."""
        if process is self.process:
            self._notified.append((self._timeline.now - _NOTICE_MS - _LOST_MS, process.presences()))

    def triggered(self, process: Process, reason: str) -> None:
        """It is about to trigger a rebalance."""
        self._invariants.triggers(self, process, reason)

    def refused(self, process: Process, name: str, code: int) -> None:
        """A broker answers a kind of request with an error."""
        if process is self.process:
            self._invariants.refused(self, process, name, code)

    def sent(self, process: Process, name: str, request: Any) -> None:
        """It sends a request about a group."""
        if process is self.process:
            self._invariants.sends(self, process, name, request)

    def seen_partitions(self, topic: str) -> int:
        """The highest partition count of a topic that its process has seen."""
        return self._watch.max_seen.get(topic, 0) if self._watch is not None else 0

    def known_partitions(self) -> dict[str, int]:
        """How many partitions its process knows of each topic; 0 of a deleted one."""
        topics = self._watch.cluster.topics if self._watch is not None else {}
        return {topic: len(partitions) for topic, partitions in topics.items()}

    def _handle_worker_exit(self) -> None:
        now = self._timeline.now
        known = [presences for at, presences in self._notified if at <= now - _NOTICE_MS - _LOST_MS]
        if self._notified:
            self._known = known[-1] if known else self._known
        quiet = round(_RULES.restart_window_seconds * 1000)
        self._restarts.append(now)
        while now - self._restarts[0] > quiet:
            self._restarts.popleft()
        count = len(self._restarts)
        lost = frozenset(one for one in self._known if one.pending or one.instance_id is None)
        self._leave(lost)
        self._known -= lost
        pause = 0 if count <= _FREE_RESTARTS else min(_MAX_PAUSE_MS, 1000 * 2 ** (count - _FREE_RESTARTS - 1))
        if count >= MAX_RESTARTS:
            pause = quiet
            self._observes_until = now + quiet
            self._restarts.clear()
        if pause:
            self._invariants.given_up(self)
            self._leave(self._known)
            self._known = frozenset()
        if self.wanted:
            self._timeline.after(START_MS + pause, self._begin)
        else:
            self._leave(self._known)

    def _leave(self, present: frozenset[MemberIdentity]) -> None:
        """Leave by a separate process, which takes a moment."""
        host = Host(self._timeline)

        def leave() -> None:
            for one in sorted(present, key=lambda one: one.member_id):
                self._network.leave(host, {one.member_id: one.instance_id}, lambda _: None)

        self._timeline.after(_LEAVING_MS, leave)
