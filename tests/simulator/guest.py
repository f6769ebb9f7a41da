"""What must hold for a group with an agent: no member is refused or blocked, and no offset is lost, because of it.

The checks compare with a group without an agent, and check each plan that an agent sends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from samerack.agent.policy.back_off_causes import Cause
from samerack.protocol.values import to_pairs
from tests.simulator.consumers import KINDS, assign, pairs_of, read_subscription
from tests.simulator.group import AGENTS, Group, GroupMember, Join, Joined, State, Table

if TYPE_CHECKING:
    from tests.simulator.consumers import Consumer, Partition
    from tests.simulator.process import Process
    from tests.simulator.supervised import SupervisedAgent
    from tests.simulator.world import World

ALONE_MS: Final = 2500
"""How long an agent may be in a group without consumers: 2 s, and up to 0.5 s until a check sees it."""
RETENTION_MS: Final = 60_000  # `offsets.retention.minutes`, shortened
_CLEANING_MS: Final = 5000  # the broker's cleaner may see a state that lasts this long
_BACK_MS: Final = 4000
_SEEN_MS: Final = 350
"""An agent that waits in JoinGroup describes the group between waits of 0.15 s, each 0.15 s after the last description,
and then leaves; after a failed SyncGroup it joins and plans once more in one wait."""
_INITIAL_MS: Final = 9000  # the evictions of one birth are within this time
_CONVERTED_MS: Final = 15_000


class Guest:
    """Checks the agents of one world as guests."""

    def __init__(self, world: World, fail: Callable[[str, str], None], excused_until: Callable[[], int]) -> None:
        self._world, self._fail, self._excused_until = world, fail, excused_until
        self._alone_since: int | None = None
        self._without_since: int | None = None
        self._commits: dict[Partition, int] = {}
        self._left: dict[str, tuple[int, Process, int]] = {}
        self._back_off: dict[int, str] = {}
        self._evicted: dict[str, str] = {}  # the agent that asked for it, by member id
        self._ended: dict[str, int] = {}  # when an agent's eviction first ended a client
        self.kept_out: list[str] = []  # clients that were refused only because an agent does not offer their protocol

    # what is observed

    def owns(self, consumer: Consumer) -> None:
        """A client commits offsets of its partitions."""
        for partition in consumer.owned:
            self._commits[partition] = self._world.timeline.now

    def ended(self, consumer: Consumer) -> None:
        """An error of JoinGroup has ended a client: an agent may cause that once, and then knows it."""
        agent, now = self._evicted.get(consumer.member_id), self._world.timeline.now
        if agent is not None and now - self._ended.setdefault(agent, now) > _INITIAL_MS:
            self._fail("EndedAgain", f"{agent} evicts {consumer.name}, which ends, although others have ended before")

    def check(self) -> None:
        """Check the group once."""
        world = self._world
        now = world.timeline.now
        group = world.coordinator.group
        if world.coordinator.converted_at is not None:
            if now - max(world.coordinator.converted_at, self._excused_until()) > _CONVERTED_MS:
                for agent in world.agents:
                    if agent.up and world.coordinator.converted.keys() & agent.ids():
                        self._fail("StaysInConverted", f"{agent.name} stays in a group that the brokers assign")
            self._alone_since = self._without_since = None
            return
        consumers = self._consumers(group)
        if group is not None and world.setting.clients == "kafkajs" and group.state is State.STABLE:
            living = {one for agent in world.agents for one in agent.ids()}  # a dead agent's session has to expire
            if any(one.id in living and pairs_of(one.assignment) for one in group.members):
                self._fail("GivenToAgent", "an agent follows a leader that gives it partitions, and nobody reads them")
        if consumers or any(one.host.alive and one.joins_at > now for one in world.consumers):
            self._alone_since = self._without_since = None
            return
        if self._without_since is None:
            self._without_since = now
        if group is None or not len(group.members):
            self._alone_since = None
            return
        if self._alone_since is None:
            self._alone_since = now
        alone = now - max(self._alone_since, self._excused_until())
        if alone > ALONE_MS:
            self._fail("StaysAlone", f"an agent has been in a group without consumers for {alone / 1000:.1f} s")
        if group.state is State.STABLE and now - self._alone_since > _CLEANING_MS:
            self._check_offsets(now)

    def _check_offsets(self, now: int) -> None:
        """In Stable, offsets of topics without subscribers expire by their age; in Empty, by the group's (KIP-211)."""
        assert self._without_since is not None
        for partition, at in self._commits.items():
            if now - at > RETENTION_MS >= now - max(at, self._without_since):
                self._fail("LostOffset", f"the offset of {partition} has expired because an agent is in the group")
                return

    def refused(self, request: Join, group: Group) -> None:
        """A JoinGroup shares no protocol with the group.

        A known exception: consumers have been restarted with an assignor that agents do not offer beside the former
        one, and now without the former one. Brokers show only the chosen protocol; docs/upgrading.md has what to do.
        """
        if request.client_id == AGENTS:
            return
        if self._consumers(group):
            own = self._without_agents(group)
            if own.supports(request.protocol_type, request.protocols):
                self.kept_out.append(request.client_id)
                shared = own.common().intersection(name for name, _ in request.protocols)
                if shared.intersection(*(agent.settings.leading.protocols for agent in self._world.agents)):
                    self._fail("RefusedForAgent", f"{request.client_id} offers {sorted(shared)}, as agents could")
            return
        if self._alone_since is None:
            return
        if self._world.timeline.now - max(self._alone_since, self._excused_until()) > ALONE_MS:
            self._fail("RefusedForAgent", f"{request.client_id} is refused because an agent is in the group")

    def too_large(self, group: Group) -> None:
        """A plan is too large: not an agent's where the group's own leader would have made one that fits."""
        leader = group.members.get(group.leader)
        consumers = self._consumers(group)
        limit = self._world.coordinator.record_limit
        if leader is None or leader.client_id != AGENTS or not consumers or limit is None:
            return
        own = replace(self._without_agents(group), leader=consumers[0].id)
        kind = next((one.kind for one in self._world.consumers if one.member_id == own.leader), KINDS["java"])
        joined = Joined(protocol=group.protocol, generation=group.generation, members=own.as_answered())
        plan = assign(joined, self._world.place, kind)
        for one in own.members:
            one.assignment = plan.get(one.id, b"")
        if own.record_bytes() <= limit:
            self._fail(
                "TooLarge",
                f"an agent's plan makes the record {group.record_bytes()} bytes, over {limit}, and the own "
                f"leader's {own.record_bytes()}",
            )

    def refused_as_full(self, request: Join, group: Group) -> None:
        """A full group refuses a JoinGroup (`group.max.size`), which ends a client: not because of an agent's place.

        The agent keeps one place free; it cannot know of consumers that have joined a moment ago.
        """
        world = self._world
        if request.client_id == AGENTS or world.coordinator.is_full(group, request, without=AGENTS):
            return
        if world.network.outdated is not None:
            return  # the group is described as it was before its consumers came
        known_at = world.timeline.now - _SEEN_MS - 2 * world.setting.plan_ms - world.setting.metadata_ms
        known = sum(one.since <= known_at for one in self._consumers(group))
        running = {one for agent in world.agents if not agent.is_stopped for one in agent.ids()}
        if known + 2 > world.coordinator.max_size and any(one in group.members for one in running):
            self._fail("RefusedConsumer", f"{request.client_id} is refused because an agent has the last place")

    # what agents do

    def backs_off(self, agent: SupervisedAgent, process: Process, cause: Cause) -> None:
        """An agent backs off from a group for a while."""
        self._back_off[id(process)] = cause
        if cause is Cause.PLANS_REJECTED and self._world.setting.patterns and not self._world.faults:
            self._fail("TakenForRejected", f"{agent.name} leaves because members have found topics")

    def leaves(self, agent: SupervisedAgent, process: Process, member_ids: Iterable[str]) -> None:
        """An agent sends LeaveGroup."""
        own = {one.member_id for one in process.presences() if not one.pending}
        self._evicted |= dict.fromkeys(set(member_ids) - own, agent.name)
        group = self._world.coordinator.group
        forms = group is not None and group.forms  # nobody notices that it joins again for its position
        if own & set(member_ids) and agent.wanted and self._living() and not forms:
            self._left[agent.name] = self._world.timeline.now, process, _term(agent)
            self._back_off.pop(id(process), None)

    def joins(self, agent: SupervisedAgent, process: Process, request: Any) -> None:
        """An agent sends JoinGroup: not soon after a needless LeaveGroup, and with a member id or an instance id."""
        session_ms = round(agent.settings.leading.session_timeout_seconds * 1000)
        if not request.member_id and request.group_instance_id is None and request.session_timeout_ms == session_ms:
            self._fail("RandomPlace", f"{agent.name} joins under whatever id the broker gives it")
        at, before, term = self._left.pop(agent.name, (0, None, 0))
        recent = self._world.timeline.now - at < _BACK_MS
        if before is process and recent and id(process) not in self._back_off and term == _term(agent):
            self._fail("NeedlessLeave", f"{agent.name} left a group with consumers, and comes back at once")

    def plans(self, agent: SupervisedAgent, request: Any) -> None:
        """An agent sends a plan: it must cover all members and partitions."""
        world = self._world
        group = world.coordinator.group
        if group is None or group.generation != request.generation_id or group.leader != request.member_id:
            return
        if group.state is not State.COMPLETING:
            return  # another member has joined meanwhile: the broker refuses it
        plan = {one.member_id: frozenset(pairs_of(bytes(one.assignment))) for one in request.assignments}
        by_id = {one.member_id: one for one in world.consumers if one.host.alive and one.member_id}
        there = [by_id[one.id] for one in self._consumers(group) if one.id in by_id]
        for one in there:
            if one.member_id not in plan:
                self._fail("LeftOut", f"{agent.name} plans without {one.name}")
        given = frozenset[tuple[str, int]]().union(*plan.values())
        held = frozenset[tuple[str, int]]().union(*(one.owned for one in there if one.cooperative))
        for member in self._consumers(group):
            if member.id not in by_id:  # it died between JoinGroup and the plan: no agent can know that it owns nothing
                held |= frozenset(to_pairs(read_subscription(member.metadata(group.protocol)).owned))
        for topic in {topic for one in there for topic in one.joined_topics} & world.place.topics.keys():
            numbers = set(range(len(world.place.topics[topic])))
            missing = numbers - {number for name, number in given | held if name == topic}
            seen = agent.seen_partitions(topic)
            if not agent.known_partitions().get(topic, 1):
                continue  # it was deleted, and no poll has shown yet that it was created again
            if missing and (missing == numbers or min(missing) < seen):
                self._fail("LeftOut", f"{agent.name} plans without {topic}, partitions {sorted(missing)}")
        self._check_shares(agent, there, plan)

    def _check_shares(
        self, agent: SupervisedAgent, there: list[Consumer], plan: dict[str, frozenset[Partition]]
    ) -> None:
        """In an eager group, no member gets nothing while another has several partitions of its topics.

        Partitions of one number stay together if topics are co-partitioned, and count as one.
        """
        if any(one.cooperative for one in there):
            return
        for starved in (one for one in there if not plan.get(one.member_id)):
            wanted = starved.joined_topics
            shares = [len({number for topic, number in given if topic in wanted}) for given in plan.values()]
            if max(shares, default=0) > 1:
                self._fail("Starved", f"{agent.name} gives nothing to {starved.name}")

    # inside

    def _living(self) -> bool:
        """Whether a running consumer is in the group, and not only one whose session has to expire."""
        living = {one.member_id for one in self._world.consumers if one.host.alive and one.member_id}
        return any(one.id in living for one in self._consumers(self._world.coordinator.group))

    def _without_agents(self, group: Group) -> Group:
        """The group with copies of its consumers only."""
        own = replace(group, members=Table())
        for one in self._consumers(group):
            own.members.put(copy(one))
        return own

    @staticmethod
    def _consumers(group: Group | None) -> list[GroupMember]:
        return [one for one in group.members if one.client_id != AGENTS] if group is not None else []


def _term(agent: SupervisedAgent) -> int:
    """The election term that the agent knows."""
    return agent.leadership.term if agent.leadership is not None else 0
