"""Converts a group's state to an assignment problem, and computes the bytes that its plans read across racks.

A state comes from outside, so all of its values are checked before an assignor gets them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from pydantic import ValidationError

from samerack.assignors.build import MAX_CAPACITY, MemberInput, build_problem, capacities_of, limits_of, with_racks
from samerack.assignors.consumer import optimal
from samerack.assignors.evaluate import cross_rack_mask, known_mask
from samerack.assignors.problem import (
    NOBODY,
    AssignmentError,
    BoolArray,
    FloatArray,
    Int32Array,
    Int64Array,
    Problem,
)
from samerack.assignors.streams.whole_tasks import WholeTasks, min_traffic_plan, whole_tasks
from samerack.common.errors import AgentError, one_line
from samerack.common.records import LEADING, UNKNOWN, GroupState, TopicState
from samerack.common.weights import LEVELS, Rows, weights_of_rates
from samerack.settings.leading import LeadingSettings
from samerack.settings.protocols import protocol_refusal, unsound

STREAMS_CLASSIC: Final = "streams-classic"
STREAMS_KINDS: Final = frozenset({STREAMS_CLASSIC, "streams"})
"""Kinds of groups whose members get whole tasks."""
_GREATEST_RATE: Final = 1e15
"""No partition has more bytes per second; a higher rate is an error of the state, and would not fit into weights."""
_GREATEST_WEIGHT: Final = 1 << LEVELS
_BY_DEFAULT: Final = LeadingSettings()


class StateError(AgentError):
    """A group's state contradicts itself; the message says where."""


