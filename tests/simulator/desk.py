"""Sends the requests of a scenario to the model or to a real broker, and records the answers, which are compared.

Member ids are written by name (`b` for the last id that `b` was given, `b'` for those before it); the ids themselves
are kept with the record, because the order of a group, and so its leader, depends on them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Protocol, TypeAlias

from samerack.protocol.consumer import decode_subscription, encode_subscription
from samerack.protocol.values import Subscription
from tests.simulator.coordinator import Coordinator
from tests.simulator.group import Described, Error, Join, Joined, Protocols, Sync, Synced
from tests.simulator.timeline import Timeline

Line = dict[str, Any]
Answer: TypeAlias = Joined | Synced | None
RANGE = (("range", b"a"),)
SHORT, LONG = 6.0, 20.0
"""Session timeouts: the shortest that brokers allow, and one that does not expire within a scenario."""
REBALANCE = 1.2
PARKED = "parked"
GIVES_ID = (Error.NONE, Error.MEMBER_ID_REQUIRED, Error.FENCED_INSTANCE_ID)
"""Answers to JoinGroup with a member id; a member that is fenced while parked gets the id that it would have had."""
PATIENCE = 0.35  # seconds until a request without an answer counts as parked


def wrapped(protocols: Protocols) -> Protocols:
    """Metadata as brokers require it in consumer groups: a subscription without topics, with the data as user data."""
    return tuple(
        (name, encode_subscription(Subscription(version=0, topics=(), user_data=data))) for name, data in protocols
    )


def unwrapped(metadata: bytes) -> str:
    """The user data of a subscription."""
    return (decode_subscription(metadata).user_data or b"").decode() if metadata else ""


class Names:
    """Names for member ids, in the order of assignment."""

    def __init__(self) -> None:
        self.ids: list[str] = []
        self._owner: dict[str, str] = {}
        self.of: dict[str, str] = {}

    def learn(self, who: str, member_id: str) -> None:
        """Set the current member id of a member."""
        if member_id and member_id not in self._owner:
            self.ids.append(member_id)
            self._owner[member_id] = who
        if member_id:
            self.of[who] = member_id

    def name(self, member_id: str) -> str:
        """The name of a member id; with `'` if it is a former one."""
        who = self._owner.get(member_id, member_id)
        return who if self.of.get(who, member_id) == member_id else f"{who}'"


class Record:
    """Requests and answers, without values that differ between runs."""

    def __init__(self) -> None:
        self.lines: list[Line] = []
        self.names = Names()

    def add(self, asked: str, **answered: object) -> None:
        """Add one line, without empty values."""
        self.lines.append(
            {"asked": asked} | {key: value for key, value in answered.items() if value not in ("", (), [])}
        )

    def joined(self, who: str, answer: Joined) -> None:
        """Add an answer to JoinGroup."""
        if answer.error in GIVES_ID:
            self.names.learn(who, answer.member_id)
        named = [[self.names.name(one), instance or "", unwrapped(data)] for one, instance, data in answer.members]
        good = answer.error is Error.NONE
        self.add(
            f"join {who}",
            error=answer.error.name,
            member=self.names.name(answer.member_id) if good else "",
            generation=answer.generation if good else "",
            protocol=answer.protocol,
            leader=self.names.name(answer.leader) if answer.leader else "",
            skip_assignment="yes" if answer.skip_assignment else "",
            members=named,
        )

    def synced(self, who: str, answer: Synced) -> None:
        """Add an answer to SyncGroup."""
        self.add(f"sync {who}", error=answer.error.name, assignment=answer.assignment.decode())

    def described(self, answer: Described) -> None:
        """Add an answer to DescribeGroups."""
        self.add(
            "describe",
            state=answer.state,
            kind=answer.protocol_type,
            protocol=answer.protocol,
            members=[
                [
                    self.names.name(one.member_id),
                    one.group_instance_id or "",
                    unwrapped(one.member_metadata),
                    one.member_assignment.decode(),
                ]
                for one in answer.members
            ],
        )


class _Coordination(Protocol):
    """A coordinator, which parks some requests; answers that are waited for in vain are None."""

    def join(self, who: str, request: Join) -> None: ...

    def sync(self, who: str, request: Sync) -> None: ...

    def answer(self, who: str, kind: str, seconds: float) -> Answer: ...

    def heartbeat(self, member_id: str, instance_id: str | None, generation: int) -> Error: ...

    def leave(self, member_id: str, instance_id: str | None) -> Error: ...

    def describe(self) -> Described: ...

    def wait(self, seconds: float) -> None: ...


class Desk:
    """Sends requests, each for a named member; answers are recorded."""

    def __init__(self, coordination: _Coordination, patience: Callable[[int], float] = lambda _: PATIENCE) -> None:
        self.record = Record()
        self.wait = coordination.wait
        self._coordination = coordination
        self._patience = patience  # seconds until the answer with this number in the record counts as parked
        self._asked: dict[str, list[str]] = {}
        self._generation: dict[str, int] = {}
        self._protocol: dict[str, str] = {}
        self._instance: dict[str, str | None] = {}

    def join(
        self,
        who: str,
        *,
        instance: str | None = None,
        anew: bool = False,
        protocols: Protocols = RANGE,
        session: float = LONG,
        rebalance: float = REBALANCE,
        kind: str = "consumer",
    ) -> None:
        """JoinGroup with the member's last member id, or without one if `anew`; the answer may come later."""
        self._instance[who] = instance
        self._asked.setdefault(who, []).append("join")
        self._coordination.join(
            who,
            Join(
                member_id="" if anew else self._id(who),
                instance_id=instance,
                protocols=wrapped(protocols),
                session_ms=round(session * 1000),
                rebalance_ms=round(rebalance * 1000),
                protocol_type=kind,
            ),
        )
        self._take(who, "join", PATIENCE / 3)

    def sync(self, who: str, *, plan: dict[str, bytes] | None = None, generation: int | None = None) -> None:
        """SyncGroup in the generation of the member's last JoinGroup; with a plan by member name as the leader."""
        self._asked.setdefault(who, []).append("sync")
        self._coordination.sync(
            who,
            Sync(
                member_id=self._id(who),
                instance_id=self._instance.get(who),
                generation=self._number(who, generation),
                protocol=self._protocol.get(who, "range"),
                assignments=tuple((self.record.names.of[name], given) for name, given in (plan or {}).items()),
            ),
        )

    def beat(self, who: str, *, generation: int | None = None, instance: str | None = None) -> None:
        """Heartbeat."""
        error = self._coordination.heartbeat(self._id(who), instance, self._number(who, generation))
        self.record.add(f"beat {who}", error=error.name)

    def leave(self, who: str, *, instance: str | None = None, by_instance: bool = False) -> None:
        """LeaveGroup."""
        error = self._coordination.leave("" if by_instance else self._id(who), instance)
        self.record.add(f"leave {who}", error=error.name)

    def describe(self) -> None:
        """DescribeGroups."""
        self.record.described(self._coordination.describe())

    def hear(self, *names: str) -> None:
        """Record the state of these members' requests: the answer, or that the request is parked."""
        asked = [(who, kind) for who in names for kind in ("join", "sync") if kind in self._asked.get(who, ())]
        first = len(self.record.lines)
        answers = [self._take(who, kind, self._patience(first + at)) for at, (who, kind) in enumerate(asked)]
        for (who, kind), answer in zip(asked, answers, strict=True):
            if answer is None:
                self.record.add(f"{kind} {who}", error=PARKED)
                continue
            self._asked[who] = [other for other in self._asked[who] if other != kind]
            if isinstance(answer, Joined):
                self.record.joined(who, answer)
            else:
                self.record.synced(who, answer)

    def _take(self, who: str, kind: str, seconds: float) -> Answer:
        """Wait a while for an answer, and keep its member id and generation for later requests."""
        answer = self._coordination.answer(who, kind, seconds)
        if isinstance(answer, Joined):
            if answer.error in GIVES_ID:
                self.record.names.learn(who, answer.member_id)
            if answer.error is Error.NONE:
                self._generation[who], self._protocol[who] = answer.generation, answer.protocol
        return answer

    def _id(self, who: str) -> str:
        return self.record.names.of.get(who, "")

    def _number(self, who: str, generation: int | None) -> int:
        return self._generation.get(who, -1) if generation is None else generation


