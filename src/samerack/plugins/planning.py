"""The code shared by the assignors of all Python clients: a member's subscription, and a leader's plan.

Its input and output are encoded messages, so it does not depend on the client.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypedDict, TypeVar

import numpy as np

from samerack.assignors.build import MAX_CAPACITY, MemberInput, build_problem
from samerack.assignors.consumer.registry import ASSIGNORS, Options
from samerack.assignors.problem import AssignmentError, Int32Array
from samerack.common.patterns import first_match
from samerack.planning.group import assign_problem, encode_owners
from samerack.protocol.consumer import NO_GENERATION, encode_subscription
from samerack.protocol.sticky import COOPERATIVE_STICKY, STICKY, claims, encode_cooperative_sticky, encode_sticky
from samerack.protocol.values import MAX_VERSION, Subscription, TopicPartitions, from_pairs, no_partitions, to_pairs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

_LOG = logging.getLogger(__name__)
_Rule = TypeVar("_Rule", int, float)
KAFKAS: Final = ("range", "roundrobin")
"""Assignors whose plans are exactly Kafka's."""
_MAX_LOAD: Final = 2**60 - 1
"""Of all partitions together: what assignors add up in 64 bits."""
NAMES: Final = tuple(name for name, assignor in ASSIGNORS.items() if assignor.for_members)
EAGER: Final = tuple(name for name in NAMES if not ASSIGNORS[name].cooperative)

Replicas = tuple[tuple[str | None, ...], ...]
"""For each partition of a topic the racks of its replicas, the leader's first; None for an unknown rack."""


class MemberOptions(TypedDict, total=False):
    """What there is to say of a consumer with one of these assignors.

    Attributes:
        rack: the consumer's rack; the same as its `client_rack`.
        max_skew: partitions beyond a fair share that a member may get in its plans when it leads, for locality; 0, the
            default, keeps loads even. Not with `range-optimal`.
        follower_fetching: whether replicas other than the leader serve members of their rack (KIP-392); False if
            brokers have no rack-aware `replica.selector.class`.
        loads: asked in each plan: the load of each partition by topic, in any unit; None to balance by counts.
        limits: the most partitions of members, by shell patterns of their instance ids or member ids.
        capacities: the same for the load that they can carry, relative to 1.
    """

    rack: str | None
    max_skew: int
    follower_fetching: bool
    loads: Callable[[], Mapping[str, Sequence[float]]] | None
    limits: Mapping[str, int]
    capacities: Mapping[str, float]


