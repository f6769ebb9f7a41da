"""Simulates the records that a fleet's agents would publish, to try the whole pipeline without a fleet.

Samples and states agree: both follow from members, replicas, rates and an assignment that a real assignor made. Memory
grows with the size of the fleet, not with the simulated time.

Faults between agents and a pipeline can be added: records sent twice, late records, and malformed ones. Each good
record stays in the stream exactly once, so that the sums stay known with any faults.
"""

from __future__ import annotations

import heapq
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from math import pi, sin
from random import Random
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import numpy as np

from samerack.assignors.consumer.registry import own_plan
from samerack.common.errors import SettingsError
from samerack.common.records import LEADING, SCHEMA, UNKNOWN, GroupState, TopicState, encode
from samerack.pipeline.problem import group_of, led_plan
from samerack.pipeline.simulate_cast import DAY, Fleet, cast_of

Kind: TypeAlias = Literal["sample", "state"]

_DEALT_BY: Final = {"uniform": "sticky", "stream": "range", "streams": "range"}
"""The assignor used in place of those of brokers or Kafka Streams; none of them is rack-aware."""
_NOISE: Final = 0.1
_END: Final = ',"election":"samerack"}'
"""The end of every sample: the election that agents take part in by default."""
_LATER: Final = 1000
"""Records between an original and its duplicate or malformed copy, at most."""

FILES: Final[Mapping[Kind, str]] = {"sample": "samples.jsonl", "state": "states.jsonl"}
"""The files of a folder of records, by kind."""


class Message(NamedTuple):
    """One record to be sent.

    Attributes:
        kind: selects its topic.
        key: cluster and group, so that a group's records stay in order.
        value: JSON in UTF-8.
        at: its own time; for a sample the window's start.
        fault: "" for a good record, else the name of the fault that `with_faults` added.
    """

    kind: Kind
    key: bytes
    value: bytes
    at: int
    fault: str = ""


class _Flow(NamedTuple):
    """A group's samples between two racks: the JSON around the numbers that change, and bytes per second at noon."""

    head: str
    tail: str
    rate: float