Scenario = Callable[[Desk], None]


class _Model:
    """The model's coordinator; member ids are those of a broker in the same scenario."""

    def __init__(self, ids: Iterable[str]) -> None:
        self._timeline = Timeline()
        given = iter(ids)
        self._coordinator = Coordinator(self._timeline, new_id=lambda _: next(given, "beyond the record"))
        self._answers: dict[tuple[str, str], Answer] = {}
        self.heartbeat, self.describe = self._coordinator.heartbeat, self._coordinator.describe

    def join(self, who: str, request: Join) -> None:
        self._answers[who, "join"] = None
        self._coordinator.join(request, partial(self._answers.__setitem__, (who, "join")))

    def sync(self, who: str, request: Sync) -> None:
        self._answers[who, "sync"] = None
        self._coordinator.sync(request, partial(self._answers.__setitem__, (who, "sync")))

    def answer(self, who: str, kind: str, seconds: float) -> Answer:
        self._timeline.run(round(seconds * 1000), lambda: self._answers[who, kind] is not None)
        return self._answers[who, kind]

    def leave(self, member_id: str, instance_id: str | None) -> Error:
        (error,) = self._coordinator.leave([(member_id, instance_id)])
        return error

    def wait(self, seconds: float) -> None:
        self._timeline.run(round(seconds * 1000))


def play(scenario: Scenario, ids: Iterable[str]) -> list[Line]:
    """The record of a scenario on the model."""
    desk = Desk(_Model(ids))
    scenario(desk)
    return desk.record.lines
