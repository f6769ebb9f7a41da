"""Members as the clients of each language: what they offer, when they notice a rebalance, and what they own.

They are driven by events; a client that leads assigns with the project's assignors.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from samerack.plugins.planning import NAMES, Member, Replicas
from samerack.protocol.consumer import (
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
    with_user_data,
)
from samerack.protocol.errors import ProtocolError
from samerack.protocol.java import string_hash
from samerack.protocol.sticky import COOPERATIVE_STICKY, STICKY, encode_sticky
from samerack.protocol.values import Assignment, Subscription, TopicPartitions, from_pairs, no_partitions, to_pairs
from tests.java_maps import put_order
from tests.simulator.group import Error, Join, Joined, Protocols, Sync, Synced
from tests.simulator.network import Host
from tests.simulator.place import Place

if TYPE_CHECKING:
    from tests.simulator.world import World

Partition = tuple[str, int]
_AGAIN_MS: Final = 100
_METADATA_MS: Final = 1000
_FOR_GOOD: Final = (Error.FENCED_INSTANCE_ID, Error.INCONSISTENT_GROUP_PROTOCOL, Error.GROUP_MAX_SIZE_REACHED)
"""Errors after which no client joins again by itself."""
_SOUND: Final = ("range", "roundrobin")
_AWAITED_MS: Final = 6500  # so long an agent may wait for who was evicted
_RESTARTS_MS: Final = (10_000, 20_000, 40_000, 60_000)  # as Kubernetes does


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One kind of client."""

    version: int = 3  # the version of its subscription
    sends_rack: bool = True  # whether the subscription carries the rack; else only the client id does
    heartbeat_ms: int = 500  # its timers
    session_ms: int = 10_000
    rebalance_ms: int = 30_000
    poll_ms: int = 50  # how long it may process records before it notices that it has to rejoin
    static: bool = False  # whether it has an instance id, and so sends no LeaveGroup when it ends
    # its subscription says version 1 but ends like 0; as leader it reads none above 1 (kafka-go)
    cut_short: bool = False
    # in `sticky` groups its leader gives all members user data, which they repeat in their next subscription (sarama)
    repeats_user_data: bool = False
    join_backoff_ms: int = 0  # how long it waits after a JoinGroup that failed (kafka-go)
    assigns_to_all: bool = False  # as leader it gives partitions to all, whatever they subscribe to (kafkajs)
    counts_everybody: bool = False  # as leader it counts members without topics in the shares (@platformatic/kafka)
    ends_at_errors: bool = False  # an error of JoinGroup ends it, and it is started again after a pause (samsa)


KINDS: Final = {
    "java": Kind(),
    "default": Kind(heartbeat_ms=3000, session_ms=45_000, rebalance_ms=300_000, poll_ms=200),
    "slow": Kind(poll_ms=4000),
    "librdkafka": Kind(heartbeat_ms=3000, poll_ms=1000),
    "kafka-python": Kind(version=0, sends_rack=False, heartbeat_ms=1000),
    "sarama": Kind(version=1, sends_rack=False, heartbeat_ms=3000, repeats_user_data=True),
    "static": Kind(static=True),
}
KAFKA_GO: Final = Kind(version=0, sends_rack=False, heartbeat_ms=3000, cut_short=True, join_backoff_ms=5000)
KAFKAJS: Final = Kind(version=1, sends_rack=False, heartbeat_ms=3000, assigns_to_all=True)
SAMSA: Final = Kind(sends_rack=False, assigns_to_all=True, ends_at_errors=True)
PLATFORMATIC: Final = Kind(counts_everybody=True)
"""Kinds for groups of one kind: they share no protocol with others, or only if none of them leads."""