@dataclass(slots=True, kw_only=True)
class Member:
    """A consumer with one of these assignors, as `MemberOptions` has it.

    Attributes:
        name: protocol name, which all members of a group share.
        owned: the partitions that it got last; None before its first assignment.
        generation: the generation in which it got them.
    """

    name: str
    rack: str | None = None
    max_skew: int = 0
    follower_fetching: bool = True
    loads: Callable[[], Mapping[str, Sequence[float]]] | None = None
    limits: Mapping[str, int] = field(default_factory=dict)
    capacities: Mapping[str, float] = field(default_factory=dict)
    owned: TopicPartitions | None = None
    generation: int = NO_GENERATION

    def __post_init__(self) -> None:
        if self.name not in NAMES:
            raise AssignmentError(f"assignor {self.name!r} is unknown; give one of {', '.join(NAMES)}")
        if self.name in KAFKAS and (self.loads or self.limits or self.capacities):
            able = ", ".join(name for name in NAMES if name not in KAFKAS)
            raise AssignmentError(f"{self.name} is exactly Kafka's, by counts; for loads and limits use one of {able}")
        # a consumer finds out what it gave when it leads, and would end then
        if self.max_skew < 0 or any(most < 0 for most in self.limits.values()):
            raise AssignmentError("max_skew or a limit is negative; give 0 or more")
        if self.max_skew and self.name == "range-optimal":
            raise AssignmentError(
                f"{self.name} keeps co-partitioned topics together, and knows no max_skew; leave it out"
            )
        if not all(0 < capacity <= MAX_CAPACITY for capacity in self.capacities.values()):
            raise AssignmentError(
                f"a capacity is not above 0 and at most {MAX_CAPACITY:g}; give 1 for an ordinary member"
            )

    def store(self, partitions: Iterable[Any], generation: int = NO_GENERATION) -> None:
        """Store the partitions that it got, as its client names them."""
        self.owned = from_pairs([(partition.topic, partition.partition) for partition in partitions])
        self.generation = generation

    def subscription(self, topics: Iterable[str]) -> bytes:
        """Encode its subscription: version 3, with its rack, and its owned partitions if the assignor uses them.

        Those of topics that it reads no more are left out: the consumer has given them up, and the leader would keep
        them from others until it does.

        User data is in Kafka's format, so that a leader of any client can read it (KIP-54, "Proposed Changes");
        `sticky` puts its owned partitions there.
        """
        topics = tuple(topics)
        owned, user_data = self.owned, None
        if owned is not None:
            read = frozenset(topics)
            owned = from_pairs([pair for pair in to_pairs(owned) if pair[0] in read])
        if self.name == STICKY and owned is not None:
            user_data = encode_sticky(owned, self.generation)
        elif self.name == COOPERATIVE_STICKY:
            user_data = encode_cooperative_sticky(self.generation)
        return encode_subscription(
            Subscription(
                version=MAX_VERSION,
                topics=topics,
                user_data=user_data,
                owned=no_partitions() if owned is None or not ASSIGNORS[self.name].asks_claims else owned,
                generation=self.generation,
                rack=self.rack,
            )
        )

    def plan(
        self,
        members: Sequence[tuple[str, str | None, Subscription]],
        replicas_of: Callable[[str], Replicas | None],
    ) -> dict[str, bytes]:
        """Compute the encoded assignment of every member of the group that it leads, in the newest version all know.

        Args:
            members: member id, group instance id and subscription of each.
            replicas_of: returns the replicas of a topic in the leader's metadata; None for other topics, which are
                left out.

        Raises:
            AssignmentError: there is no plan that may be sent.
        """
        found = {topic: replicas_of(topic) for _, _, sent in members for topic in sent.topics}
        problem = build_problem(
            topics={topic: replicas for topic, replicas in found.items() if replicas is not None},
            members=[self._input_of(member_id, instance, sent) for member_id, instance, sent in members],
            loads=self._loads(found),
        )
        owner = assign_problem(problem, self.name, Options(max_skew=self.max_skew))
        version = min((sent.version for _, _, sent in members), default=MAX_VERSION)
        return encode_owners(problem, owner, version=version)

    def _loads(self, topics: Mapping[str, Replicas | None]) -> dict[str, Sequence[int]] | None:
        """Return the loads of these topics; None without any, and if they cannot be had: the group waits for a plan."""
        if self.loads is None:
            return None
        try:
            return _whole(self.loads(), topics)
        except Exception:  # noqa: BLE001 - it is the application's
            _LOG.warning("loads are not known: partitions are balanced by counts", exc_info=True)
            return None

    def _input_of(self, member_id: str, instance_id: str | None, sent: Subscription) -> MemberInput:
        owned, generation = claims(sent, self.name)
        by_topic: dict[str, Int32Array] = {}
        for topic, numbers in zip(owned.topics, owned.numbers, strict=True):
            by_topic[topic] = np.concatenate((by_topic[topic], numbers)) if topic in by_topic else numbers

        def fitting(rules: Mapping[str, _Rule]) -> _Rule | None:
            return first_match(rules, instance_id or member_id)

        return MemberInput(
            id=member_id,
            instance_id=instance_id,
            capacity=fitting(self.capacities) or 1.0,
            max_partitions=fitting(self.limits),
            topics=sent.topics,
            rack=sent.rack,
            reads_any_replica=self.follower_fetching,
            owned=by_topic,
            generation=generation,
        )


def _whole(known: Mapping[str, Sequence[float]], topics: Mapping[str, Replicas | None]) -> dict[str, Sequence[int]]:
    """Return the loads of these topics as whole numbers.

    Raises:
        LookupError, TypeError, ValueError, OverflowError: One is missing, no number, negative, or too large.
    """
    loads = {topic: [round(known[topic][at]) for at in range(len(rows))] for topic, rows in topics.items() if rows}
    if min(map(min, loads.values()), default=0) < 0 or sum(map(sum, loads.values())) > _MAX_LOAD:
        raise ValueError(f"a load is negative, or all together are above {_MAX_LOAD}")
    return {**loads}


def racks_of_replicas(
    placed: Mapping[int, tuple[int, Sequence[int]]], racks: Mapping[int, str | None]
) -> Replicas | None:
    """Return the racks of each partition's replicas, the leader's first; None if no partition is known.

    `placed` has the leader and the replicas of each partition, as broker ids.
    """
    if not placed:
        return None
    leaders_first = (
        sorted(nodes, key=lambda node: node != leader)
        for leader, nodes in (placed.get(number, (-1, ())) for number in range(max(placed) + 1))
    )
    return tuple(tuple(racks.get(node) for node in nodes) for nodes in leaders_first)
