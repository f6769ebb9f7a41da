"""Builds a `Problem`, arrays of indices, from the topics, racks and members that a group's leader knows.

This module is the only one of the package that interns names. It resolves conflicting claims and sorts the members,
which may come in any order. `assemble` takes topics and claims that are arrays already: a group's topics change seldom,
its members often, so a `TopicTable` is made once and used for many problems.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from itertools import count
from typing import TYPE_CHECKING, Final

import numpy as np

from samerack.assignors.arrays import starts_of
from samerack.assignors.problem import (
    NO_LIMIT,
    NOBODY,
    AssignmentError,
    BoolArray,
    FloatArray,
    Int32Array,
    Int64Array,
    Problem,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

MAX_TOTAL_WEIGHT: Final = 2.0**60
"""The sum of a problem's weights, or loads, stays below this, so that sums of costs fit in 64 bits."""
MAX_CAPACITY: Final = 1e12


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TopicTable:
    """T topics with P partitions on replicas in R racks; names are sorted, partitions by (topic, number).

    Attributes:
        names: T names.
        position: index of each topic by name.
        counts: [T] partitions of each topic.
        topic_of: [P] index into `names`.
        number_of: [P] partition number within its topic.
        racks: R names of the replicas' racks.
        replica_racks: [P, R] true where a replica of the partition is in the rack.
        leader_rack: [P] rack of the leader replica, or NOBODY if it is unset or unknown.
    """

    names: tuple[str, ...]
    position: Mapping[str, int]
    counts: Int64Array
    topic_of: Int32Array
    number_of: Int32Array
    racks: tuple[str, ...]
    replica_racks: BoolArray
    leader_rack: Int32Array


def topic_table(topics: Mapping[str, Sequence[Sequence[str | None]]]) -> TopicTable:
    """Make the table of topics that are given by the racks of each partition's replicas, the leader's first.

    None (or empty) is a rack that is unset or unknown; a partition without a known replica has an empty sequence.

    Complexity: linear in replicas.
    """
    names = tuple(sorted(topics))
    patterns: defaultdict[tuple[str | None, ...], int] = defaultdict(count().__next__)
    replicas = [racks_of for name in names for racks_of in topics[name]]
    codes = np.fromiter(map(patterns.__getitem__, map(tuple, replicas)), np.int64, len(replicas))
    return table_of_patterns(names, [len(topics[name]) for name in names], codes, list(patterns))