class Consumer:
    """One client, and its membership in the group."""

    def __init__(
        self,
        world: World,
        name: str,  # its client id, which ends with the rack
        kind: Kind,
        *,
        rack: str,
        topics: tuple[str, ...],
        protocols: tuple[str, ...],
        instance: str = "",
    ) -> None:
        self.name, self.kind, self.rack, self.topics = name, kind, rack, topics
        self.host = Host(world.timeline)
        self.protocols = protocols
        self._timeline, self._network, self._place = world.timeline, world.network, world.place
        self._random, self._owns, self._ended = world.random, world.invariants.owns, world.invariants.ended
        self.instance = (instance or name) if kind.static else None
        self._commits = world.commits.keep
        self._attempt = 0
        self._rejoins = False
        self._protocol = ""
        self._planned_for: tuple[int, ...] = ()
        self._group_topics = topics
        self.joined_topics = topics  # the topics of the subscription in its last JoinGroup
        self._user_data = b"" if kind.version == 0 and not kind.repeats_user_data else None
        self.keeps_until = 0  # until when it keeps revoked partitions
        self.cooperative = protocols[0] == COOPERATIVE_STICKY
        self.member_id = ""
        self.generation = -1
        self.leading = False
        self.returned = False  # whether it leads as a static member that is back, by a plan from before
        self.stable = False
        self.owned: frozenset[Partition] = frozenset()
        self.owned_since = 0
        self.failure = ""
        self.joins_at = 0  # when it retries JoinGroup after an error
        self._ends = 0  # how often an error has ended it

    def start(self) -> None:
        """Start the client: it joins the group."""
        self._place.listeners.append(self._metadata_changes)
        self._join()
        self._beat_later()

    def leave(self) -> None:
        """Shut down cleanly; a dynamic member sends LeaveGroup."""
        if self.member_id and not self.kind.static:
            self._network.leave(self.host, {self.member_id: self.instance}, lambda _: None)
        self.crash()

    def crash(self) -> None:
        """End at once."""
        if self.host.alive:
            self._commits(self)
            self.host.kill()
            self._place.listeners.remove(self._metadata_changes)
        self._take(frozenset())

    # joining

    def _offer(self) -> Protocols:
        owned = _as_runs(self.owned) if self.cooperative and self.kind.version > 0 else no_partitions()
        self.joined_topics = self.topics
        metadata = encode_subscription(
            Subscription(
                version=self.kind.version,
                topics=self.topics,
                user_data=self._user_data,
                owned=owned,
                generation=self.generation if len(owned) else -1,
                rack=self.rack if self.kind.sends_rack else None,
            )
        )
        if self.kind.cut_short:
            metadata = b"\x00\x01" + metadata[2:]
        return tuple((name, metadata) for name in self.protocols)

    def finds(self, topic: str) -> None:
        """A metadata refresh shows a topic that its pattern matches, or that it does not exist any more."""
        known = self.topics
        if topic not in self._place.topics:
            self.topics = tuple(one for one in known if one != topic)
        elif topic not in known:
            self.topics = (*known, topic)
        if self.topics != known and self.stable and not self._rejoins:
            self._rejoin_at_next_poll()

    def _join(self) -> None:
        if not self.cooperative or not self.member_id:
            self._take(frozenset())
        self.stable = self._rejoins = False
        self._attempt += 1
        attempt = self._attempt
        request = Join(
            member_id=self.member_id,
            instance_id=self.instance,
            protocols=self._offer(),
            session_ms=self.kind.session_ms,
            rebalance_ms=self.kind.rebalance_ms,
            client_id=self.name,
        )

        def answer(joined: Joined) -> None:
            if attempt == self._attempt:
                self._joined(joined)

        self._network.join(self.host, request, answer)

    def _joined(self, answer: Joined) -> None:
        # a JoinGroup v2 is not asked for a member id
        if self.kind.ends_at_errors and answer.error not in (Error.NONE, Error.MEMBER_ID_REQUIRED, *_FOR_GOOD):
            self._start_again()
            return
        if self._failed(answer.error, answer.member_id):
            return
        self.member_id, self.generation, self._protocol = answer.member_id, answer.generation, answer.protocol
        self.leading = answer.leader == answer.member_id
        self.returned = self.leading and answer.skip_assignment
        self._owns(self)
        plan: dict[str, bytes] = {}
        if self.leading and not answer.skip_assignment:
            plan = assign(answer, self._place, self.kind)
            subscriptions = [read_subscription(metadata) for _, _, metadata in answer.members]
            self._group_topics = tuple(sorted({topic for one in subscriptions for topic in one.topics}))
        self._planned_for = self._counts()
        attempt = self._attempt

        def synced(response: Synced) -> None:
            if attempt == self._attempt:
                self._synced(response)

        request = Sync(
            member_id=self.member_id,
            instance_id=self.instance,
            generation=self.generation,
            protocol=self._protocol,
            assignments=tuple(plan.items()),
        )
        self._network.sync(self.host, request, synced)

    def _synced(self, answer: Synced) -> None:
        if self._failed(answer.error, self.member_id):
            return
        assigned = frozenset(pairs_of(answer.assignment))
        revoked = self.owned - assigned
        keeps = self.cooperative and self._timeline.now < self.keeps_until
        self._take(assigned | revoked if keeps else assigned)
        self.stable = True
        if self._protocol == STICKY:
            self._user_data = (
                decode_assignment(answer.assignment).user_data
                if self.kind.repeats_user_data and answer.assignment
                else encode_sticky(_as_runs(assigned), self.generation)
            )
        if self.cooperative and revoked:
            self.host.later(_AGAIN_MS if keeps else 0, self._join)
        elif self.topics != self.joined_topics:
            self._rejoin_at_next_poll()

    def _failed(self, error: Error, member_id: str) -> bool:
        """React to an error; return whether there was one."""
        if error is Error.NONE:
            return False
        if error in _FOR_GOOD:
            self.failure = error.name
            self.crash()
            return True
        if error is Error.UNKNOWN_SERVER_ERROR:
            self.failure = error.name
            self.leave()
            return True
        if error is Error.MEMBER_ID_REQUIRED:
            self.member_id = member_id
        elif error in (Error.UNKNOWN_MEMBER_ID, Error.ILLEGAL_GENERATION):
            if error is Error.UNKNOWN_MEMBER_ID:
                self.member_id = ""
            self.generation = -1
            self._take(frozenset())
        wait = _AGAIN_MS if error is Error.NOT_COORDINATOR else 0
        if error not in (Error.MEMBER_ID_REQUIRED, Error.REBALANCE_IN_PROGRESS):
            wait = max(wait, self.kind.join_backoff_ms)
        self.joins_at = self._timeline.now + wait
        self.host.later(wait, self._join)
        return True

    def _start_again(self) -> None:
        """The client has ended without LeaveGroup; its supervisor starts it again."""
        wait = _RESTARTS_MS[min(self._ends, len(_RESTARTS_MS) - 1)]
        self._ends += 1
        self._ended(self, wait)
        self.member_id, self.generation, self.stable = "", -1, False
        self._attempt += 1
        self._take(frozenset())
        self.joins_at = self._timeline.now + min(wait, _AWAITED_MS)
        self.host.later(wait, self._join)

    # heartbeats and metadata

    def _beat_later(self) -> None:
        self.host.later(self.kind.heartbeat_ms, self._beat, repeats=True)

    def _beat(self) -> None:
        self._beat_later()
        if not self.stable or self._rejoins:
            if self._rejoins:
                self._network.heartbeat(self.host, self.member_id, self.instance, self.generation, lambda _: None)
            return
        attempt = self._attempt

        def answer(error: Error) -> None:
            if attempt == self._attempt and self.stable and not self._rejoins:
                self._heard(error)

        self._network.heartbeat(self.host, self.member_id, self.instance, self.generation, answer)

    def _heard(self, error: Error) -> None:
        if error is Error.REBALANCE_IN_PROGRESS:
            self._rejoin_at_next_poll()
        elif error not in (Error.NONE, Error.NOT_COORDINATOR):
            self.stable = False
            self._failed(error, self.member_id)

    def _rejoin_at_next_poll(self) -> None:
        self._rejoins = True
        attempt = self._attempt

        def rejoin() -> None:
            if attempt == self._attempt:
                self._join()

        self.host.later(self._random.randrange(self.kind.poll_ms + 1), rejoin)

    def _counts(self) -> tuple[int, ...]:
        return tuple(len(self._place.topics.get(topic, ())) for topic in self._group_topics)

    @property
    def plan_is_outdated(self) -> bool:
        """Whether it leads, and has not noticed yet that topics have other partitions than it planned for."""
        return self.stable and self.leading and self._counts() != self._planned_for

    def _metadata_changes(self) -> None:
        """A leader watches the partition counts, and rejoins when they change."""

        def poll() -> None:
            if self.plan_is_outdated and not self._rejoins:
                self._rejoin_at_next_poll()

        self.host.later(_METADATA_MS, poll)

    def _take(self, owned: frozenset[Partition]) -> None:
        if owned != self.owned:
            self._commits(self)
            self.owned, self.owned_since = owned, self._timeline.now
            self._owns(self)


