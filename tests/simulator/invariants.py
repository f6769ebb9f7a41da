"""What must hold in every simulated world, at every moment and at rest, by its state and not by what agents report.

A violation raises with what was found and the events before it. A fault that costs a group time excuses that time.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from samerack.agent.policy.back_off_causes import Cause
from samerack.agent.supervisor.protocol import HAND_OVER_SECONDS
from samerack.cluster.racks import member_rack
from samerack.cluster.view import SettledCluster, SettledPartition
from samerack.planning import planner
from samerack.planning.members import PlanMember, placed
from samerack.planning.problem import mode_of, problem_of
from samerack.protocol.values import from_pairs
from tests.simulator.consumers import pairs_of, read_subscription
from tests.simulator.group import AGENTS, Described, Error, Group, State
from tests.simulator.guest import Guest

if TYPE_CHECKING:
    from samerack.settings.all_settings import Settings
    from tests.simulator.consumers import Consumer, Partition
    from tests.simulator.process import Process
    from tests.simulator.supervised import SupervisedAgent
    from tests.simulator.world import World

_SLACK_MS: Final = 6000  # three rounds of a rebalance, and the short delays between them
_AWAY_MS: Final = 26_000
"""Commits show life for 8 s, or half as long again as the longest time between two: one that stops for 12 s and 5 s."""
_KILLED_MS: Final = 2300  # the time that a killed agent process may cost: the supervisor replaces it
AGENT_SESSION_MS: Final = 9500
_GOODBYE_MS: Final = 4000
_POLL_MS: Final = 1100
_PENDING_MS: Final = 3000
_HELD_MS: Final = 4700
"""A takeover waits 4 s for an evicted member that does not rejoin; it takes up to 0.5 s until a check sees it."""
_RESERVED_MS: Final = 7000
"""Ids that no agent knows any more block a group for 6 s; it takes up to 0.5 s until a check sees it."""
_END_MS: Final = 5000
_HAND_OVER_MS: Final = round(HAND_OVER_SECONDS * 1000)
_MAX_IN_REST: Final = 4
_OF_TAKEOVERS: Final = 6  # an agent tries a takeover three times before it stops trying, and each costs two rebalances
_LONGEST_TALE: Final = 60
_MAX_REFUSED: Final = 20  # answers with one error to one kind of request within a second: the library pauses for 0.1 s


class ViolationError(AssertionError):
    """Something that must hold does not; each kind has its own class, so that shortening a story keeps the kind."""


@cache
def _kind_of(violation: str) -> type[ViolationError]:
    return type(violation, (ViolationError,), {})


class Invariants:
    """The checks of one world."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._tale: deque[str] = deque(maxlen=_LONGEST_TALE)
        self._found: ViolationError | None = None
        self._excused_until = 0
        self._unstable_since: int | None = None
        self._state: tuple[int, State] | None = None
        self._state_at = 0
        self._triggers: dict[int, list[int]] = defaultdict(list)
        self._pending_since: dict[str, int] = {}
        self._stopping: dict[str, int] = {}
        self._refusals: dict[tuple[int, str, int], deque[int]] = defaultdict(lambda: deque(maxlen=_MAX_REFUSED))
        self._changed_at = 0
        self._away: dict[Consumer, tuple[int, bool]] = {}
        self._returned: tuple[float, list[Process | None]] = float("-inf"), []
        self._generations: deque[int] = deque(maxlen=64)
        self.guest = Guest(world, self.fail, lambda: self._excused_until)
        self._last: Described | None = None
        self.former: Described | None = None  # the group as it was described in a generation before this one

    @property
    def tale(self) -> list[str]:
        """The last events of this world."""
        return list(self._tale)

    def note(self, what: str) -> None:
        """Add one line to the tale of this world."""
        self._tale.append(f"{self._world.timeline.seconds():10.3f} {what}")

    def fail(self, kind: str, what: str) -> None:
        """Record the first violation; `deliver` raises it, outside the code of agents and clients."""
        if self._found is None:
            self.note(what)
            self._found = _kind_of(kind)(what + "\n" + "\n".join(self._tale))

    def deliver(self) -> None:
        """Raise the recorded violation."""
        if self._found is not None:
            raise self._found

    # excuses

    def excuse(self, what: str, milliseconds: int) -> None:
        """Allow the group this much time beyond a rebalance, for an event."""
        now = self._world.timeline.now
        self.note(what)
        self._changed_at = now
        self._excused_until = max(self._excused_until, now) + milliseconds

    def excused_ms(self) -> int:
        """The excused time that is left."""
        return max(0, self._excused_until - self._world.timeline.now)

    def too_large(self, group: Group) -> None:
        """The group's record is too large: its members fail, and those without LeaveGroup are missed for a session."""
        sessions = [member.session_ms for member in group.members if member.instance_id is not None]
        self.excuse("the group's record is too large", max(sessions, default=0) + self._world.slowest_ms())
        self.guest.too_large(group)

    def stops(self, agent: SupervisedAgent) -> None:
        """An agent is asked to stop: it must end soon."""
        self.excuse(f"{agent.name} is asked to end", self._world.slowest_ms())
        self._stopping[agent.name] = self._world.timeline.now

    def freezes(self, agent: SupervisedAgent, milliseconds: int, *, whole: bool) -> None:
        """An agent is suspended for a while."""
        cost = min(milliseconds, AGENT_SESSION_MS) if whole else _KILLED_MS + 1000
        self.excuse(f"{agent.name} stops for {milliseconds} ms, whole={whole}", cost + self._world.slowest_ms())

    def goes_away(self, consumer: Consumer) -> None:
        """A client ends or stops without leaving the group, when another plan was or was not wanted."""
        unknown = self._world.coordinator.group is None
        self._away[consumer] = self._world.timeline.now, unknown or self._is_another_wanted()

    def returns(self, consumer: Consumer, before: Consumer) -> None:
        """A static client is back under the instance id of another one; the agents in the group see its new id."""
        self.note(f"{consumer.name} is back")
        group = self._world.coordinator.group
        if group is not None and before.member_id in group.members:
            inside = [one.process for one in self._world.agents if any(own in group.members for own in one.ids())]
            self._returned = self._world.timeline.now, inside

    # what agents do

    def steps(self, agent: SupervisedAgent, step: str) -> None:
        """An agent's membership reaches its next step."""
        self.note(f"{agent.name}: {step}")
        if step == "join-sent" and self._world.setting.forbidden and self._world.setting.clients == "any":
            group = self._world.coordinator.group
            others = [member.client_id != AGENTS for member in group.members] if group is not None else []
            # the agent cannot have seen it earlier
            seen = self._world.timeline.now - self._state_at > _POLL_MS and not self._is_outdated()
            if group is not None and group.state is State.STABLE and others and all(others) and seen:
                self.fail("ForbiddenGroup", f"{agent.name} joins a group that it may not")

    def triggers(self, agent: SupervisedAgent, process: Process, reason: str) -> None:
        """An agent triggers a rebalance: it needs a valid reason and budget."""
        self.note(f"{agent.name} triggers: {reason}")
        now = self._world.timeline.now
        if reason in ("second-round", "partitions-changed"):
            group = self._world.coordinator.group
            known = group is not None and any(one in group.members for one in agent.ids())
            # a member that the broker does not know any more has no effect
            if self._incomplete(agent.known_partitions()) or not known:
                return
            if not self._is_outdated():
                self.fail("NeedlessRebalance", f"{agent.name} rebalances for {reason}, and every partition is read")
            elif group is not None and process.planned == group.generation:  # else the agent cannot know
                self.fail("OutdatedPoll", f"{agent.name} rebalances for {reason} because of an outdated description")
            return
        if reason == "nudge":
            return
        needed = self._incomplete(agent.known_partitions())
        if not needed and (gone := self._deleted(agent.known_partitions())):
            self.fail("StopsForDeleted", f"{agent.name} rebalances for {reason}, and members own deleted {min(gone)}")
        if reason == "takeover" and (needed or self._is_outdated()):
            return  # partitions that nobody reads, as far as is known, do not wait for a member that is away
        self._check_away(agent, reason)
        if reason == "takeover":
            return
        policy = agent.settings.policy
        times = self._triggers[id(process)]
        times.append(now)
        for index, first in enumerate(times):
            count = len(times) - index
            if count > policy.burst + (now - first) / 1000 / policy.refill_seconds + 1e-6:
                self.fail(
                    "BeyondBudget",
                    f"{agent.name} rebalances {count} times in {(now - first) / 1000:.1f} s, beyond its budget",
                )

    def _check_away(self, agent: SupervisedAgent, reason: str) -> None:
        """Each rebalance stops an eager group until a member that is away is back, or its session has ended.

        An agent cannot know of a member that has gone away a moment ago, nor of one that never commits and was there
        when the rebalance was wanted first.
        """
        world, now = self._world, self._world.timeline.now
        group = world.coordinator.group
        if group is None or not any(one in group.members for one in agent.ids()):
            return
        for one in world.consumers:
            if one.member_id not in group.members or (one.host.alive and not one.host.stopped):
                continue
            since, wanted = self._away.get(one, (now, True))
            commits = world.commits.every_ms and pairs_of(_assignment(group, one.member_id))
            at, seen_by = self._returned
            session_ms = 1000 * agent.settings.policy.member_session_seconds
            restarts = agent.process in seen_by and _POLL_MS < now - at < session_ms
            if not wanted or restarts or (commits and now - since > _AWAY_MS):
                self.fail(
                    "StoppedForAway",
                    f"{agent.name} rebalances for {reason} while {one.name} is away since {(now - since) / 1000:.1f} s",
                )

    def refused(self, agent: SupervisedAgent, process: Process, name: str, code: int) -> None:
        """A broker answers with an error: an agent must not repeat the request without a pause."""
        if code == Error.MEMBER_ID_REQUIRED:
            return
        now = self._world.timeline.now
        times = self._refusals[id(process), name, code]
        times.append(now)
        if len(times) == _MAX_REFUSED and now - times[0] < 1000:
            self.fail(
                "HotLoop", f"{agent.name} is answered {Error(code).name} to {name} {len(times)} times in a second"
            )

    def sends(self, agent: SupervisedAgent, process: Process, name: str, request: Any) -> None:
        """An agent sends a request about the group."""
        if name == "join":
            self.guest.joins(agent, process, request)
        elif name == "sync" and request.assignments:
            self.guest.plans(agent, request)
        elif name == "leave":
            group = self._world.coordinator.group
            static = group.static if group is not None else {}
            ids = [one.member_id or static.get(one.group_instance_id, "") for one in request.members]
            self.guest.leaves(agent, process, ids)

    def backs_off(self, agent: SupervisedAgent, process: Process, cause: Cause) -> None:
        """An agent backs off from the group for a while."""
        self.note(f"{agent.name} backs off: {cause}")
        self.guest.backs_off(agent, process, cause)

    def killed(self, agent: SupervisedAgent) -> None:
        """A process of an agent was killed."""
        group = self._world.coordinator.group
        unknown = group is not None and AGENTS in group.pending.values()  # maybe no agent knows the id any more
        cost = AGENT_SESSION_MS if unknown else _KILLED_MS
        self.excuse(f"{agent.name} is killed", cost + self._world.slowest_ms())

    def given_up(self, agent: SupervisedAgent) -> None:
        """An agent's supervisor stops restarting it for a while, and sends LeaveGroup for the members that it knows."""
        self.excuse(f"{agent.name} is left alone", AGENT_SESSION_MS)

    def breaks(self, agent: SupervisedAgent, error: Exception) -> None:
        """An agent raised an unexpected error."""
        self.fail("Mistake", f"{agent.name} makes a mistake: {type(error).__name__}: {error}")

    # what members own

    def owns(self, consumer: Consumer) -> None:
        """A client's owned partitions or its generation changed: no other client owns them in that generation."""
        if not consumer.owned:
            return
        self.guest.owns(consumer)
        for other in self._world.consumers:
            if other is consumer or other.generation != consumer.generation or not other.host.alive:
                continue
            both = other.owned & consumer.owned
            if both:
                names = f"{other.name} and {consumer.name}"
                self.fail("OwnedTwice", f"{min(both)} is owned by {names} in generation {consumer.generation}")

    def ended(self, consumer: Consumer, milliseconds: int) -> None:
        """An error of JoinGroup has ended a client, which is started again after this time."""
        self.guest.ended(consumer)
        self.excuse(f"{consumer.name} has ended", milliseconds + consumer.kind.session_ms + self._world.slowest_ms())

    # at every moment

    def check(self) -> None:
        """Check the group once."""
        world = self._world
        now = world.timeline.now
        group = world.coordinator.group
        state = (group.generation, group.state) if group is not None else None
        if state != self._state:
            self.note(f"generation {state[0]}, {state[1].name}" if state is not None else "no group")
            if state is not None and (self._state is None or state[0] != self._state[0]):
                self._generations.append(now)
            self._state, self._state_at = state, now
        self.guest.check()
        self._check_stopping(now)  # also while the group has no coordinator
        if group is None:
            return
        if group.state is State.STABLE:
            described = group.described()
            if self._last is not None and {one.member_id for one in self._last.members} != {
                one.member_id for one in described.members
            }:
                self.former = self._last
            self._last = described
        self._check_rebalance(now, stable=group.forms or group.state in (State.STABLE, State.EMPTY))
        self._check_pending(now, dict(group.pending))
        self._check_pace()

    def _check_rebalance(self, now: int, *, stable: bool) -> None:
        if stable or not any(one.host.alive for one in self._world.consumers):
            self._unstable_since = None
            return
        if self._unstable_since is None:
            self._unstable_since = now
        plans = 2 * self._world.setting.plan_ms  # of the further rounds; a takeover that evicts needs them
        until = max(self._unstable_since, self._excused_until) + _SLACK_MS + self._world.slowest_ms() + plans
        if now > until:
            self.fail("LongRebalance", f"a rebalance lasts for {(now - self._unstable_since) / 1000:.1f} s")

    def _check_pending(self, now: int, pending: dict[str, str]) -> None:
        """A running agent gives back the ids that it does not use."""
        known = {one for agent in self._world.agents for one in agent.ids()}
        patience = _HELD_MS if self._world.setting.clean else _PENDING_MS
        self._pending_since = {one: self._pending_since.get(one, now) for one in pending}
        for one, since in self._pending_since.items():
            late = now - max(since, self._excused_until) > patience
            if pending[one] == AGENTS and now - since > _RESERVED_MS:
                self.fail("KeptPendingId", f"the pending id {one} of an agent has been there for {now - since} ms")
            if one in known and late:
                self.fail("KeptPendingId", f"{pending[one]} keeps the pending id {one}")

    def _check_stopping(self, now: int) -> None:
        """An agent that was asked to stop leaves the group, or hands its membership over."""
        group = self._world.coordinator.group
        for name, since in tuple(self._stopping.items()):
            agent = next(one for one in self._world.agents if one.name == name)
            if agent.is_stopped:
                self._stopping[name] = now
            hand_over = _HAND_OVER_MS if self._world.election is not None else 0
            if not agent.wanted and agent.up and now - since > _END_MS + hand_over:
                self.fail("EndsLate", f"{name} was asked to end {(now - since) / 1000:.1f} s ago, and still runs")
            if agent.wanted:
                del self._stopping[name]
            elif group is not None and now > max(since, self._excused_until) + _GOODBYE_MS + hand_over:
                del self._stopping[name]
                if self._orphans(agent):
                    self.fail("DidNotLeave", f"{name} has ended and is still in the group")

    def _orphans(self, stopped: SupervisedAgent) -> list[str]:
        """Members with the instance id of an agent whose member id no running agent uses."""
        group = self._world.coordinator.group
        known = {one for agent in self._world.agents for one in agent.ids()}
        members = group.members if group is not None else ()
        return [one.id for one in members if one.instance_id == stopped.instance_id and one.id not in known]

    def _check_pace(self) -> None:
        """If nothing changes, no new generations start."""
        since = max(self._changed_at, self._excused_until) + 60_000
        late = [at for at in self._generations if at > since]
        if len(late) > _MAX_IN_REST + (_OF_TAKEOVERS if self._world.setting.clean else 0):
            self.fail(
                "NeverAtPeace", f"{len(late)} generations although nothing has changed since {since / 1000:.0f} s"
            )

    # at rest

    def never_settles(self, why: str) -> None:
        """Fail, because the world did not come to rest in time."""
        self.fail("NeverSettles", f"never settles: {why or 'generations go on'}")
        self.deliver()

    def settled(self, *, rested: bool = False) -> None:
        """Check that each partition is read and, if an agent leads and its budget is refilled, at the least cost."""
        missing, group = self.unread(), self._world.coordinator.group
        # a static leader that is back takes the metadata that it finds for those of its plan (KIP-814), with an agent
        # in the group or without
        returned = any(one.returned and group and one.member_id == group.leader for one in self._world.consumers)
        if missing and not returned:
            self.fail("Unread", f"nobody reads {sorted(missing)}")
        if group is not None:
            inside = [agent for agent in self._world.agents if any(one in group.members for one in agent.ids())]
            if len(inside) > 1 and not self._world.setting.strangers:
                self.fail("TwoAgents", f"{[agent.name for agent in inside]} are both in the group")
            leader = next((agent for agent in inside if group.leader in agent.ids()), None)
            if leader is not None:
                self._check_plan(leader, rested=rested)
        self.deliver()

    def _incomplete(self, believed: Mapping[str, int]) -> bool:
        """Whether the current plan misses a partition, also one that an agent believes in, or the group is not stable.

        Partitions that are assigned and were deleted start no rebalance.
        """
        group = self._world.coordinator.group
        if group is None or group.state is not State.STABLE:
            return True
        members = [one for one in self._world.consumers if one.member_id in group.members]
        topics = {topic for one in members for topic in one.joined_topics}  # as described: it may have others now
        return bool(self._unowned(self._assigned(group), believed, topics))

    def unread(self) -> set[Partition]:
        """Partitions of subscribed topics that no client owns."""
        living = [one for one in self._world.consumers if one.host.alive]
        topics = {topic for one in living for topic in one.topics}
        return self._unowned({partition for one in living for partition in one.owned}, {}, topics)

    def _deleted(self, existing: Mapping[str, int]) -> set[Partition]:
        """Partitions that the current plan assigns although their topic is known to have fewer, or none."""
        group = self._world.coordinator.group
        assigned = self._assigned(group) if group is not None else set()
        return {(topic, number) for topic, number in assigned if number >= existing.get(topic, number + 1)}

    @staticmethod
    def _assigned(group: Group) -> set[Partition]:
        return {partition for one in group.members for partition in pairs_of(one.assignment)}

    def _unowned(self, owned: set[Partition], believed: Mapping[str, int], wished: Iterable[str]) -> set[Partition]:
        """Partitions of these topics that exist, or are believed to, and are not owned."""
        there = {topic: len(partitions) for topic, partitions in self._world.place.topics.items()}
        counts = {topic: max(there.get(topic, 0), believed.get(topic, 0)) for topic in wished}
        everything = {(topic, number) for topic, count in counts.items() for number in range(count)}
        return everything - owned

    def _check_plan(self, agent: SupervisedAgent, *, rested: bool) -> None:
        """The current plan reads as little across racks as possible."""
        plan = self._plan(agent.settings)
        if plan is None:
            return
        before, after = plan.before.cross_rack_share, plan.after.cross_rack_share
        there = {topic: len(partitions) for topic, partitions in self._world.place.topics.items()}
        deleted = self._deleted({topic: there.get(topic, 0) for one in self._world.consumers for topic in one.topics})
        if before - after > agent.settings.policy.min_saving + 1e-9 and rested and not deleted:
            self.fail("NotOptimal", f"{agent.name} leads a group that reads {before:.0%} across racks, not {after:.0%}")
        if bool(np.any(plan.problem.owner < 0)):
            self.fail("PlannedUnread", f"{agent.name} leads a group in which something is not read")

    def _is_outdated(self) -> bool:
        """Whether the last description that an agent has may show a former state of the group."""
        network = self._world.network
        return network.outdated is not None or self._world.timeline.now - network.up_to_date_at <= _POLL_MS

    def _is_another_wanted(self) -> bool:
        """Whether another plan reads less across racks than the present one, by more than the minimum."""
        settings = self._world.agents[0].settings
        plan = self._plan(settings)
        if plan is None:
            return False
        return plan.before.cross_rack_share - plan.after.cross_rack_share > settings.policy.min_saving

    def _plan(self, configured: Settings) -> planner.Plan | None:
        """The best plan for the group's running clients; None if they are none."""
        world = self._world
        group = world.coordinator.group
        if group is None or not group.protocol:
            return None
        mode = mode_of(group.protocol, configured.leading, rack_aware_fetch=True)
        members = []
        living = {one.member_id: one for one in world.consumers if one.host.alive}
        for member in group.members:
            metadata = member.metadata(group.protocol)
            if member.id not in living or not metadata:  # without: one that has just joined, with other protocols
                continue
            subscription = read_subscription(metadata)
            members.append(
                PlanMember(
                    id=member.id,
                    instance_id=member.instance_id,
                    topics=subscription.topics,
                    rack=member_rack(
                        configured.racks,
                        rack_id=subscription.rack,
                        client_id=member.client_id,
                        client_host=member.client_host,
                    ),
                    owned=from_pairs(sorted(living[member.id].owned)),
                )
            )
        cluster = self._settled_cluster()
        return planner.make_plan(problem_of(placed(members, cluster.racks), cluster, mode), mode) if members else None

    def _settled_cluster(self) -> SettledCluster:
        place = self._world.place
        return SettledCluster(
            brokers=dict(place.racks),
            topics={
                topic: tuple(SettledPartition(leader=replicas[0], replicas=replicas) for replicas in partitions)
                for topic, partitions in place.topics.items()
            },
        )


def _assignment(group: Group, member_id: str) -> bytes:
    member = group.members.get(member_id)
    return member.assignment if member is not None else b""
