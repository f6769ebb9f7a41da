"""A desk in front of the model, and what any desk writes down of answers: the record that is compared.

Member ids are written by name (`b` for the last id that `b` was given, `b'` for those before it); the ids themselves
are kept beside the record, because the order of a group, and so who leads, follows from them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from protocol.consumer import decode_subscription, encode_subscription
from protocol.model import Subscription
from tests.simulator.coordinator import Coordinator
from tests.simulator.group import Described, Error, Join, Joined, Protocols, Synced
from tests.simulator.scenarios import LONG, RANGE, REBALANCE, Scenario
from tests.simulator.timeline import Timeline

Line = dict[str, Any]
PARKED = "parked"
GIVES_ID = (Error.NONE, Error.MEMBER_ID_REQUIRED, Error.FENCED_INSTANCE_ID)
"""Answers to JoinGroup that tell an id; of one that is fenced while it is parked, the one that it would have had."""
PATIENCE = 0.35
"""Seconds: what has not come by then is parked."""


def wrapped(protocols: Protocols) -> Protocols:
    """Metadata as brokers want it in consumer groups: a subscription, here without topics, around what was said."""
    return tuple(
        (name, encode_subscription(Subscription(version=0, topics=(), user_data=data))) for name, data in protocols
    )


def unwrapped(metadata: bytes) -> str:
    """What was said."""
    return (decode_subscription(metadata).user_data or b"").decode() if metadata else ""


class Names:
    """Names for member ids, in the order in which they were given out."""

    def __init__(self) -> None:
        self.ids: list[str] = []
        self._owner: dict[str, str] = {}
        self.of: dict[str, str] = {}

    def learn(self, who: str, member_id: str) -> None:
        """This one goes by that id from now on."""
        if member_id and member_id not in self._owner:
            self.ids.append(member_id)
            self._owner[member_id] = who
        if member_id:
            self.of[who] = member_id

    def name(self, member_id: str) -> str:
        """Who that is."""
        who = self._owner.get(member_id, member_id)
        return who if self.of.get(who, member_id) == member_id else f"{who}'"


class Record:
    """What was asked and answered, without what differs from run to run."""

    def __init__(self) -> None:
        self.lines: list[Line] = []
        self.names = Names()

    def add(self, asked: str, **answered: object) -> None:
        """One line; what is empty is left out."""
        self.lines.append(
            {"asked": asked} | {key: value for key, value in answered.items() if value not in ("", (), [])}
        )

    def joined(self, who: str, answer: Joined) -> None:
        """An answer to JoinGroup."""
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
        """An answer to SyncGroup."""
        self.add(f"sync {who}", error=answer.error.name, assignment=answer.assignment.decode())

    def described(self, answer: Described) -> None:
        """An answer to DescribeGroups."""
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
    """Requests go to the model, at once; ids are those that a broker gave out in the same scenario."""

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
        """Write down what came."""
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