@lru_cache(maxsize=4096)
def pairs_of(content: bytes) -> tuple[Partition, ...]:
    """The partitions in an assignment."""
    return tuple(to_pairs(decode_assignment(content).partitions)) if content else ()


@lru_cache(maxsize=4096)
def _as_runs(owned: frozenset[Partition]) -> TopicPartitions:
    return from_pairs(sorted(owned))


@lru_cache(maxsize=4096)
def read_subscription(metadata: bytes) -> Subscription:
    """Decode a subscription, also one that says a later version but ends like version 0."""
    try:
        return decode_subscription(metadata)
    except ProtocolError:
        return decode_subscription(b"\0\0" + metadata[2:])


def assign(joined: Joined, place: Place, kind: Kind = KINDS["java"]) -> dict[str, bytes]:
    """The plan of a client that leads.

    As in Java, if a member without topics is the first in their table, `sticky` and `cooperative-sticky` treat it as
    subscribed to all topics of the group. kafka-go's leader assigns nothing if it cannot read a member's metadata.
    """
    if kind.cut_short and any(int.from_bytes(metadata[:2], "big") > 1 for _, _, metadata in joined.members):
        return {member_id: b"" for member_id, _, _ in joined.members}
    subscriptions = {member_id: read_subscription(metadata) for member_id, _, metadata in joined.members}
    if kind.counts_everybody:
        return _shares_of_everybody(joined, place)
    first = put_order([*subscriptions], string_hash)[0]
    everything = tuple({topic for one in subscriptions.values() for topic in one.topics})
    members = []
    for member_id, instance_id, _ in joined.members:
        one = subscriptions[member_id]
        if kind.assigns_to_all or (not one.topics and member_id == first and joined.protocol not in _SOUND):
            one = replace(one, topics=everything)
        members.append((member_id, instance_id, one))

    def replicas_of(topic: str) -> Replicas | None:
        if topic not in place.topics:
            return None
        return tuple(tuple(place.racks[broker] for broker in replicas) for replicas in place.topics[topic])

    name = joined.protocol if joined.protocol in NAMES else "range"
    plan = Member(name=name).plan(members, replicas_of)
    if not kind.repeats_user_data or name != STICKY:
        return plan
    return {
        member: with_user_data(content, encode_sticky(decode_assignment(content).partitions, joined.generation))
        for member, content in plan.items()
    }


def _shares_of_everybody(joined: Joined, place: Place) -> dict[str, bytes]:
    """Each member that reads gets a share of all members', and all but the last one what is left then."""
    readers = [member_id for member_id, _, metadata in joined.members if read_subscription(metadata).topics]
    topics = {topic for _, _, metadata in joined.members for topic in read_subscription(metadata).topics}
    partitions = [(topic, number) for topic in sorted(topics) for number in range(len(place.topics.get(topic, ())))]
    share = len(partitions) // len(joined.members)
    given = {member_id: partitions[index * share : (index + 1) * share] for index, member_id in enumerate(readers)}
    for index, partition in enumerate(partitions[len(readers) * share :]):
        given[readers[index % max(1, len(readers) - 1)]].append(partition)
    return {
        member_id: encode_assignment(Assignment(version=0, partitions=from_pairs(sorted(given.get(member_id, ())))))
        for member_id, _, _ in joined.members
    }
