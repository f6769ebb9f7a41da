"""Builds a `Problem`, arrays of indices, from the topics, racks and members that a group's leader knows.

This is the only module of the package that interns names, resolves conflicting claims and sorts the input, which may
come in any order.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Final

import numpy as np

from samerack.assignors.arrays import starts_of
from samerack.assignors.model import NOBODY, AssignmentError, BoolArray, Int32Array, Int64Array, Problem

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

MAX_TOTAL_WEIGHT: Final = 2.0**60
"""The sum of a problem's weights stays below this, so that sums of costs fit in 64 bits."""


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
    """

    id: str
    topics: tuple[str, ...] | frozenset[str]
    rack: str | None = None
    instance_id: str | None = None
    reads_any_replica: bool = True
    owned: Mapping[str, Sequence[int] | Int32Array] = field(default_factory=dict)
    generation: int = -1


def build_problem(
    *,
    topics: Mapping[str, Sequence[Sequence[str | None]]],
    members: Sequence[MemberInput],
    weights: Mapping[str, Sequence[int]] | None = None,
) -> Problem:
    """Builds the `Problem` of one group; equal groups give equal problems, whatever the order of the input.

    If several members claim a partition, the claim of the newest generation counts; if two members claim it in that
    generation, it has no owner and is contested (KIP-792: the generation separates claims of successive owners). It is
    also contested if its newest claim is by a member that no longer subscribes to the topic: the member may still read
    it, and Java's cooperative-sticky withholds it too. Claims of partitions that do not exist are dropped.

    Args:
        topics: For each topic and partition number the racks of the replicas, the leader's first; None (or empty)
            for a rack that is unset or unknown. A partition without a known replica has an empty sequence.
        members: The group's members.
        weights: For topics that have one, the cost of each partition when it is read across racks; 1 elsewhere.

    Raises:
        AssignmentError: A member id occurs twice, or weights do not fit their topic.

    Complexity: linear in replicas and claims.
    """
    ordered = sorted(members, key=lambda member: member.id)
    _reject_twins(member.id for member in ordered)
    names = tuple(sorted(topics))
    counts = np.array([len(topics[name]) for name in names], np.int64)
    patterns, codes = _replica_patterns([racks_of for name in names for racks_of in topics[name]])
    racks = _rack_names(patterns, ordered)
    replica_racks, leader_rack = _replica_racks(patterns, codes, racks)
    wanted = _wanted(ordered, names)
    subscription_of, subscriptions = _subscriptions(wanted, names)
    rack_index = {rack: index for index, rack in enumerate(racks)}
    owner, contested = _present_owners(ordered, wanted, names, counts)
    return Problem(
        topics=names,
        topic_of=np.repeat(np.arange(len(names), dtype=np.int32), counts),
        number_of=(np.arange(counts.sum()) - np.repeat(starts_of(counts)[:-1], counts)).astype(np.int32),
        racks=racks,
        replica_racks=replica_racks,
        leader_rack=leader_rack,
        weights=_weights(weights, names, counts),
        members=tuple(member.id for member in ordered),
        instance_ids=tuple(member.instance_id or None for member in ordered),
        member_rack=np.array([rack_index.get(member.rack or "", NOBODY) for member in ordered], np.int32),
        reads_any_replica=np.array([member.reads_any_replica for member in ordered], np.bool_),
        subscription_of=subscription_of,
        subscriptions=subscriptions,
        owner=owner,
        contested=contested if contested.any() else None,
    )


def _reject_twins(ids: Iterable[str]) -> None:
    twins = [member_id for member_id, count in Counter(ids).items() if count > 1]
    if twins:
        raise AssignmentError(
            f"member id {twins[0]!r} occurs more than once: a group has one subscription per member id"
        )


def _replica_patterns(partitions: Sequence[Sequence[str | None]]) -> tuple[list[tuple[str | None, ...]], Int64Array]:
    """Interns whole replica lists: a cluster has few distinct ones, however many partitions it has."""
    patterns: defaultdict[tuple[str | None, ...], int] = defaultdict(count().__next__)
    codes = np.fromiter(map(patterns.__getitem__, map(tuple, partitions)), np.int64, len(partitions))
    return list(patterns), codes


def _rack_names(patterns: Iterable[Sequence[str | None]], members: Sequence[MemberInput]) -> tuple[str, ...]:
    found: set[str | None] = {member.rack for member in members}
    found.update(*patterns)
    return tuple(sorted(rack for rack in found if rack))


def _replica_racks(
    patterns: Sequence[Sequence[str | None]], codes: Int64Array, racks: tuple[str, ...]
) -> tuple[BoolArray, Int32Array]:
    index: dict[str | None, int] = {rack: number for number, rack in enumerate(racks)}
    table = np.zeros((len(patterns), len(racks)), np.bool_)
    leader = np.full(len(patterns), NOBODY, np.int32)
    for code, replicas in enumerate(patterns):
        known = [index[rack] for rack in replicas if rack]
        table[code, known] = True
        if replicas and replicas[0]:
            leader[code] = index[replicas[0]]
    return table[codes], leader[codes]


def _wanted(members: Sequence[MemberInput], names: tuple[str, ...]) -> list[frozenset[str]]:
    """Returns each member's existing topics; most subscriptions are equal, so each distinct one is computed once."""
    known = frozenset(names)
    found: dict[tuple[str, ...] | frozenset[str], frozenset[str]] = {}
    for member in members:
        if member.topics not in found:
            found[member.topics] = known.intersection(member.topics)
    return [found[member.topics] for member in members]