def messages(fleet: Fleet) -> Iterator[Message]:
    """Yield all records of the fleet, in order of time.

    Each step yields the samples of every group for the window that starts then; states at the start, at changes and at
    intervals, before the samples that follow from them.

    Complexity: about 2 µs for each sample.
    """
    actors = [_Actor(fleet, index) for index in range(fleet.groups)]
    window = fleet.step_seconds * 1000
    between = max(1, fleet.state_seconds // fleet.step_seconds)
    for step in range(fleet.steps):
        start = fleet.start + step * window
        factors = _factors(fleet, step, len(actors))
        middle = f'{start},"window_end":{start + window},"bytes":'
        for actor, factor in zip(actors, factors, strict=True):
            if actor.act(step) or step % between == 0:
                yield Message("state", actor.key, encode(actor.state_at(start, factor)), start)
            size, scale = actor.cast.record_bytes, factor * fleet.step_seconds
            for head, tail, rate in actor.flows:
                count = int(rate * scale)
                line = f'{head}{start}{tail}{middle}{count},"records":{count // size}{_END}'
                yield Message("sample", actor.key, line.encode(), start)


def _factors(fleet: Fleet, step: int, groups: int) -> list[float]:
    """Return the factor of each group's rates in this step: the time of day, and noise."""
    hour = (fleet.start + step * fleet.step_seconds * 1000) % DAY / DAY
    noise = np.random.default_rng([fleet.seed, step]).random(groups)
    factors: list[float] = ((1.0 + 0.5 * sin(2 * pi * (hour - 0.25))) * (1.0 + _NOISE * (2 * noise - 1))).tolist()
    return factors


class _Actor:
    """One group with its current members, replicas and assignment."""

    def __init__(self, fleet: Fleet, index: int) -> None:
        self.cast = cast_of(fleet, index)
        self._state = self.cast.state
        self.key = f"{self._state.cluster}/{self._state.group}".encode()
        self._id = f"{fleet.seed}.{index}"
        self._led = False
        self.flows: tuple[_Flow, ...] = ()

    def act(self, step: int) -> bool:
        """Apply the changes due at this step; returns whether there were any."""
        cast = self.cast
        moving = {topic for topic, moves_at in cast.moves_at.items() if moves_at == step}
        losing, taken_over = cast.loses_at == step, cast.led_from == step
        if step and not (moving or losing or taken_over):
            return False
        self._state = _with_moved_replicas(self._state, moving)
        if losing:
            self._state = _without_racks(self._state, forgotten=cast.forgets_racks)
        self._led |= taken_over
        # moved replicas alone cause no rebalance; restarting members do, and so does a leading agent
        if self._led or losing or not step:
            self._state = _assigned(self._state, led=self._led)
        self.flows = _flows(self._state, self._id)
        return True

    def state_at(self, at: int, factor: float) -> GroupState:
        """Return the state to publish."""
        topics = tuple(
            topic.model_copy(
                update={"bytes_per_second": tuple(round(rate * factor, 3) for rate in topic.bytes_per_second)}
            )
            for topic in self._state.topics
        )
        return self._state.model_copy(update={"id": f"{self._id}.{at}", "at": at, "topics": topics})


def _with_moved_replicas(state: GroupState, names: AbstractSet[str]) -> GroupState:
    """Return the state with every replica of these topics moved to the next rack."""
    racks = len(state.racks)

    def moved(topic: TopicState) -> TopicState:
        rows = tuple(tuple((rack + 1) % racks for rack in row) for row in topic.replicas)
        return topic.model_copy(update={"replicas": rows}) if topic.name in names else topic

    return state.model_copy(update={"topics": tuple(map(moved, state.topics))})


def _without_racks(state: GroupState, *, forgotten: bool) -> GroupState:
    update = {"fetches_with_rack": False, "tells_rack": False, **({"rack": UNKNOWN} if forgotten else {})}
    members = tuple(member.model_copy(update=update) for member in state.members)
    return state.model_copy(update={"members": members})


def _assigned(state: GroupState, *, led: bool) -> GroupState:
    """Return the state after a rebalance: by the agent where it leads, else by the group's own assignor."""
    group = group_of(state)
    if led:
        plan = led_plan(group)
    else:
        in_rack = group.tells_rack & (state.kind == "classic")
        dealt = own_plan(group.problem, _DEALT_BY.get(state.assignor, state.assignor), in_rack)
        assert dealt is not None  # noqa: S101 - simulated groups have no other assignors
        plan = dealt
    # the problem has members and topics sorted
    number = {member.id: index for index, member in enumerate(state.members)}
    owners = np.array([number[member] for member in group.problem.members])[plan]
    of_topic = {name: owners[group.problem.topic_of == at].tolist() for at, name in enumerate(group.problem.topics)}
    topics = tuple(topic.model_copy(update={"owner": tuple(of_topic[topic.name])}) for topic in state.topics)
    return state.model_copy(update={"topics": topics, "role": LEADING if led else ""})


def _flows(state: GroupState, prefix: str) -> tuple[_Flow, ...]:
    """Return the state's bytes by topic and racks, with all parts of their JSON that do not change."""
    flows = []
    for number, topic in enumerate(state.topics):
        rates: dict[tuple[int, int], float] = {}
        for replicas, owner, rate in zip(topic.replicas, topic.owner, topic.bytes_per_second, strict=True):
            reader = state.members[owner]
            near = state.rack_aware_fetch and reader.fetches_with_rack and reader.rack in replicas
            pair = (reader.rack, reader.rack if near else replicas[0])
            rates[pair] = rates.get(pair, 0.0) + rate
        for (client, replica), rate in sorted(rates.items()):
            fields = {
                "agent": state.agent,
                "cluster": state.cluster,
                "group": state.group,
                "topic": topic.name,
                "client_rack": state.racks[client] if client != UNKNOWN else "",
                "replica_rack": state.racks[replica],
                "method": "estimated",
            }
            body = json.dumps(fields, ensure_ascii=False, separators=(",", ":")).removeprefix("{").removesuffix("}")
            # an unknown rack is -1: plus 1, so that the id has no minus
            head = f'{{"schema":{SCHEMA},"id":"{prefix}.{number}.{client + 1}.{replica + 1}.'
            flows.append(_Flow(head, f'",{body},"window_start":', rate))
    return tuple(flows)


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """How many faults to add, as shares of the good records.

    Attributes:
        duplicates: sent a second time, byte for byte, some records later.
        late: samples that arrive late.
        late_seconds: how late, in the time of the samples.
        malformed: followed by a malformed record, of all sorts in turn.
        seed: the same seed gives the same faults.
    """

    duplicates: float = 0.0
    late: float = 0.0
    late_seconds: int = 120
    malformed: float = 0.0
    seed: int = 1

    def __post_init__(self) -> None:
        for name in ("duplicates", "late", "malformed"):
            if not 0 <= getattr(self, name) <= 1:
                raise SettingsError(f"{name}: is {getattr(self, name)}; give a share from 0 to 1, e.g. 0.05")


def _changed(**fields: Any) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda record: {**record, **fields}


def _without(field: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda record: {key: value for key, value in record.items() if key != field}


_ANY_BYTES: Final[Mapping[str, Callable[[bytes], bytes]]] = {
    "empty": lambda _: b"",
    "cut": lambda value: value[: len(value) // 2],
    "not-json": lambda _: b"java.lang.OutOfMemoryError: Java heap space",
    "not-utf-8": lambda value: value.replace(b'"group":"', b'"group":"\xff\xfe', 1),
    "a-list": lambda value: b"[" + value + b"]",
    "nul": lambda _: b"\x00" * 16,
}
_BOTH_KINDS: Final = {
    "no-id": _without("id"),
    "empty-id": _changed(id=""),
    "id-is-null": _changed(id=None),
    "no-group": _without("group"),
    "schema-is-0": _changed(schema=0),
}
_BY_KIND: Final[Mapping[str, Mapping[str, Callable[[dict[str, Any]], dict[str, Any]]]]] = {
    "sample": {
        **_BOTH_KINDS,
        "no-bytes": _without("bytes"),
        "bytes-is-text": _changed(bytes="many"),
        "negative-bytes": _changed(bytes=-1),
        "bytes-too-large": _changed(bytes=2**63),
        "bytes-is-a-fraction": _changed(bytes=0.5),
        "unknown-method": _changed(method="guessed"),
        "window-is-a-date": _changed(window_start="2026-11-01T00:00:00Z"),
    },
    "state": {
        **_BOTH_KINDS,
        "no-members": _without("members"),
        "topics-is-a-map": _changed(topics={}),
        "negative-time": _changed(at=-1),
    },
}
SORTS: Final = (*_ANY_BYTES, *_BY_KIND["sample"], *(sort for sort in _BY_KIND["state"] if sort not in _BOTH_KINDS))
"""Every sort of malformed record."""


def _malformed(message: Message, sort: str) -> bytes:
    """Return the message's record, malformed in this way; the sort must fit its kind."""
    if sort in _ANY_BYTES:
        return _ANY_BYTES[sort](message.value)
    spoilt = _BY_KIND[message.kind][sort](json.loads(message.value))
    return json.dumps(spoilt, ensure_ascii=False, separators=(",", ":")).encode()


def with_faults(messages: Iterable[Message], faults: Faults) -> Iterator[Message]:
    """Yield the messages with duplicates and malformed ones added, and late ones delayed.

    Memory: a thousand records, and the late ones.
    """
    if not (faults.duplicates or faults.late or faults.malformed):
        yield from messages
        return
    draw = Random(f"faults/{faults.seed}")  # noqa: S311 - a simulation, not a secret
    sorts = {kind: (*_ANY_BYTES, *fields) for kind, fields in _BY_KIND.items()}
    spoilt = dict.fromkeys(sorts, 0)
    by_count: list[tuple[int, int, Message]] = []
    by_time: list[tuple[int, int, Message]] = []
    for count, message in enumerate(messages):
        if draw.random() < faults.duplicates:
            again = message._replace(fault="duplicate")
            heapq.heappush(by_count, (count + draw.randint(1, _LATER), 2 * count, again))
        if draw.random() < faults.malformed:
            sort = sorts[message.kind][spoilt[message.kind] % len(sorts[message.kind])]
            spoilt[message.kind] += 1
            wrong = message._replace(value=_malformed(message, sort), fault=sort)
            heapq.heappush(by_count, (count + draw.randint(0, _LATER), 2 * count + 1, wrong))
        if message.kind == "sample" and draw.random() < faults.late:
            due = message.at + faults.late_seconds * 1000
            heapq.heappush(by_time, (due, count, message._replace(fault="late")))
        else:
            yield message
        yield from _due(by_count, count)
        yield from _due(by_time, message.at)
    for waiting in (by_count, by_time):
        yield from (message for _, _, message in sorted(waiting))


def _due(waiting: list[tuple[int, int, Message]], now: int) -> Iterator[Message]:
    while waiting and waiting[0][0] <= now:
        yield heapq.heappop(waiting)[2]