def reason_of(error: Exception) -> str:
    """Return in one line why a group could not be computed."""
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        return f"not a valid state: {'.'.join(map(str, first['loc'])) or 'JSON'}: {first['msg']}"
    return str(error) if isinstance(error, (StateError, AssignmentError)) else one_line(error)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupProblem:
    """A group's state, ready for assignors.

    Attributes:
        problem: the group with its present owners; weights are its byte rates in whole bytes, 1 at least.
        rates: [P] wire bytes per second of each partition of the problem; 1 each where no rate is known at all, so that
            shares are shares of partitions then.
        broker_racks: [B] the brokers' racks, by name, as indices into the problem's racks.
        tells_rack: [M] whether the member sends its rack in its subscription. States of older agents lack this; then a
            member that fetches with its rack counts as sending it, which is true for all clients but old ones.
        state: what the group was made of: how the agent plans it, and its weights.
        whole: the tasks of Kafka Streams; None for other groups, and where they are not known.
    """

    problem: Problem
    rates: FloatArray
    broker_racks: Int32Array
    tells_rack: BoolArray
    state: GroupState
    whole: WholeTasks | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reads:
    """The partitions that one plan of a group reads, [P] each: they depend on the plan and on racks, not on rates.

    Attributes:
        crossing: read across two known racks.
        known: read with both racks known.
        unknown: read with a rack unknown.
    """

    crossing: BoolArray
    known: BoolArray
    unknown: BoolArray

    def at(self, rates: FloatArray) -> PlanReads:
        """Return what the plan reads at these rates."""
        return PlanReads(
            crossing=float(rates[self.crossing].sum()),
            known=float(rates[self.known].sum()),
            unknown=float(rates[self.unknown].sum()),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanReads:
    """Wire bytes per second that one plan of a group reads.

    Attributes:
        crossing: read across two known racks.
        known: all reads with both racks known; `share` is `crossing` divided by this.
        unknown: the rest of the reads.
    """

    crossing: float
    known: float
    unknown: float

    @property
    def share(self) -> float:
        """Cross-rack part of the reads with known racks; 0 where there are none."""
        return min(1.0, self.crossing / self.known) if self.known else 0.0


def group_of(state: GroupState) -> GroupProblem:
    """Return the state as a problem.

    Raises:
        StateError: an index is out of range, lists of a topic differ in length, or a rate is invalid.
        AssignmentError: a member or topic occurs twice.
    """
    _check(state)

    def rack(index: int) -> str | None:
        return state.racks[index] if index != UNKNOWN else None

    owned: list[dict[str, list[int]]] = [{} for _ in state.members]
    for topic in state.topics:
        for number, owner in enumerate(topic.owner):
            if owner != UNKNOWN:
                owned[owner].setdefault(topic.name, []).append(number)
    problem = build_problem(
        topics={topic.name: [tuple(map(rack, replicas)) for replicas in topic.replicas] for topic in state.topics},
        members=[
            MemberInput(
                id=member.id,
                # the owner of a partition reads its topic, even if an old subscription lacks it
                topics=frozenset((*(state.topics[index].name for index in member.topics), *mine)),
                rack=rack(member.rack),
                reads_any_replica=bool(state.rack_aware_fetch) and member.fetches_with_rack,
                owned=mine,
            )
            for member, mine in zip(state.members, owned, strict=True)
        ],
    )
    of_brokers = sorted({rack for rack in state.racks[: state.broker_racks] if rack})
    problem = with_racks(problem, of_brokers)
    rates = _rates(state)
    sending = {
        member.id
        for member in state.members
        if (member.fetches_with_rack if member.tells_rack is None else member.tells_rack)
    }
    return GroupProblem(
        problem=replace(problem, weights=_whole_bytes(rates)),
        rates=rates,
        state=state,
        broker_racks=np.array([problem.racks.index(rack) for rack in of_brokers], np.int32),
        tells_rack=np.array([member in sending for member in problem.members], np.bool_),
        whole=_tasks_of_state(state, problem),
    )


def _tasks_of_state(state: GroupState, problem: Problem) -> WholeTasks | None:
    """Return the tasks of a Kafka Streams group; None for other groups, and where clients or tasks are not known."""
    if state.kind not in STREAMS_KINDS:
        return None
    tasks: dict[int, list[tuple[str, int]]] = {}
    for topic in state.topics:
        for number, task in enumerate(topic.tasks or ()):
            if task != UNKNOWN:
                tasks.setdefault(task, []).append((topic.name, number))
    clients = {member.id: member.client for member in state.members if member.client is not None}
    return whole_tasks(problem, [tasks[task] for task in sorted(tasks)], clients)


def at_rates_of(group: GroupProblem, state: GroupState) -> GroupProblem:
    """Return a group at the rates and weights of another of its states, which differs from the first in nothing else.

    Raises:
        StateError: the number of rates or weights is wrong, or one is invalid.
    """
    for topic in state.topics:
        _check_lengths(topic)
        _check_rates(topic)
    rates = _rates(state)
    return replace(group, problem=replace(group.problem, weights=_whole_bytes(rates)), rates=rates, state=state)


def _whole_bytes(rates: FloatArray) -> Int64Array:
    """Return rates as the weights that assignors take."""
    return np.maximum(1, np.rint(rates)).astype(np.int64)


def can_be_led(state: GroupState) -> bool:
    """Return whether an agent leads the group, or could: by its own rule for joining, if needed after a full stop.

    A group that brokers assign (KIP-848) could be led if it used the classic protocol.
    """
    if state.kind != "classic" or state.role == LEADING:
        return state.kind in {"classic", "consumer"}
    refusal = protocol_refusal(state.assignor, _BY_DEFAULT) if state.refusal is None else state.refusal
    return not refusal or bool(unsound(state.assignor))


def led_options(state: GroupState) -> optimal.Options:
    """Return what the agent plans the group with; where an older agent did not say, by the defaults of its settings."""
    planning = state.planning
    if planning is None:
        return optimal.Options(keep_copartitioned=state.assignor == "range")
    return optimal.Options(
        keep_copartitioned=planning.keep_copartitioned,
        max_skew=planning.max_skew,
        balance_tolerance=0.0 if planning.balance_tolerance is None else planning.balance_tolerance,
    )


def led_weights(state: GroupState) -> Int64Array | None:
    """Return [P] what the agent counts each partition as, in the order of the problem; None if all count alike.

    If the state has no weights, these are what an agent makes of its rates.
    """
    if state.planning is not None and not state.planning.by_bytes:
        return None
    weights: Rows | None = {topic.name: topic.weights for topic in state.topics if topic.weights is not None}
    if not weights:
        weights = weights_of_rates(
            {(topic.name, number): rate for topic in state.topics for number, rate in enumerate(topic.bytes_per_second)}
        )
    if weights is None:
        return None
    rows = (weights.get(topic.name, (1,) * len(topic.owner)) for topic in by_name(state.topics))
    return np.array([weight for row in rows for weight in row], np.int64)


def _rates(state: GroupState) -> FloatArray:
    """Return [P] rates in the order of the problem: 0 in a topic without rates, 1 everywhere if no rate is known."""
    rows = [topic.bytes_per_second or (0.0,) * len(topic.owner) for topic in by_name(state.topics)]
    rates = np.array([rate for row in rows for rate in row], np.float64)
    return rates if rates.any() else np.ones_like(rates)


def by_name(topics: Iterable[TopicState]) -> list[TopicState]:
    """Return topics in the order in which a problem has them."""
    return sorted(topics, key=lambda topic: topic.name)


def _check(state: GroupState) -> None:
    racks, members, topics = len(state.racks), len(state.members), len(state.topics)
    if state.broker_racks > racks:
        raise StateError(f"broker_racks: is {state.broker_racks}, but the state has {racks} racks")
    if len({topic.name for topic in state.topics}) < topics:
        raise StateError("a topic occurs twice: a state names each topic once")
    for member in state.members:
        if not 0 < (1.0 if member.capacity is None else member.capacity) <= MAX_CAPACITY:
            raise StateError(f"capacity of member {member.id!r}: expected above 0, at most {MAX_CAPACITY:g}")
        _within((member.rack,), racks, f"rack of member {member.id!r}", "racks")
        if not all(0 <= index < topics for index in member.topics):
            raise StateError(f"topics of member {member.id!r}: expected indices below {topics}, got {member.topics}")
    for topic in state.topics:
        _check_lengths(topic)
        _within(topic.owner, members, f"owners of topic {topic.name!r}", "members")
        _within([rack for row in topic.replicas for rack in row], racks, f"replicas of topic {topic.name!r}", "racks")
        _check_rates(topic)


def _check_lengths(topic: TopicState) -> None:
    count = len(topic.owner)
    if len(topic.replicas) != count or len(topic.bytes_per_second) not in (0, count):
        raise StateError(
            f"topic {topic.name!r}: has {count} owners, {len(topic.replicas)} lists of replicas and "
            f"{len(topic.bytes_per_second)} rates; expected one of each for every partition, or no rates"
        )
    for name, values in (("tasks", topic.tasks), ("weights", topic.weights), ("loads", topic.loads)):
        if values is not None and len(values) != count:
            raise StateError(
                f"topic {topic.name!r}: has {count} owners and {len(values)} {name}; expected one for every partition"
            )


def _check_rates(topic: TopicState) -> None:
    # also false for NaN
    if not all(0 <= rate <= _GREATEST_RATE for rate in topic.bytes_per_second):
        raise StateError(f"rates of topic {topic.name!r}: expected bytes per second from 0 to {_GREATEST_RATE:g}")
    if not all(0 <= load <= _GREATEST_RATE for load in topic.loads or ()):
        raise StateError(f"loads of topic {topic.name!r}: expected numbers from 0 to {_GREATEST_RATE:g}")
    if not all(1 <= weight <= _GREATEST_WEIGHT for weight in topic.weights or ()):
        raise StateError(f"weights of topic {topic.name!r}: expected integers from 1 to {_GREATEST_WEIGHT}")


def _within(indices: Sequence[int], count: int, what: str, of: str) -> None:
    wrong = next((index for index in indices if not UNKNOWN <= index < count), None)
    if wrong is not None:
        raise StateError(f"{what}: {wrong} is not one of the state's {count} {of}")


def crossing(group: GroupProblem, owner: Int32Array) -> PlanReads:
    """Return what a plan, [P] the owner of each partition or NOBODY, reads across racks by the group's byte rates."""
    return reads(group.problem, owner).at(group.rates)


def reads(problem: Problem, owner: Int32Array) -> Reads:
    """Return the partitions that a plan, [P] as for `crossing`, reads."""
    known = known_mask(problem, owner)
    crosses = cross_rack_mask(problem, owner) & known
    return Reads(crossing=crosses, known=known, unknown=(owner != NOBODY) & ~known)


def best_plan(problem: Problem, kind: str, whole: WholeTasks | None) -> Int32Array | None:
    """Return the best balanced plan, of Kafka Streams with whole tasks; None where these are not known.

    Raises:
        AssignmentError: as the assignor.
    """
    if kind not in STREAMS_KINDS:
        return optimal.assign(problem)
    return None if whole is None else min_traffic_plan(problem, whole)


def led_plan(group: GroupProblem, options: optimal.Options | None = None) -> Int32Array:
    """Return the plan of a leading agent with its weights, and with its options unless others are given.

    Raises:
        AssignmentError: as the assignor.
    """
    problem = _balanced(replace(group.problem, weights=led_weights(group.state)), group.state)
    return optimal.assign(problem, options or led_options(group.state))


def _balanced(problem: Problem, state: GroupState) -> Problem:
    """Return the problem with the loads, capacities and limits by which the agent balances the group, if it does."""
    if state.planning is None or state.planning.balance_tolerance is None:
        return problem
    rows = [topic.loads or (0,) * len(topic.owner) for topic in by_name(state.topics)]
    loads = np.array([load for row in rows for load in row], np.int64)
    by_load = any(topic.loads is not None for topic in state.topics)
    members = [
        MemberInput(
            id=member.id,
            topics=(),
            capacity=1.0 if member.capacity is None else member.capacity,
            max_partitions=member.max_partitions,
        )
        for member in sorted(state.members, key=lambda member: member.id)
    ]
    return replace(
        problem,
        loads=loads if by_load else None,
        capacity=capacities_of(members, by_load=by_load),
        max_partitions=limits_of(members),
    )
