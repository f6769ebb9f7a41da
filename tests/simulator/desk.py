"""The `Desk` for the model, and the record of answers of any desk, which is compared.

Member ids are written by name (`b` for the last id that `b` was given, `b'` for those before it); the ids themselves
are kept with the record, because the order of a group, and so its leader, depends on them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from samerack.protocol.consumer import decode_subscription, encode_subscription
from samerack.protocol.model import Subscription
from tests.simulator.coordinator import Coordinator
from tests.simulator.group import Described, Error, Join, Joined, Protocols, Synced
from tests.simulator.scenarios import LONG, RANGE, REBALANCE, Scenario
from tests.simulator.timeline import Timeline

Line = dict[str, Any]
PARKED = "parked"
GIVES_ID = (Error.NONE, Error.MEMBER_ID_REQUIRED, Error.FENCED_INSTANCE_ID)
"""Answers to JoinGroup with a member id; a member that is fenced while parked gets the id that it would have had."""
PATIENCE = 0.35
"""Seconds until a request without an answer counts as parked."""


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
        told = [[self.names.name(one), instance or "", unwrapped(data)] for one, instance, data in answer.members]
        good = answer.error is Error.NONE
        self.add(
            f"join {who}",
            error=answer.error.name,
            member=self.names.name(answer.member_id) if good else "",
            generation=answer.generation if good else "",
            protocol=answer.protocol,
            leader=self.names.name(answer.leader) if answer.leader else "",
            skip_assignment="yes" if answer.skip_assignment else "",
            members=told,
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


class ModelDesk:
    """Sends requests to the model at once; member ids are those of a broker in the same scenario."""

    def __init__(self, ids: Iterable[str]) -> None:
        self.record = Record()
        self._timeline = Timeline()
        given = iter(ids)
        self._coordinator = Coordinator(self._timeline, new_id=lambda _: next(given, "beyond the record"))
        self._joined: dict[str, Joined | None] = {}
        self._synced: dict[str, Synced | None] = {}
        self._generation: dict[str, int] = {}
        self._protocol: dict[str, str] = {}
        self._instance: dict[str, str | None] = {}

    def join(
        self,
        who: str,
        *,
        instance: str | None = None,
        anew: bool = False,
        protocols: tuple[tuple[str, bytes], ...] = RANGE,
        session: float = LONG,
        rebalance: float = REBALANCE,
        kind: str = "consumer",
    ) -> None:
        """JoinGroup."""
        self._instance[who] = instance
        self._joined[who] = None

        def answer(joined: Joined) -> None:
            self._joined[who] = joined
            if joined.error is Error.NONE:
                self._generation[who], self._protocol[who] = joined.generation, joined.protocol
            if joined.error in GIVES_ID:
                self.record.names.learn(who, joined.member_id)

        request = Join(
            member_id="" if anew else self.record.names.of.get(who, ""),
            instance_id=instance,
            protocols=wrapped(protocols),
            session_ms=round(session * 1000),
            rebalance_ms=round(rebalance * 1000),
            protocol_type=kind,
        )
        self._coordinator.join(request, answer)
        self._timeline.run(round(PATIENCE * 1000 / 3), partial(_has_come, self._joined, who))

    def sync(self, who: str, *, plan: dict[str, bytes] | None = None, generation: int | None = None) -> None:
        """SyncGroup."""
        of = self.record.names.of
        self._synced[who] = None

        def answer(synced: Synced) -> None:
            self._synced[who] = synced

        self._coordinator.sync(
            member_id=of.get(who, ""),
            instance_id=self._instance.get(who),
            generation=self._generation.get(who, -1) if generation is None else generation,
            protocol=self._protocol.get(who, "range"),
            assignments=[(of[name], assignment) for name, assignment in (plan or {}).items()],
            answer=answer,
        )

    def beat(self, who: str, *, generation: int | None = None, instance: str | None = None) -> None:
        """Heartbeat."""
        number = self._generation.get(who, -1) if generation is None else generation
        error = self._coordinator.heartbeat(self.record.names.of.get(who, ""), instance, number)
        self.record.add(f"beat {who}", error=error.name)

    def leave(self, who: str, *, instance: str | None = None, by_instance: bool = False) -> None:
        """LeaveGroup."""
        (error,) = self._coordinator.leave([("" if by_instance else self.record.names.of.get(who, ""), instance)])
        self.record.add(f"leave {who}", error=error.name)

    def describe(self) -> None:
        """DescribeGroups."""
        self.record.described(self._coordinator.describe())

    def hear(self, *names: str) -> None:
        """Record the answers."""
        for who in names:
            if who in self._joined:
                self._timeline.run(round(PATIENCE * 1000), partial(_has_come, self._joined, who))
            if who in self._synced:
                self._timeline.run(round(PATIENCE * 1000), partial(_has_come, self._synced, who))
        for who in names:
            if who in self._joined:
                joined = self._joined[who]
                if joined is None:
                    self.record.add(f"join {who}", error=PARKED)
                else:
                    del self._joined[who]
                    self.record.joined(who, joined)
            if who in self._synced:
                synced = self._synced[who]
                if synced is None:
                    self.record.add(f"sync {who}", error=PARKED)
                else:
                    del self._synced[who]
                    self.record.synced(who, synced)

    def wait(self, seconds: float) -> None:
        """Let time pass."""
        self._timeline.run(round(seconds * 1000))


def _has_come(answers: Mapping[str, object], who: str) -> bool:
    return answers[who] is not None


def play(scenario: Scenario, ids: Iterable[str]) -> list[Line]:
    """The record of a scenario on the model."""
    desk = ModelDesk(ids)
    scenario(desk)
    return desk.record.lines
