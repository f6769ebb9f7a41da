"""The demo's consumer group: six members on three clients, and what they own, read, and read across racks.

All facts come from the members or from the cluster's metadata, none from the agent, so that the agent's results can be
verified.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from samerack.assignors.build import MemberInput, build_problem
from samerack.assignors.consumer import optimal
from samerack.assignors.evaluate import evaluate
from sandbox.admin import Admin, Replicas, wait_until
from sandbox.feeder import VALUE_BYTES
from sandbox.members.ledger import longest_pauses
from sandbox.members.lines import MemberSettings, Partition
from sandbox.members.process import Event, Member


@dataclass(frozen=True, slots=True, kw_only=True)
class Post:
    """One place in the group: the client, its rack, and whether the client is configured with it."""

    client: str
    rack: str
    tells_rack: bool

    @property
    def name(self) -> str:
        """Its client id; the agent's settings map it to the rack where the client does not send one."""
        return f"{self.client}-{self.rack}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Racks of brokers and replicas of partitions at one moment."""

    racks: Mapping[int, str]
    replicas: Mapping[Partition, Replicas]

    def serving(self, post: Post, partition: Partition) -> frozenset[str]:
        """Returns the racks that can serve a member: any replica's if it fetches with its rack, else the leader's."""
        placed = self.replicas[partition]
        brokers = placed.replicas if post.tells_rack else (placed.leader,)
        return frozenset(self.racks[broker] for broker in brokers)


def layout(admin: Admin, topics: Sequence[str]) -> Layout:
    """Returns the present layout."""
    return Layout(
        racks={broker: rack for broker, rack in admin.racks().items() if rack is not None},
        replicas=admin.replicas(topics),
    )


class Crew:
    """The members; a context manager that starts and ends them."""

    def __init__(
        self,
        posts: Sequence[Post],
        *,
        bootstrap: str,
        group: str,
        topics: Sequence[str],
        properties: Mapping[str, str] | None = None,
    ) -> None:
        self.posts = tuple(posts)
        self._properties = dict(properties or {})
        self._bootstrap = bootstrap
        self._group = group
        self._topics = tuple(topics)
        self._members: dict[Post, Member] = {}
        self._former: list[Member] = []

    def start(self, post: Post) -> None:
        """Start the member of one post."""
        settings = MemberSettings(
            bootstrap=self._bootstrap,
            group=self._group,
            topics=self._topics,
            client_id=post.name,
            rack=post.rack if post.tells_rack else None,
            properties=self._properties,
        )
        self._members[post] = Member.on(post.client, settings)

    def restart(self, post: Post) -> None:
        """End the member of one post in order and start a new one, as a deployment does."""
        member = self._members.pop(post)
        member.stop()
        self._former.append(member)
        self.start(post)

    def racks(self) -> dict[int, str]:
        """Returns the rack of each member's process, by process id."""
        return {member.pid: post.rack for post, member in self._members.items()}

    def process_of(self, post: Post) -> int:
        """Returns the process id of the member of one post."""
        return self._members[post].pid

    def owned(self) -> dict[Post, frozenset[Partition]]:
        """Returns the partitions that each member reports."""
        return {post: member.owned for post, member in self._members.items()}

    def complete(self, partitions: int) -> bool:
        """Returns whether every partition has exactly one owner and every member has a partition."""
        owned = list(self.owned().values())
        return all(owned) and sum(map(len, owned)) == partitions == len(frozenset().union(*owned))

    def wait_complete(self, partitions: int, *, timeout: float = 60.0) -> None:
        """Wait until the group has settled: complete, and unchanged half a second later.

        Raises:
            SandboxError: It takes too long.
        """

        def settled() -> bool:
            if not self.complete(partitions):
                return False
            before = self.owned()
            time.sleep(0.5)
            return self.owned() == before

        wait_until(settled, f"all {partitions} partitions are assigned", timeout=timeout)

    def cross_rack_share(self, where: Layout) -> float:
        """Returns the share of partitions that are read from another rack, under a layout."""
        owned = self.owned()
        cross = sum(
            post.rack not in where.serving(post, partition)
            for post, partitions in owned.items()
            for partition in partitions
        )
        return cross / max(1, sum(map(len, owned.values())))

    def optimum(self, where: Layout, *, each_topic_even: bool = True) -> float:
        """Returns the lowest share of an assignment that is even: each topic by itself, as range does, or all together.

        The reference solver (networkx) computes it, which the agent does not use.
        """
        topics: dict[str, list[list[str]]] = {topic: [] for topic in self._topics}
        for (topic, _), placed in sorted(where.replicas.items()):
            others = [broker for broker in placed.replicas if broker != placed.leader]
            topics[topic].append([where.racks[broker] for broker in (placed.leader, *others)])
        problem = build_problem(
            topics=topics,
            members=[
                MemberInput(id=post.name, topics=self._topics, rack=post.rack, reads_any_replica=post.tells_rack)
                for post in self.posts
            ],
        )
        options = optimal.Options(keep_copartitioned=each_topic_even)
        cost = evaluate(problem, optimal.assign(problem, options, portable=True))
        return cost.cross_rack / len(problem.topic_of)

    def longest_pause(self, *, since_ms: int, until_ms: int) -> float:
        """Returns the longest time in seconds in which no member read some partition."""
        return max(longest_pauses(self._events(), since_ms=since_ms, until_ms=until_ms).values(), default=float("inf"))

    def rebalanced(self, *, since_ms: int) -> bool:
        """Returns whether a member has given up or got partitions since then."""
        return any(event.kind in ("assigned", "revoked", "lost") and event.ms >= since_ms for event in self._events())

    def rates(self, where: Layout, seconds: float) -> dict[Post, dict[str, float]]:
        """Returns bytes per second from each rack, measured over `seconds`.

        librdkafka reports the bytes on the wire from each broker; for the other clients the records of each partition
        count from the rack of its leader, which serves them.
        """
        begun = time.time_ns() // 1_000_000
        before = {post: dict(member.received) for post, member in self._members.items()}
        time.sleep(seconds)
        result: dict[Post, dict[str, float]] = {}
        for post, member in self._members.items():
            rates = dict.fromkeys(where.racks.values(), 0.0)
            if member.received:
                for broker, received in member.received.items():
                    rates[where.racks[broker]] += (received - before[post].get(broker, 0)) / seconds
            else:
                for event in member.events:
                    if event.kind == "records" and event.ms >= begun:
                        (partition,) = event.partitions
                        leader = where.replicas[partition].leader
                        rates[where.racks[leader]] += event.count * VALUE_BYTES / seconds
            result[post] = rates
        return result

    def _events(self) -> list[Event]:
        return [event for member in (*self._former, *self._members.values()) for event in member.events]

    def __enter__(self) -> Self:
        """Start all members, each after the one before it has joined."""
        for post in self.posts:
            self.start(post)
            time.sleep(0.3)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        """Kill all members: their last commits are not needed."""
        for member in self._members.values():
            with suppress(OSError):
                member.stop(kill=True)
