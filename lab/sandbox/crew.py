"""The demos' consumer group and its brokers: what the members own, read, and read across racks.

All facts come from the members or from the cluster's metadata, none from the agent, so that the agent's results can be
verified.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Self
from unittest.mock import patch

from rich.table import Table

from lab.sandbox.admin import Admin, Replicas, wait_until
from lab.sandbox.cluster import Cluster
from lab.sandbox.contract import RACK_SENDERS
from lab.sandbox.errors import SandboxError
from lab.sandbox.feeder import VALUE_BYTES, Feeder
from lab.sandbox.members.ledger import longest_pauses
from lab.sandbox.members.lines import MemberSettings, Partition
from lab.sandbox.members.process import Event, Member
from lab.sandbox.story import Story, three_brokers
from samerack.assignors import solvers
from samerack.assignors.build import MemberInput, build_problem
from samerack.assignors.consumer import optimal
from samerack.assignors.evaluate import evaluate

Topics = Mapping[str, Sequence[Sequence[int]]]
"""Topic to brokers per partition, the leader first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Post:
    """One place in the group: the client and its rack; `label` is a part of its name."""

    client: str
    rack: str
    label: str = ""

    @property
    def sends_rack(self) -> bool:
        """Whether the client is configured with its rack."""
        return self.client in RACK_SENDERS

    @property
    def name(self) -> str:
        """Its client id; the agent's settings map it to the rack where the client does not send one."""
        return "-".join(filter(None, (self.client, self.label, self.rack)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Racks of brokers and replicas of partitions at one moment."""

    racks: Mapping[int, str]
    replicas: Mapping[Partition, Replicas]

    def serving(self, post: Post, partition: Partition) -> frozenset[str]:
        """Return the racks that can serve a member: any replica's if it fetches with its rack, else the leader's."""
        placed = self.replicas[partition]
        brokers = placed.replicas if post.sends_rack else (placed.leader,)
        return frozenset(self.racks[broker] for broker in brokers)


@dataclass(eq=False, kw_only=True)
class Crew:
    """The members; a context manager that starts and ends them."""

    posts: Sequence[Post]
    bootstrap: str
    group: str
    topics: Topics
    properties: Mapping[str, str] = field(default_factory=dict)
    _members: dict[Post, Member] = field(default_factory=dict, init=False)
    _former: list[Member] = field(default_factory=list, init=False)

    def start(self, post: Post) -> None:
        """Start the member of one post."""
        settings = MemberSettings(
            bootstrap=self.bootstrap,
            group=self.group,
            topics=tuple(self.topics),
            client_id=post.name,
            rack=post.rack if post.sends_rack else None,
            properties=self.properties,
        )
        self._members[post] = Member.on(post.client, settings)

    def restart(self, post: Post) -> None:
        """End the member of one post in order and start a new one, as a deployment does."""
        member = self._members.pop(post)
        member.stop()
        self._former.append(member)
        self.start(post)

    def stop_all(self) -> None:
        """End all members in order."""
        for post in list(self._members):
            member = self._members.pop(post)
            member.stop()
            self._former.append(member)

    def processes(self) -> dict[Post, int]:
        """Return the process id of each member."""
        return {post: member.pid for post, member in self._members.items()}

    def layout(self, admin: Admin) -> Layout:
        """Return the present layout of its topics."""
        racks = {broker: rack for broker, rack in admin.racks().items() if rack is not None}
        return Layout(racks=racks, replicas=admin.replicas(self.topics))

    @property
    def partitions(self) -> int:
        """How many partitions its topics have."""
        return sum(map(len, self.topics.values()))

    def owned(self) -> dict[Post, frozenset[Partition]]:
        """Return the partitions that each member reports."""
        return {post: member.owned for post, member in self._members.items()}

    def complete(self) -> bool:
        """Return whether every partition has exactly one owner and every member has a partition."""
        owned = list(self.owned().values())
        return all(owned) and sum(map(len, owned)) == self.partitions == len(frozenset().union(*owned))

    def wait_complete(self) -> None:
        """Wait until the group has settled: complete, and unchanged half a second later."""

        def settled() -> bool:
            if not self.complete():
                return False
            before = self.owned()
            time.sleep(0.5)
            return self.owned() == before

        wait_until(settled, f"all {self.partitions} partitions are assigned")

    def wait_near(self, where: Layout, share: float, what: str, *, timeout: float) -> None:
        """Wait until the group is complete and reads no more than this share of its partitions across racks."""
        wait_until(lambda: self.complete() and self.cross_rack_share(where) <= share, what, timeout=timeout)

    def follow_a_move(
        self,
        story: Story,
        admin: Admin,
        moves: Mapping[Partition, Sequence[int]],
        *,
        each_topic_even: bool = True,
        timeout: float = 60,
    ) -> dict[str, float]:
        """Move replicas to other racks, and wait until the group reads as near as it can; return what it cost."""
        move_seconds = admin.move_replicas(moves)
        moved_at = time.monotonic()
        where = self.layout(admin)
        optimum, present = self.optimum(where, each_topic_even=each_topic_even), self.cross_rack_share(where)
        story.report(
            f"{len(moves)} partitions moved to other racks in {move_seconds:.1f} s: {present:.1%} across racks now"
        )
        if present <= optimum:
            raise SandboxError("the move left nothing to follow")
        self.wait_near(where, optimum, "the group has followed the move", timeout=timeout)
        seconds = time.monotonic() - moved_at
        story.report(
            f"the group followed after [bold]{seconds:.1f} s[/bold]: {optimum:.1%} across racks, the optimum again"
        )
        return {"after_move": present, "followed": self.cross_rack_share(where), "followed_seconds": seconds}

    def cross_rack_share(self, where: Layout) -> float:
        """Return the share of partitions that are read from another rack, under a layout."""
        owned = self.owned()
        cross = sum(
            post.rack not in where.serving(post, partition)
            for post, partitions in owned.items()
            for partition in partitions
        )
        return cross / max(1, sum(map(len, owned.values())))

    def optimum(self, where: Layout, *, each_topic_even: bool = True) -> float:
        """Return the lowest share of an assignment that is even: each topic by itself, as range does, or all together.

        The reference solver (networkx) computes it, which the agent does not use.
        """
        topics: dict[str, list[list[str]]] = {topic: [] for topic in self.topics}
        for (topic, _), placed in sorted(where.replicas.items()):
            others = [broker for broker in placed.replicas if broker != placed.leader]
            topics[topic].append([where.racks[broker] for broker in (placed.leader, *others)])
        problem = build_problem(
            topics=topics,
            members=[
                MemberInput(id=post.name, topics=tuple(self.topics), rack=post.rack, reads_any_replica=post.sends_rack)
                for post in self.posts
            ],
        )
        options = optimal.Options(keep_copartitioned=each_topic_even)
        with patch.object(solvers, "min_cost_flow", return_value=None):
            cost = evaluate(problem, optimal.assign(problem, options))
        return cost.cross_rack / len(problem.topic_of)

    def longest_pause(self, *, since_ms: int, until_ms: int) -> float:
        """Return the longest time in seconds in which no member read some partition."""
        return max(longest_pauses(self._events(), since_ms=since_ms, until_ms=until_ms).values(), default=float("inf"))

    def rebalanced(self, *, since_ms: int) -> bool:
        """Return whether a member has given up or got partitions since then."""
        return any(event.kind in ("assigned", "revoked", "lost") and event.ms >= since_ms for event in self._events())

    def rates(self, where: Layout, seconds: float) -> dict[Post, dict[str, float]]:
        """Return bytes per second from each rack, measured over `seconds`.

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

    def __exit__(self, *_: object) -> None:
        """Kill all members: their last commits are not needed."""
        for member in self._members.values():
            with suppress(OSError):
                member.stop(kill=True)


@contextmanager
def running(  # noqa: PLR0913 - one parameter for each part of a group
    story: Story,
    posts: Sequence[Post],
    topics: Topics,
    *,
    group: str,
    brokers: str = "",
    members: str,
    properties: Mapping[str, str] | None = None,
    records: Callable[[str, int], int] = lambda _topic, _partition: 1,
) -> Iterator[tuple[Cluster, Admin, Crew]]:
    """Run three brokers and a group with load within the context; `brokers` and `members` say what is special."""
    with three_brokers(story.report, note=brokers) as (cluster, admin):
        for topic, assignment in topics.items():
            admin.create_topic(topic, assignment)
        story.report(f"topics: {', '.join(f'{topic} ({len(placed)} partitions)' for topic, placed in topics.items())}")
        crew = Crew(posts=posts, bootstrap=cluster.bootstrap, group=group, topics=topics, properties=properties or {})
        partitions = {topic: len(placed) for topic, placed in topics.items()}
        with Feeder(cluster.bootstrap, partitions, records=records), crew:
            story.report(members)
            crew.wait_complete()
            yield cluster, admin, crew


def show_rates(story: Story, rates: Mapping[Post, Mapping[str, float]], title: str) -> None:
    """Print bytes per second from each rack, in no more than 80 columns."""
    racks = sorted({post.rack for post in rates})
    table = Table(title=title)
    for column in ("member", "in"):
        table.add_column(column, no_wrap=True)
    for rack in racks:
        table.add_column(f"from {rack}", justify="right", no_wrap=True)
    table.add_column("counted", no_wrap=True)
    for post, found in rates.items():
        cells = [
            f"[{'green' if rack == post.rack else 'red'}]{found[rack] / 1000:.1f}[/]" if found[rack] >= 50 else "-"
            for rack in racks
        ]
        table.add_row(post.client, post.rack, *cells, "wire" if post.sends_rack else "records")
    story.console.print(table)