def _subscriptions(sets: Sequence[frozenset[str]], names: tuple[str, ...]) -> tuple[Int32Array, BoolArray]:
    position = {name: index for index, name in enumerate(names)}
    rows: dict[frozenset[str], bytes] = {}
    for topics in set(sets):
        row = np.zeros(len(names), np.bool_)
        row[[position[topic] for topic in topics]] = True
        rows[topics] = row.tobytes()
    distinct = sorted(rows.values())
    number = {row: index for index, row in enumerate(distinct)}
    table = np.frombuffer(b"".join(distinct), np.bool_).reshape(len(distinct), len(names))
    return np.array([number[rows[topics]] for topics in sets], np.int32), table


def _weights(
    weights: Mapping[str, Sequence[int]] | None, names: tuple[str, ...], counts: Int64Array
) -> Int64Array | None:
    if not weights:
        return None
    starts = starts_of(counts)
    result = np.ones(int(starts[-1]), np.int64)
    for index, name in enumerate(names):
        if name not in weights:
            continue
        given = _as_integers(weights[name], f"weights of topic {name!r}")
        if len(given) != counts[index] or (given < 1).any():
            raise AssignmentError(
                f"weights of topic {name!r}: expected {counts[index]} positive integers, one for each partition"
            )
        result[starts[index] : starts[index + 1]] = given
    check_weights(result)
    return result


def check_weights(weights: Int64Array) -> None:
    """Refuses weights that are not positive, or whose sums could leave 64 bits.

    Raises:
        AssignmentError: a weight is not positive, or their sum reaches 2^60.
    """
    if weights.min(initial=1) < 1:
        raise AssignmentError("weights must be positive: give 1 to a partition that nobody reads")
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


def _present_owners(
    members: Sequence[MemberInput], wanted: Sequence[frozenset[str]], names: tuple[str, ...], counts: Int64Array
) -> tuple[Int32Array, BoolArray]:
    """Returns [P] current owners, and [P] true where several claims are newest or the claimant does not subscribe."""
    starts = starts_of(counts)
    partitions, claimants, generations, subscribed = _claims(members, wanted, names, counts)
    owner = np.full(int(starts[-1]), NOBODY, np.int32)
    newest = np.full(len(owner), np.iinfo(np.int64).min, np.int64)
    np.maximum.at(newest, partitions, generations)
    current = generations == newest[partitions]
    rivals = np.bincount(partitions[current], minlength=len(owner))
    settled = current & (rivals[partitions] == 1) & subscribed
    owner[partitions[settled]] = claimants[settled]
    return owner, (rivals > 0) & (owner == NOBODY)


def _claims(
    members: Sequence[MemberInput], wanted: Sequence[frozenset[str]], names: tuple[str, ...], counts: Int64Array
) -> tuple[Int64Array, Int64Array, Int64Array, BoolArray]:
    """Returns each valid claim once: partition index, member index, generation, whether the member subscribes."""
    starts, position = starts_of(counts), {name: index for index, name in enumerate(names)}
    given: list[Int64Array | Int32Array] = [np.empty(0, np.int64)]
    topics, claimants = [0], [0]
    unsubscribed: list[int] = []
    for member_index, (member, subscribed) in enumerate(zip(members, wanted, strict=True)):
        for topic, numbers in member.owned.items():
            if topic not in position:
                continue
            if topic not in subscribed:
                unsubscribed.append(member_index * len(names) + position[topic])
            # decoded messages hold such arrays already, and there may be a million claims
            ready = isinstance(numbers, np.ndarray) and numbers.dtype == np.int32 and numbers.ndim == 1
            given.append(numbers if ready else _claimed(numbers, member.id, topic))  # type: ignore[arg-type]  # if ready, it is one
            topics.append(position[topic])
            claimants.append(member_index)
    sizes = np.fromiter(map(len, given), np.int64, len(given))
    number: Int64Array = np.concatenate(given, dtype=np.int64)
    topic_of = np.repeat(topics, sizes)
    exists = (number >= 0) & (number < counts[topic_of]) if len(counts) else np.zeros(len(number), np.bool_)
    claims = np.repeat(claimants, sizes)[exists] * starts[-1] + starts[topic_of[exists]] + number[exists]
    claims = np.sort(claims, kind="stable")  # the input is nearly sorted; hashing would not profit from that
    claims = claims[np.diff(claims, prepend=-1) > 0]
    claimant, partition = np.divmod(claims, max(1, int(starts[-1])))
    generations = np.array([member.generation for member in members], np.int64)
    subscribes = np.ones(len(claimant), np.bool_)
    if unsubscribed:
        topic_of_claim = np.searchsorted(starts, partition, side="right") - 1
        subscribes = np.isin(claimant * len(names) + topic_of_claim, unsubscribed, invert=True)
    return partition, claimant, generations[claimant], subscribes


def _claimed(numbers: Sequence[int] | Int32Array, member: str, topic: str) -> Int64Array:
    return _as_integers(numbers, f"owned partitions of member {member!r} in topic {topic!r}")