def table_of_patterns(
    names: tuple[str, ...],
    counts: Sequence[int],
    codes: Int64Array,
    patterns: Sequence[Sequence[str | None]],
) -> TopicTable:
    """Make a table from replica lists that are numbered: a cluster has few distinct ones.

    Args:
        names: T names, sorted.
        counts: [T] partitions of each topic.
        codes: [P] index into `patterns`, by (topic, number).
        patterns: distinct lists of the replicas' racks, the leader's first.
    """
    racks = tuple(sorted({rack for pattern in patterns for rack in pattern if rack}))
    index: dict[str | None, int] = {rack: number for number, rack in enumerate(racks)}
    in_rack = np.zeros((len(patterns), len(racks)), np.bool_)
    leader = np.full(len(patterns), NOBODY, np.int32)
    for code, replicas in enumerate(patterns):
        in_rack[code, [index[rack] for rack in replicas if rack]] = True
        if replicas and replicas[0]:
            leader[code] = index[replicas[0]]
    sizes = np.array(counts, np.int64)
    return TopicTable(
        names=names,
        position={name: index for index, name in enumerate(names)},
        counts=sizes,
        topic_of=np.repeat(np.arange(len(names), dtype=np.int32), sizes),
        number_of=(np.arange(sizes.sum()) - np.repeat(starts_of(sizes)[:-1], sizes)).astype(np.int32),
        racks=racks,
        replica_racks=in_rack[codes],
        leader_rack=leader[codes],
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberInput:
    """A group member as its subscription describes it.

    Attributes:
        id: Member id, unique in the group.
        topics: Topics it subscribes to; those that do not exist are ignored.
        rack: Its rack; None or empty for none. Racks are compared as exact strings.
        instance_id: Group instance id of a static member.
        reads_any_replica: Whether any replica in its rack may serve it (KIP-392), or only the leader replica.
        owned: Owned partitions that it claims: partition numbers by topic.
        generation: Generation in which it got them, -1 if unknown.
        capacity: Load that it can carry, relative to the others.
        max_partitions: Partitions that it may have at most; None for no limit.
    """

    id: str
    topics: tuple[str, ...] | frozenset[str]
    rack: str | None = None
    instance_id: str | None = None
    reads_any_replica: bool = True
    owned: Mapping[str, Sequence[int] | Int32Array] = field(default_factory=dict)
    generation: int = -1
    capacity: float = 1.0
    max_partitions: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OwnedClaims:
    """C owned partitions that members claim, as arrays.

    Attributes:
        member: [C] index into the members.
        topic: [C] index into the names of the topic table, or NOBODY for a topic that is not in it.
        number: [C] partition number.
    """

    member: Int64Array
    topic: Int64Array
    number: Int64Array


def build_problem(
    *,
    topics: Mapping[str, Sequence[Sequence[str | None]]],
    members: Sequence[MemberInput],
    weights: Mapping[str, Sequence[int]] | None = None,
    loads: Mapping[str, Sequence[int]] | None = None,
) -> Problem:
    """Build the `Problem` of one group; equal groups give equal problems, whatever the order of the input.

    If several members claim a partition, the claim of the newest generation counts; if two members claim it in that
    generation, it has no owner and is contested (KIP-792: the generation separates claims of successive owners). It is
    also contested if its newest claim is by a member that no longer subscribes to the topic: the member may still read
    it, and Java's cooperative-sticky withholds it too. Claims of partitions that do not exist are dropped.

    Args:
        topics: For each topic and partition number the racks of the replicas, the leader's first; None (or empty)
            for a rack that is unset or unknown. A partition without a known replica has an empty sequence.
        members: The group's members.
        weights: For topics that have one, the cost of each partition when it is read across racks; 1 elsewhere.
        loads: For topics that have one, the load of each partition, by which members are balanced; 0 elsewhere.

    Raises:
        AssignmentError: A member id occurs twice, weights or loads do not fit their topic, or a capacity or a limit is
            invalid.

    Complexity: linear in replicas and claims.
    """
    table = topic_table(topics)
    return assemble(
        table,
        members,
        _claims(members, table),
        weights=weights_of(weights, table) if weights else None,
        loads=loads_of(loads, table) if loads else None,
    )


def assemble(
    table: TopicTable,
    members: Sequence[MemberInput],
    claims: OwnedClaims,
    *,
    weights: Int64Array | None = None,
    loads: Int64Array | None = None,
) -> Problem:
    """Build the `Problem` of one group as `build_problem` does, from arrays.

    Args:
        table: The topics; the arrays become the problem's.
        members: The group's members; what they own is in `claims`, and their `owned` is not read.
        claims: What they own.
        weights: [P] positive costs of reading a partition across racks, or None for 1 each.
        loads: [P] loads that members are balanced by, or None for 1 each.

    Raises:
        AssignmentError: A member id occurs twice, or a capacity or a limit is invalid.
    """
    order = sorted(range(len(members)), key=lambda index: members[index].id)
    ordered = [members[index] for index in order]
    _reject_twins(member.id for member in ordered)
    subscription_of, subscriptions = _subscriptions(ordered, table)
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    generations = np.array([member.generation for member in ordered], np.int64)
    owner, contested = _present_owners(
        table, rank[claims.member], claims, generations, subscriptions=subscriptions, subscription_of=subscription_of
    )
    problem = Problem(
        topics=table.names,
        topic_of=table.topic_of,
        number_of=table.number_of,
        racks=table.racks,
        replica_racks=table.replica_racks,
        leader_rack=table.leader_rack,
        weights=weights,
        members=tuple(member.id for member in ordered),
        instance_ids=tuple(member.instance_id or None for member in ordered),
        member_rack=np.full(len(ordered), NOBODY, np.int32),
        reads_any_replica=np.array([member.reads_any_replica for member in ordered], np.bool_),
        subscription_of=subscription_of,
        subscriptions=subscriptions,
        owner=owner,
        loads=loads,
        capacity=capacities_of(ordered, by_load=loads is not None),
        max_partitions=limits_of(ordered),
        contested=contested if contested.any() else None,
    )
    problem = with_racks(problem, (member.rack for member in ordered if member.rack))
    index = {rack: number for number, rack in enumerate(problem.racks)}
    return replace(
        problem, member_rack=np.array([index.get(member.rack or "", NOBODY) for member in ordered], np.int32)
    )


def with_racks(problem: Problem, racks: Iterable[str]) -> Problem:
    """Return the problem with columns for these racks too, in which the group has no replica or member yet."""
    names = tuple(sorted({*problem.racks, *racks}))
    if names == problem.racks:
        return problem
    position = np.array([*map(names.index, problem.racks), NOBODY], np.int32)  # the last entry is for NOBODY
    places = np.zeros((len(problem.replica_racks), len(names)), np.bool_)
    places[:, position[:-1]] = problem.replica_racks
    return replace(
        problem,
        racks=names,
        replica_racks=places,
        leader_rack=position[problem.leader_rack],
        member_rack=position[problem.member_rack],
    )


def capacities_of(members: Sequence[MemberInput], *, by_load: bool) -> FloatArray | None:
    """Return [M] the members' capacities; None where all are equal, and loads are not measured by them.

    Raises:
        AssignmentError: one is out of range.
    """
    for member in members:
        if not 0 < member.capacity <= MAX_CAPACITY:
            raise AssignmentError(
                f"member {member.id!r}: capacity is {member.capacity}; expected above 0, at most {MAX_CAPACITY:g}"
            )
    found = np.array([member.capacity for member in members], np.float64)
    alike = 1.0 if by_load else found[:1]
    return found if (found != alike).any() else None


def limits_of(members: Sequence[MemberInput]) -> Int64Array | None:
    """Return [M] the most partitions of each member; None where none has a limit.

    Raises:
        AssignmentError: one is negative.
    """
    if all(member.max_partitions is None for member in members):
        return None
    for member in members:
        if member.max_partitions is not None and member.max_partitions < 0:
            raise AssignmentError(
                f"member {member.id!r}: max_partitions is {member.max_partitions}; expected 0 or more"
            )
    limits = (NO_LIMIT if member.max_partitions is None else member.max_partitions for member in members)
    return np.array([min(limit, NO_LIMIT) for limit in limits], np.int64)


def _reject_twins(ids: Iterable[str]) -> None:
    twins = [member_id for member_id, count in Counter(ids).items() if count > 1]
    if twins:
        raise AssignmentError(
            f"member id {twins[0]!r} occurs more than once: a group has one subscription per member id"
        )


def _subscriptions(members: Sequence[MemberInput], table: TopicTable) -> tuple[Int32Array, BoolArray]:
    """Return [M] each member's subscription, and [S, T] the distinct ones, of the topics that exist.

    Most members have the same topics, and often the same object: each distinct one is read once.
    """
    position = table.position
    row_of_object: dict[int, bytes] = {}
    rows = []
    for member in members:
        row = row_of_object.get(id(member.topics))
        if row is None:
            read = np.zeros(len(table.names), np.bool_)
            read[[position[topic] for topic in member.topics if topic in position]] = True
            row = row_of_object[id(member.topics)] = read.tobytes()
        rows.append(row)
    distinct = sorted(set(rows))
    number = {row: index for index, row in enumerate(distinct)}
    subscriptions = np.frombuffer(b"".join(distinct), np.bool_).reshape(len(distinct), len(table.names))
    return np.array([number[row] for row in rows], np.int32), subscriptions


def loads_of(loads: Mapping[str, Sequence[int]], table: TopicTable) -> Int64Array:
    """Return [P] the loads of the table's partitions; 0 for topics without any.

    Raises:
        AssignmentError: Loads do not fit their topic, are negative, or their sum reaches 2^60.
    """
    result = _by_partition(loads, table, "loads", least=0, expected="{count} integers from 0")
    if float(result.sum(dtype=np.float64)) >= MAX_TOTAL_WEIGHT:
        raise AssignmentError("loads add up to more than 2^60: divide them all by the same number")
    return result


def weights_of(weights: Mapping[str, Sequence[int]], table: TopicTable) -> Int64Array:
    """Return [P] the weights of the table's partitions; 1 for topics without any.

    Raises:
        AssignmentError: Weights do not fit their topic.
    """
    result = _by_partition(weights, table, "weights", least=1, expected="{count} positive integers")
    check_weights(result)
    return result


def _by_partition(
    given: Mapping[str, Sequence[int]], table: TopicTable, what: str, *, least: int, expected: str
) -> Int64Array:
    """Return [P] the numbers that topics have, none below `least`, which partitions of other topics get."""
    starts = starts_of(table.counts)
    result = np.full(int(starts[-1]), least, np.int64)
    for index, name in enumerate(table.names):
        if name not in given:
            continue
        numbers, count = _as_integers(given[name], f"{what} of topic {name!r}"), int(table.counts[index])
        if len(numbers) != count or (numbers < least).any():
            wanted = expected.format(count=count)
            raise AssignmentError(f"{what} of topic {name!r}: expected {wanted}, one for each partition")
        result[starts[index] : starts[index + 1]] = numbers
    return result


def check_weights(weights: Int64Array) -> None:
    """Refuse weights that are not positive, or whose sums could leave 64 bits.

    Raises:
        AssignmentError: a weight is not positive, or their sum reaches 2^60.
    """
    if weights.min(initial=1) < 1:
        raise AssignmentError("weights must be positive: give 1 to an unread partition")
    if float(weights.sum(dtype=np.float64)) >= MAX_TOTAL_WEIGHT:
        raise AssignmentError("weights add up to more than 2^60: divide them all by the same number")


def _as_integers(values: Sequence[int] | Int32Array, what: str) -> Int64Array:
    try:
        array = np.asarray(values)
        if array.size and array.dtype.kind not in "iu":
            raise AssignmentError(f"{what}: expected integers, got {array.dtype}")
        return array.astype(np.int64).reshape(-1)
    except (ValueError, TypeError, OverflowError) as cause:
        raise AssignmentError(f"{what}: expected integers below 2^63") from cause


def _present_owners(  # noqa: PLR0913 - claims, and what decides between them
    table: TopicTable,
    claimant: Int64Array,
    claims: OwnedClaims,
    generations: Int64Array,
    *,
    subscriptions: BoolArray,
    subscription_of: Int32Array,
) -> tuple[Int32Array, BoolArray]:
    """Return [P] current owners, and [P] true where several claims are newest or the claimant does not subscribe.

    Args:
        table: The topics.
        claimant: [C] index into the sorted members.
        claims: The rest of the claims.
        generations: [M] generation in which each member got what it claims.
        subscriptions: [S, T] the distinct subscriptions.
        subscription_of: [M] the subscription of each member.
    """
    starts = starts_of(table.counts)
    total = int(starts[-1])
    topic, number = claims.topic, claims.number
    exists = (topic >= 0) & (number >= 0) & (number < np.append(table.counts, 0)[topic])
    if not exists.all():
        claimant, topic, number = claimant[exists], topic[exists], number[exists]
    codes = claimant * total + starts[topic] + number
    if not (codes[1:] > codes[:-1]).all():  # claims of one member in order, as most clients send them, are sorted
        codes = np.sort(codes, kind="stable")  # nearly sorted; hashing would not profit from that
        codes = codes[np.diff(codes, prepend=-1) > 0]
        claimant = codes // max(1, total)
    partition = codes - claimant * total
    subscribed = subscriptions[subscription_of[claimant], table.topic_of[partition]]
    owner = np.full(total, NOBODY, np.int32)
    rivals = np.bincount(partition, minlength=total)
    if rivals.max(initial=0) > 1:
        newest = np.full(total, np.iinfo(np.int64).min, np.int64)
        np.maximum.at(newest, partition, generations[claimant])
        current = generations[claimant] == newest[partition]
        rivals = np.bincount(partition[current], minlength=total)
        subscribed &= current & (rivals[partition] == 1)
    owner[partition[subscribed]] = claimant[subscribed]
    return owner, (rivals > 0) & (owner == NOBODY)


def _claims(members: Sequence[MemberInput], table: TopicTable) -> OwnedClaims:
    """Return what the members own, as arrays."""
    position = table.position
    given: list[Int64Array | Int32Array] = [np.empty(0, np.int64)]
    topics, claimants = [NOBODY], [0]
    for member_index, member in enumerate(members):
        for topic, numbers in member.owned.items():
            if topic in position:
                given.append(_as_integers(numbers, f"owned partitions of member {member.id!r} in topic {topic!r}"))
                topics.append(position[topic])
                claimants.append(member_index)
    sizes = np.fromiter(map(len, given), np.int64, len(given))
    return OwnedClaims(
        member=np.repeat(np.array(claimants, np.int64), sizes),
        topic=np.repeat(np.array(topics, np.int64), sizes),
        number=np.concatenate(given, dtype=np.int64),
    )
