"""Stands for `agent.leading.membership.Membership`: the same rules of joining and heartbeats, in virtual time.

Whoever drives it waits on a fiber; what the network thread does happens on the timeline. What must not enter: deciding.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from kafka import errors as kafka_errors

from agent.coordination import Assign
from agent.coordination import Joined as Asked
from agent.group import CONSUMER, GroupView, view_member
from agent.leading.member import Hold
from common.errors import AgentError
from common.settings import LeadingSettings
from protocol.consumer import decode_assignment, encode_subscription
from protocol.model import NO_PARTITIONS, Subscription
from tests.simulator.group import Described, Error, Join, Joined, Protocols, Synced
from tests.simulator.process import Process

_AGAIN_MS: Final = 100
_WAIT_MS: Final = 5000
_LEAVE_MS: Final = 2000
_HARMLESS: Final = b"\xff\xff\xff\xff"
_AT_ONCE: Final = (
    Error.UNKNOWN_MEMBER_ID,
    Error.REBALANCE_IN_PROGRESS,
    Error.ILLEGAL_GENERATION,
    Error.MEMBER_ID_REQUIRED,
)


@dataclass(slots=True, eq=False)
class _Task:
    """One JoinGroup and SyncGroup on their way."""

    sent: int = 0
    hold: bool = False
    done: bool = False
    error: Error = Error.NONE
    broken: Exception | None = None


class SimulatedMembership:
    """One membership of a simulated agent."""

    def __init__(
        self,
        client: Process,
        *,
        group: str,
        settings: LeadingSettings,
        assign: Assign,
        wake: Callable[[], None],
    ) -> None:
        """As the real one; the client is the process."""
        self._process = client
        self._settings = settings
        self._assign = assign
        self._wake = wake
        self._offered = self._protocols = settings.protocols
        self._nudges = 0
        self._task: _Task | None = None
        self._rejoin_needed, self._rejoining, self._joined_unseen = True, False, False
        self._state = "unjoined"
        self._beating = False
        self._polled = 0
        self._protocol = ""
        self._seen: tuple[Described, GroupView] | None = None
        self.group_id = group
        self.group_instance_id: str | None = settings.instance_id
        self.member_id = ""
        self.generation_id = -1
        self.fenced = False
        self.closed = False
        self.leader_id = ""
        self.hold_state = Hold.NONE
        self.waited_seconds = 0.0
        self.kept_waiting: list[float] = []
        self.pending: frozenset[str] = frozenset()
        self.assigned = NO_PARTITIONS
        self._beat_later()

    # what it is

    @property
    def is_outside(self) -> bool:
        """Neither in the group nor about to be."""
        return self._state == "unjoined" and not self._rejoining

    @property
    def is_static(self) -> bool:
        """Bound to the instance id."""
        return self.group_instance_id is not None

    @property
    def leading(self) -> bool:
        """The last JoinGroup answer made it the leader."""
        return bool(self.member_id) and self.leader_id == self.member_id and self._state != "unjoined"

    @property
    def wants_join(self) -> bool:
        """`join` has something to do, or to tell."""
        return self._joined_unseen or self._rejoin_needed

    # what the group's thread does with it

    def describe(self) -> GroupView:
        """One look.

        Raises:
            NotCoordinatorError: The coordinator moves.
        """
        process = self._process
        answers: list[Described | None] = []
        process.network.describe(process.host, process.heard(answers))
        process.wait(lambda: bool(answers), _WAIT_MS)
        described = answers[0] if answers else None
        if described is None:
            raise kafka_errors.NotCoordinatorError(self.group_id)
        if self._seen is None or self._seen[0] != described:
            self._seen = described, _view(self.group_id, described)
        return self._seen[1]

    def describe_patiently(self, patience: float = 3.0) -> GroupView:
        """As `describe`, asking again for a while."""
        deadline = self._process.seconds() + patience
        while True:
            try:
                return self.describe()
            except kafka_errors.RetriableError:
                if self._process.seconds() > deadline:
                    raise
                self._process.wait(lambda: False, 2 * _AGAIN_MS)

    def poll_heartbeat(self) -> None:
        """The thread is well."""
        self._polled = self._process.played()

    def join(self, timeout: float) -> bool:
        """Join or rejoin where needed.

        Raises:
            KafkaError: As brokers answer.
        """
        process = self._process
        deadline = process.now() + round(timeout * 1000)
        while self._rejoin_needed:
            if self._task is None or self._task.done:
                if not self._rejoining:
                    self._rejoining, self._beating = True, False
                self._task = self._start()
            task = self._task
            if not process.wait(partial(_is_done, task), deadline - process.now()):
                return False
            self._task = None
            if task.broken is not None:
                raise task.broken
            if task.error in _AT_ONCE:
                continue
            if task.error is Error.NOT_COORDINATOR:
                if process.now() >= deadline:
                    return False
                process.wait(lambda: False, min(_AGAIN_MS, deadline - process.now()))
                continue
            if task.error is not Error.NONE:
                raise kafka_errors.for_code(int(task.error))(self.group_id)
        self._joined_unseen = False
        return True

    def leave(self) -> None:
        """Leave by member id.

        Raises:
            KafkaError: As brokers answer.
        """
        if not self.member_id and self.is_static and self._task is not None and not self._task.done:
            mine = (one.id for one in self.describe().members if one.instance_id == self.group_instance_id)
            self.generation_id, self.member_id = -1, next(mine, "")
        if not self.member_id or self.fenced:
            return
        self._beating = False
        process = self._process
        deadline = process.now() + _LEAVE_MS
        ids = {self.member_id: self.group_instance_id}
        while self._ask_to_leave(ids) is Error.NOT_COORDINATOR and process.now() < deadline:
            process.wait(lambda: False, _AGAIN_MS)
        self._reset("")

    def offer(self, present: str) -> None:
        """Put the present protocol first."""
        rest = tuple(name for name in self._offered if name != present)
        self._protocols = (present, *rest) if present in self._offered else self._offered

    def trigger(self, reason: str) -> None:
        """As the leader, rebalance with the next join."""
        self._process.triggers(reason)
        self._rejoin_needed = True

    def nudge(self) -> None:
        """As a follower, rebalance with the next join."""
        self._process.triggers("nudge")
        self._nudges += 1
        self._rejoin_needed = True

    def roll(self) -> None:
        """Another place, with the next join."""
        self.generation_id, self.member_id, self._state = -1, "", "unjoined"
        self._rejoin_needed = True

    def reserve(self) -> str:
        """A member id that holds up every rebalance.

        Raises:
            KafkaError: As brokers answer.
        """
        process = self._process
        answers: list[Joined] = []
        process.network.join(process.host, self._request("", None), process.heard(answers))
        process.wait(lambda: bool(answers), _WAIT_MS)
        if not answers or answers[0].error is not Error.MEMBER_ID_REQUIRED:
            if answers and answers[0].error is not Error.NONE:
                raise kafka_errors.for_code(int(answers[0].error))(self.group_id)
            raise AgentError("joined without being asked")
        self.pending |= {answers[0].member_id}
        process.changes("reserved")
        return answers[0].member_id

    def release(self, member_id: str, instance_id: str | None = None) -> None:
        """Give an id back.

        Raises:
            KafkaError: As brokers answer.
        """
        error = self._ask_to_leave({member_id: instance_id})
        if error not in (Error.NONE, Error.UNKNOWN_MEMBER_ID):
            raise kafka_errors.for_code(int(error))(self.group_id)
        self.pending -= {member_id}
        self._process.changes("released")

    def adopt(self, member_id: str) -> None:
        """Join under a reserved id from now on."""
        self.group_instance_id = None
        self.pending -= {member_id}
        self.generation_id, self.member_id = -1, member_id

    def hold(self) -> None:
        """Hold the group at the end of the next JoinGroup that another leads."""
        self.hold_state = Hold.ASKED

    def let_go(self) -> None:
        """Let the group go on.

        Raises:
            KafkaError: As brokers answer.
        """
        self.hold_state = Hold.NONE
        for member_id in self.pending:
            self.release(member_id)

    def evict(self, *member_ids: str) -> None:
        """Leave in the name of other members.

        Raises:
            KafkaError: As brokers answer.
        """
        self._process.changes("evicts")
        error = self._ask_to_leave(dict.fromkeys(member_ids))
        if error is not Error.NONE:
            raise kafka_errors.for_code(int(error))(self.group_id)

    # what the network thread does

    def _request(self, member_id: str, instance_id: str | None) -> Join:
        settings = self._settings
        user_data = _HARMLESS + self._nudges.to_bytes(4, "big") if self._nudges else None
        presence = encode_subscription(Subscription(version=3, topics=(), user_data=user_data))
        protocols: Protocols = tuple((name, presence) for name in self._protocols)
        return Join(
            member_id=member_id,
            instance_id=instance_id,
            protocols=protocols,
            session_ms=round(settings.session_timeout_seconds * 1000),
            rebalance_ms=round(settings.rebalance_timeout_seconds * 1000),
            client_id=self._process.name,
        )

    def _start(self) -> _Task:
        task = _Task(hold=True)
        self._state = "rebalancing"
        self._send_join(task)
        return task

    def _send_join(self, task: _Task) -> None:
        process = self._process
        request = self._request(self.member_id, self.group_instance_id)
        task.sent = process.now()
        process.network.join(process.host, request, lambda answer: self._joined(task, answer))
        process.changes("join-sent")

    def _hold_now(self, task: _Task) -> None:
        """Join once more behind a brake, instead of SyncGroup."""
        process = self._process
        task.hold = False
        self._nudges += 1

        def reserved(answer: Joined) -> None:
            if answer.error is not Error.MEMBER_ID_REQUIRED:
                self.hold_state = Hold.FAILED
                return
            self.pending |= {answer.member_id}
            if self.hold_state is Hold.ASKED:
                self.hold_state = Hold.HELD
            else:
                process.network.leave(process.host, {answer.member_id: None}, lambda _: None)
                self.pending -= {answer.member_id}
            process.changes("held")

        self._send_join(task)
        process.network.join(process.host, self._request("", None), reserved)

    def _joined(self, task: _Task, answer: Joined) -> None:
        if self.closed:
            return
        if answer.error is Error.NONE and self._state != "rebalancing":
            self._end(task, Error.REBALANCE_IN_PROGRESS)
            return
        if answer.error is not Error.NONE:
            if answer.error is Error.UNKNOWN_MEMBER_ID:
                self._reset("")
            elif answer.error is Error.MEMBER_ID_REQUIRED:
                self._reset(answer.member_id)
            self._end(task, answer.error)
            return
        self.member_id, self.generation_id, self._protocol = answer.member_id, answer.generation, answer.protocol
        self.leader_id = answer.leader
        self.waited_seconds = (self._process.now() - task.sent) / 1000
        self._process.changes("join-answered")
        if not self._process.host.alive:
            return
        if task.hold and self.hold_state is Hold.ASKED and answer.leader != answer.member_id:
            self._hold_now(task)
            return
        plan: dict[str, bytes] = {}
        if answer.leader == answer.member_id and not answer.skip_assignment:
            self._process.planned = answer.generation
            try:
                plan = self._assign(
                    Asked(
                        generation=answer.generation,
                        protocol=answer.protocol,
                        me=answer.member_id,
                        members=answer.members,
                    )
                )
            except Exception as error:  # noqa: BLE001 - as on the network thread, it comes out where `join` waits
                task.broken = error
                self._end(task, Error.NONE)
                return
        process = self._process
        process.network.sync(
            process.host,
            member_id=self.member_id,
            instance_id=self.group_instance_id,
            generation=self.generation_id,
            protocol=answer.protocol,
            assignments=plan.items(),
            answer=lambda synced: self._synced(task, synced),
        )
        process.changes("sync-sent")

    def _synced(self, task: _Task, answer: Synced) -> None:
        if self.closed:
            return
        if answer.error is not Error.NONE:
            self._rejoin_needed = True
            if answer.error is Error.UNKNOWN_MEMBER_ID:
                self._reset("")
            elif answer.error is Error.ILLEGAL_GENERATION:
                self._reset(self.member_id)
            self._end(task, answer.error)
            return
        self.assigned = decode_assignment(answer.assignment).partitions if answer.assignment else NO_PARTITIONS
        self._rejoining = self._rejoin_needed = False
        self._state, self._joined_unseen, self._beating = "stable", True, True
        self._polled = self._process.played()
        self._end(task, Error.NONE)
        self._process.changes("synced")

    def _end(self, task: _Task, error: Error) -> None:
        task.error, task.done = error, True
        self._process.poke()

    def _reset(self, member_id: str) -> None:
        self.generation_id, self.member_id = -1, member_id
        self._rejoin_needed, self._state = True, "unjoined"
        self._process.changes("reset")

    def _beat_later(self) -> None:
        self._process.host.later(round(self._settings.heartbeat_seconds * 1000), self._beat, repeats=True)

    def _beat(self) -> None:
        process = self._process
        if self.closed:
            return
        self._beat_later()
        if not self._beating or self._state != "stable":
            return
        if process.played() - self._polled > self._settings.rebalance_timeout_seconds * 1000:
            self._reset("")
            return
        member_id = self.member_id

        def answer(error: Error) -> None:
            if member_id == self.member_id and self._beating:
                self._heard(error)

        process.network.heartbeat(process.host, member_id, self.group_instance_id, self.generation_id, answer)

    def _heard(self, error: Error) -> None:
        if error is Error.REBALANCE_IN_PROGRESS:
            self._rejoin_needed = True
        elif error is Error.ILLEGAL_GENERATION:
            self._reset(self.member_id)
        elif error is Error.UNKNOWN_MEMBER_ID:
            self._reset("")
        elif error is Error.FENCED_INSTANCE_ID:
            self.fenced = True
            self._beating = False
        if self._rejoin_needed or self.fenced:
            self._wake()

    def _ask_to_leave(self, members: dict[str, str | None]) -> Error:
        process = self._process
        answers: list[Error] = []
        process.network.leave(process.host, members, process.heard(answers))
        process.wait(lambda: bool(answers), _WAIT_MS)
        return answers[0] if answers else Error.NOT_COORDINATOR


def _is_done(task: _Task) -> bool:
    return task.done


def _view(group: str, described: Described) -> GroupView:
    consumer = described.protocol_type == CONSUMER
    return GroupView(
        name=group,
        state=described.state,
        protocol_type=described.protocol_type,
        protocol=described.protocol,
        members=tuple(view_member(member, consumer=consumer) for member in described.members),
    )
