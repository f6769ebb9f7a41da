"""Polls groups: lists them at every broker, describes each kind with its own request, reads committed offsets.

Requests are batched per coordinator, with up to 200 groups in one. They only read: no group is ever joined.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, NamedTuple, TypeAlias

from samerack.cluster.group_questions import (
    GroupType,
    describe_groups,
    fetch_offsets,
    list_groups,
    share_offsets,
    to_coordinators,
)
from samerack.cluster.wire import BrokerClient, BrokerRequest, BrokerResponse
from samerack.common.patterns import selects
from samerack.election.messages import PROTOCOL_TYPE
from samerack.traffic.collect import KeyOf, Partition
from samerack.traffic.gaps import answered, refused
from samerack.traffic.groups import ListedGroup
from samerack.traffic.positions import Positions
from samerack.traffic.snapshot import Family, Gap, ObservedGroup

_AT_ONCE: Final = 200
_DESCRIBED_AS: Final[Mapping[str, GroupType]] = {
    "": "classic",
    "unknown": "classic",
    "classic": "classic",
    "consumer": "consumer",
    "streams": "streams",
    "share": "share",
}
"""How a group is described, by its type in ListGroups, which old brokers do not send."""

Read: TypeAlias = Callable[[Any], ObservedGroup]
"""Makes a group from its description."""


@dataclass(slots=True, kw_only=True)
class Descriptions:
    """Groups, Streams groups as they were described (they can be read once their topics are known), and gaps."""

    groups: list[ObservedGroup] = field(default_factory=list)
    streams: list[Any] = field(default_factory=list)
    gaps: list[Gap] = field(default_factory=list)


class Listing(NamedTuple):
    """The matching groups by name, the brokers that listed all of theirs, and what failed."""

    groups: dict[str, ListedGroup]
    brokers: frozenset[int]
    gaps: list[Gap]


def listed(wire: BrokerClient, brokers: Iterable[int], patterns: Sequence[str]) -> Listing:
    """List the matching groups: every broker lists those it coordinates. Agents' own groups are left out."""
    return matching(
        wire.ask_in_batches(BrokerRequest(broker=broker, request=list_groups()) for broker in brokers), patterns
    )


def matching(answers: Iterable[BrokerResponse], patterns: Sequence[str]) -> Listing:
    """Return the matching groups of brokers' lists."""
    found: dict[str, ListedGroup] = {}
    brokers: set[int] = set()
    gaps: list[Gap] = []
    for answer in answered(answers, Family.GROUPS, gaps):
        gaps += refused(Family.GROUPS, f"broker {answer.question.broker}", answer.response.error_code)
        if not answer.response.error_code:
            brokers.add(answer.question.broker)
        for group in answer.response.groups:
            if group.protocol_type != PROTOCOL_TYPE and selects(patterns, group.group_id):
                found[str(group.group_id)] = ListedGroup(
                    group=group.group_id,
                    coordinator=answer.question.broker,
                    protocol_type=group.protocol_type,
                    state=group.group_state or "",
                    type=(group.group_type or "").lower(),
                )
    return Listing(groups=found, brokers=frozenset(brokers), gaps=gaps)


def described(wire: BrokerClient, groups: Iterable[ListedGroup], *, read: Mapping[GroupType, Read]) -> Descriptions:
    """Describe every group by the request of its kind; groups of other types are left out, and Streams not read yet.

    Descriptions are converted as they arrive: they are many times as large as what is kept of them.
    """
    by_kind: dict[GroupType, dict[str, int]] = {kind: {} for kind in _DESCRIBED_AS.values()}
    for group in groups:
        if (kind := _DESCRIBED_AS.get(group.type)) is not None:
            by_kind[kind][group.group] = group.coordinator
    result = Descriptions()
    for kind, coordinators in by_kind.items():
        questions = to_coordinators(coordinators, partial(describe_groups, kind=kind), _AT_ONCE)
        for answer in answered(wire.ask_in_batches(questions), Family.GROUPS, result.gaps):
            for one in answer.response.groups:
                code = _code(one)
                if code:
                    result.gaps += refused(Family.GROUPS, str(one.group_id), code)
                elif kind in read:
                    result.groups.append(read[kind](one))
                else:
                    result.streams.append(one)
    return result


@dataclass(frozen=True, slots=True, kw_only=True)
class Commits:
    """What one group has committed.

    Attributes:
        offsets: Committed offsets.
        failed: Partitions whose commit could not be read.
        bare: Partitions whose commit has changed, and has no leader epoch.
        with_epochs: Whether some commit has one.
    """

    offsets: Mapping[Partition, int]
    failed: frozenset[Partition] = frozenset()
    bare: frozenset[Partition] = frozenset()
    with_epochs: bool = False


def committed(
    wire: BrokerClient, groups: Iterable[ListedGroup], key: KeyOf, *, before: Mapping[str, Positions]
) -> tuple[dict[str, Commits], list[Gap]]:
    """Request all committed offsets of these groups, and of share groups where what they have not read begins.

    `before` is where they were the last time. A group without an answer is left out.
    """
    asked: dict[str, int] = {}
    shared: dict[str, int] = {}
    for group in groups:
        (shared if _DESCRIBED_AS.get(group.type) == "share" else asked)[group.group] = group.coordinator
    questions = to_coordinators(asked, fetch_offsets, _AT_ONCE)
    questions += to_coordinators(shared, share_offsets, _AT_ONCE)
    found: dict[str, Commits] = {}
    gaps: list[Gap] = []
    for answer in answered(wire.ask_in_batches(questions), Family.COMMITTED, gaps):
        for group in answer.response.groups:
            name, offsets, bare, with_epochs = str(group.group_id), dict[Partition, int](), set[Partition](), False
            if code := _code(group):
                gaps += refused(Family.COMMITTED, name, code, passing=True)
                continue
            known, failed, wrong = before.get(name, {}), set[Partition](), set[tuple[str, int]]()
            for topic, number, offset, epoch, code in _positions(group, shared=name in shared):
                partition = key(topic, number)
                if code:
                    failed.add(partition)
                    wrong.add((topic, code))
                    continue
                if offset < 0:
                    continue
                offsets[partition] = offset
                if epoch >= 0:
                    with_epochs = True
                elif partition not in known or known[partition].committed != offset:
                    bare.add(partition)
            found[name] = Commits(
                offsets=offsets, failed=frozenset(failed), bare=frozenset(bare), with_epochs=with_epochs
            )
            for topic, code in sorted(wrong):
                gaps += refused(Family.COMMITTED, f"{name}, topic {topic}", code, passing=True)
    return found, gaps


def _positions(group: Any, *, shared: bool) -> Iterator[tuple[str, int, int, int, int]]:
    """Yield topic, partition, offset, leader epoch (negative if unknown) and error code of a group's answer."""
    for topic in group.topics:
        for partition in topic.partitions:
            if shared:  # no tool writes it but the brokers, so that an epoch has nothing to prove
                yield (
                    str(topic.topic_name),
                    int(partition.partition_index),
                    int(partition.start_offset),
                    0,
                    _code(partition),
                )
            else:
                yield (
                    topic.name,
                    partition.partition_index,
                    int(partition.committed_offset),
                    partition.committed_leader_epoch,
                    _code(partition),
                )


def _code(answer: Any) -> int:
    """Return the error code of a part of an answer; kio has an enumeration for it."""
    return int(getattr(answer.error_code, "value", answer.error_code))
