"""One group with its coordinator, clients, agents and cluster, and everything that can happen to them.

Each event is one method; between two of them time passes. What must hold: `tests.simulator.invariants`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Final
from uuid import UUID

from tests.simulator.agent import GROUP
from tests.simulator.commits import Commits
from tests.simulator.consumers import KAFKA_GO, KAFKAJS, KINDS, PLATFORMATIC, SAMSA, Consumer
from tests.simulator.coordinator import Coordinator
from tests.simulator.group import Error, GroupMember, State
from tests.simulator.invariants import AGENT_SESSION_MS, Invariants
from tests.simulator.leadership import SimulatedElection
from tests.simulator.network import LATENCY_MS, Network, Trouble
from tests.simulator.place import RACKS, Place
from tests.simulator.supervised import START_MS, SupervisedAgent
from tests.simulator.timeline import Action, Timeline

TOPIC: Final = "t"
FOREIGN: Final = "mine"  # a protocol that agents do not offer
_OF_ONE_KIND: Final = {"kafka-go": KAFKA_GO, "kafkajs": KAFKAJS, "platformatic": PLATFORMATIC, "samsa": SAMSA}
_MAX_TOPICS: Final = 4
_TURN_MS: Final = 500
_QUIET_TURNS: Final = 12
_PATIENCE_MS: Final = 150_000
_CONVERSION_MS: Final = 5000
_LOST_MS: Final = 6000
_COMMIT_MS: Final = (5000, 1000, 0)
"""The intervals at which all clients of a world commit, by its seed; 0: never."""
STEPS: Final = ("join-sent", "join-answered", "sync-sent", "synced", "reserved", "released", "reset")


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """The start conditions of a story."""

    seed: int = 0  # for ids and durations
    protocol: str = "range"  # the group's protocol
    partitions: int = 6  # the number of partitions of the topic
    agents: int = 1  # the number of agents: 1, or 2 that elect one of them
    strangers: bool = False  # whether the second agent has its own instance id and no election, as by mistake
    forbidden: bool = False  # whether the group is one that the agent may not join: kafka-python with roundrobin
    initial_delay_ms: int = 0  # `group.initial.rebalance.delay.ms` of the brokers
    max_size: int = 0  # `group.max.size`; 0 if there is no limit
    record_limit: int | None = None  # bytes of the group's record that brokers write; None if there is no limit
    patterns: bool = False  # whether clients subscribe by pattern, and so find new topics
    plan_ms: int = 0  # how long an agent's plan takes
    metadata_ms: int = 0  # how long the metadata request takes that a plan waits for
    clients: str = "any"  # the kind of all clients: any, or one of _OF_ONE_KIND
    agent_first: bool = True  # whether the agent joins the group first, and so leads it
    clean: bool = False  # whether the agent takes over the lead of eager groups without waiting (`leading.takeover`)


class World:
    """One simulated world."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.random = Random(setting.seed)  # noqa: S311 - a story is reproducible
        self.timeline = Timeline()
        self.place = Place()
        self.place.topics[TOPIC] = [self._replicas(number) for number in range(setting.partitions)]
        delay = setting.initial_delay_ms
        self.coordinator = Coordinator(self.timeline, new_id=self._new_id, initial_delay_ms=delay)
        self.coordinator.max_size = setting.max_size
        self.coordinator.record_limit = setting.record_limit
        self.network = Network(self.timeline, self.coordinator)
        self.consumers: list[Consumer] = []
        self.commits = Commits(self, _COMMIT_MS[setting.seed % len(_COMMIT_MS)])
        self.network.commits = self.commits.latest
        self.faults = False  # whether requests or clients have been disturbed
        self.invariants = Invariants(self)
        self.coordinator.too_large = self.invariants.too_large
        self.coordinator.refused = self.invariants.guest.refused
        self.coordinator.full = self.invariants.guest.refused_as_full
        elected = setting.agents > 1 and not setting.strangers
        self.election = SimulatedElection(self.timeline, GROUP) if elected else None
        self.agents = [SupervisedAgent(self, number) for number in range(setting.agents)]
        self._names = 0
        self._foreign_since: int | None = None
        self.timeline.after(0, self._check)

    def close(self) -> None:
        """Kill all agent processes."""
        for agent in self.agents:
            agent.wanted = False
            if agent.process is not None:
                agent.process.kill()

    # time

    def wait(self, milliseconds: int) -> None:
        """Let time pass."""
        self.timeline.run(milliseconds)
        self.invariants.deliver()

    def settle(self) -> None:
        """Let time pass until nothing changes any more, then check what must hold at rest."""
        quiet = 0
        waited = 0
        seen: tuple[object, ...] = ()
        while quiet < _QUIET_TURNS:
            self.wait(_TURN_MS)
            waited += _TURN_MS
            now = self._signature()
            quiet = quiet + 1 if now == seen and self.at_rest() else 0
            seen = now
            if waited > _PATIENCE_MS + self.invariants.excused_ms():
                self.invariants.never_settles(self.unrest())
        self.invariants.settled()

    def sleep(self, milliseconds: int) -> None:
        """Settle, then let hours pass in which nothing happens."""
        self.settle()
        left = milliseconds
        while left > 0:
            left -= self.timeline.leap(left)
            self.settle()
            left -= _TURN_MS * _QUIET_TURNS
        self.invariants.settled(rested=True)

    def at_rest(self) -> bool:
        """Whether all clients and agents are where they should be, and the group is stable or empty."""
        return not self.unrest()

    def unrest(self) -> str:
        """The first reason why the world is not at rest; empty if it is."""
        group = self.coordinator.group
        if not self.network.available or self.network.outdated is not None:
            return "the coordinator moves"
        for agent in self.agents:
            if not agent.at_work or agent.waits:
                return f"{agent.name} " + ("waits for signs of life" if agent.waits else "is not where it should be")
        for one in self.consumers:
            if one.host.alive and (one.host.stopped or not one.stable):
                return f"{one.name} is not in the group"
            if one.host.alive and (one.topics != one.joined_topics or one.plan_is_outdated):
                return f"{one.name} finds that topics have changed"
        if self.coordinator.converted:
            return "a classic member is in the converted group"
        if group is None:
            return ""
        if group.state not in (State.STABLE, State.EMPTY) or group.pending:
            return f"the group is in {group.state.name} with {len(group.pending)} pending ids"
        gone = self._gone()
        return f"{gone[0].client_id} is in the group and gone" if gone else ""

    def _gone(self) -> list[GroupMember]:
        """Members of the group that no longer run, also those that left and that a moved coordinator still has."""
        living = {one.member_id for one in self.consumers if one.host.alive}
        living |= {one for agent in self.agents for one in agent.ids()}
        group = self.coordinator.group
        return [member for member in group.members if member.id not in living] if group is not None else []

    # what can happen to clients

    def join(self, kind: str, rack: str) -> None:
        """A client starts and joins."""
        self._names += 1
        if self.coordinator.converted_at is not None:
            return  # a client of the new protocol: brokers do everything
        one_kind = _OF_ONE_KIND.get(self.setting.clients)
        if one_kind is not None:
            kind = self.setting.clients
        elif self.setting.forbidden:
            kind = "kafka-python"
        elif self.setting.protocol == "cooperative-sticky" and KINDS[kind].version == 0:
            kind = "java"  # a client that rebalances incrementally reports its owned partitions
        protocol = "roundrobin" if self.setting.forbidden else self.setting.protocol
        if one_kind is not None:
            protocol = {"kafkajs": "RoundRobinAssigner", "samsa": "roundrobin", "platformatic": "sticky"}.get(
                kind, "range"
            )
        if self._foreign():
            protocol = FOREIGN
        java = kind == "java" and protocol == "range"
        consumer = Consumer(
            self,
            f"{kind}-{self._names}-{rack}",
            one_kind or KINDS[kind],
            rack=rack,
            topics=tuple(self.place.topics) if self.setting.patterns else (TOPIC,),
            protocols=(protocol, "cooperative-sticky") if java else (protocol,),
        )
        self.consumers.append(consumer)
        self.invariants.excuse(f"{consumer.name} joins", self.slowest_ms())
        consumer.start()

    def leave(self, number: int) -> None:
        """A client leaves; a static one sends no LeaveGroup, and one without a member id cannot send it."""
        if (one := self._living(number)) is not None:
            unheard = one.kind.static or not one.stable or not self.network.available
            session = one.kind.session_ms if unheard else 0
            self.invariants.excuse(f"{one.name} leaves", self.slowest_ms() + session)
            self.invariants.goes_away(one)
            one.leave()
            self.wait(2 * LATENCY_MS)

    def redeploy(self, number: int, milliseconds: int) -> None:
        """A client leaves, and comes again after a while, as in a deploy."""
        if (one := self._living(number)) is not None:
            kind, _, rack = one.name.rsplit("-", 2)
            self.leave(number)
            self.wait(milliseconds)
            self.join(kind, rack)

    def fill(self, milliseconds: int) -> None:
        """Clients come one after the other until the group is as large as it may be (`group.max.size`)."""
        for _ in range(self.setting.max_size - sum(one.host.alive for one in self.consumers)):
            self.join("java", RACKS[self._names % len(RACKS)])
            self.wait(milliseconds)

    def crash(self, number: int) -> None:
        """A client is killed."""
        if (one := self._living(number)) is not None:
            self.invariants.excuse(f"{one.name} crashes", self.slowest_ms() + one.kind.session_ms)
            self.invariants.goes_away(one)
            one.crash()

    def restart(self, number: int, milliseconds: int, rack: str) -> None:
        """A static client restarts, and is back under its instance id after a while, maybe in another rack."""
        one = self._living(number)
        if one is None or not one.kind.static or self.setting.clients != "any":
            return
        self.invariants.excuse(f"{one.name} restarts", self.slowest_ms() + milliseconds + one.kind.session_ms)
        self.invariants.goes_away(one)
        one.crash()
        self._names += 1
        again = Consumer(
            self,
            f"static-{self._names}-{rack}",
            one.kind,
            rack=rack,
            topics=one.topics,
            protocols=one.protocols,
            instance=one.instance or "",
        )

        def back() -> None:
            if self.coordinator.converted_at is None and not self._foreign():
                self.consumers.append(again)
                self.invariants.returns(again, one)
                again.start()

        self.timeline.after(milliseconds, back)

    def pause(self, number: int, milliseconds: int) -> None:
        """A client is suspended for a while."""
        if (one := self._living(number)) is not None and not one.host.stopped:
            self.invariants.excuse(f"{one.name} stops", self.slowest_ms() + milliseconds + one.kind.session_ms)
            self.invariants.goes_away(one)
            self.commits.keep(one)
            one.host.stop()
            self.timeline.after(milliseconds, one.host.go_on)

    def change_application(self, milliseconds: int) -> None:
        """All clients leave, and after a while another application starts, with a protocol that agents do not offer."""
        kinds = [(one.kind.static, one.name.rpartition("-")[2]) for one in self.consumers if one.host.alive]
        if self.setting.clients != "any" or any(static for static, _ in kinds) or not kinds:
            return
        while self._living(0) is not None:
            self.leave(0)
        self.wait(milliseconds)
        self._foreign_since = self.timeline.now
        for _, rack in kinds:
            self.join("java", rack)

    def end_application(self) -> None:
        """The other application stops, and the first one may start again."""
        while self._foreign() and self._living(0) is not None:
            self.leave(0)
        self._foreign_since = None

    def create_topic(self, milliseconds: int) -> None:
        """A topic is created; clients with patterns find it one after the other."""
        if not self.setting.patterns or len(self.place.topics) >= _MAX_TOPICS:
            return
        topic = next(name for name in (TOPIC, "t1", "t2", "t3") if name not in self.place.topics)
        self._create(topic, 3, milliseconds)

    def delete_topic(self, number: int, milliseconds: int, partitions: int) -> None:
        """A topic is deleted, and after a while created again with as many partitions as given; with 0 it is not."""
        topics = sorted(self.place.topics)
        if len(topics) <= int(self.setting.patterns):  # a pattern that matches nothing is another story
            return
        topic = topics[number % len(topics)]
        del self.place.topics[topic]
        self._notice(topic, f"{topic} is deleted", milliseconds)

        def create() -> None:
            if partitions and topic not in self.place.topics:
                self._create(topic, partitions, milliseconds)

        self.timeline.after(milliseconds, create)

    def _create(self, topic: str, partitions: int, milliseconds: int) -> None:
        self.place.topics[topic] = [self._replicas(number) for number in range(partitions)]
        self._notice(topic, f"{topic} is created", milliseconds)

    def _notice(self, topic: str, what: str, milliseconds: int) -> None:
        """Clients with patterns notice it one after the other, within this time."""
        self.invariants.excuse(what, milliseconds + 2 * self.slowest_ms())
        for one in self.consumers:
            if one.host.alive and self.setting.patterns:
                one.host.later(self.random.randrange(milliseconds), partial(one.finds, topic))
        self.place.changed()

    def keep_revoked(self, number: int, milliseconds: int) -> None:
        """A cooperative client keeps its revoked partitions for a while."""
        if (one := self._living(number)) is not None and one.cooperative:
            self.faults = True
            one.keeps_until = self.timeline.now + milliseconds
            self.invariants.excuse(f"{one.name} keeps what is revoked", milliseconds + self.slowest_ms())

    def convert(self) -> None:
        """All clients crash and a member of the new protocol joins: brokers assign the group from now on."""
        if self.coordinator.converted_at is None and self.network.available and not self._foreign():
            for one in [one for one in self.consumers if one.host.alive]:
                one.crash()
            self.wait(2 * LATENCY_MS)  # what they have sent belongs to the classic group
            self.coordinator.convert()
            self.invariants.excuse("the group is converted", _CONVERSION_MS)

    def revert(self) -> None:
        """Clients of the new protocol end; there is no group any more."""
        if self.coordinator.converted_at is not None:
            self.coordinator.revert()
            self.invariants.excuse("the group is classic again", _CONVERSION_MS)

    # what can happen to agents

    def refuse(self, name: str, error: Error, milliseconds: int, times: int) -> None:
        """Brokers answer requests of agents with an error, without effect."""
        self.faults = True
        until = self.timeline.now + milliseconds
        self.network.troubles.append(Trouble(name=name, error=error, until=until, times=times))
        cost = milliseconds + AGENT_SESSION_MS + self.slowest_ms()
        self.invariants.excuse(f"{times} {name} in {milliseconds} ms are answered {error.name}", cost)

    def lose_answers(self, name: str, times: int, *, before: bool) -> None:
        """Connections of agents break instead of an answer, before or after the request takes effect."""
        self.faults = True
        until = self.timeline.now + _LOST_MS
        self.network.troubles.append(Trouble(name=name, lost=True, before=before, until=until, times=times))
        self.invariants.excuse(
            f"{times} answers to {name} are lost, before={before}", _LOST_MS + AGENT_SESSION_MS + self.slowest_ms()
        )

    def start_agent(self, number: int) -> None:
        """An agent is started."""
        agent = self.agents[number % len(self.agents)]
        if not agent.wanted:
            self.invariants.excuse(f"{agent.name} starts", START_MS + self.slowest_ms())
        agent.start()

    def stop_agent(self, number: int, step: str = "") -> None:
        """An agent is asked to stop, at once or at its next such step."""
        agent = self.agents[number % len(self.agents)]

        def stop() -> None:
            if agent.wanted:
                self.invariants.stops(agent)
                agent.stop()

        if step:
            agent.arm(step, self._soon(stop))
        else:
            stop()

    def kill_agent(self, number: int, step: str = "") -> None:
        """An agent's process is killed, at once or at its next such step."""
        agent = self.agents[number % len(self.agents)]
        if step:
            agent.arm(step, agent.kill)
        else:
            agent.kill()

    def freeze_agent(self, number: int, milliseconds: int, *, whole: bool, step: str = "") -> None:
        """An agent is suspended for a while, now or at its next such step, and with `whole` its supervisor too."""
        agent = self.agents[number % len(self.agents)]

        def freeze() -> None:
            if agent.up:
                self.invariants.freezes(agent, milliseconds, whole=whole)
                agent.freeze(milliseconds, whole=whole)

        if step:
            agent.arm(step, self._soon(freeze))
        else:
            freeze()

    def remove_agent(self, number: int) -> None:
        """An operator removes an agent's member from the group."""
        agent, group = self.agents[number % len(self.agents)], self.coordinator.group
        for one in [one for one in group.members if one.id in agent.ids()] if group is not None else []:
            self.invariants.excuse(f"{agent.name} is removed from the group", self.slowest_ms())
            self.coordinator.leave([(one.id, one.instance_id)])

    def elect_other(self) -> None:
        """The agents elect another of them."""
        if self.election is not None:
            self.invariants.excuse("another agent is elected", self.slowest_ms())
            self.election.elect(other=True)

    # what can happen to the cluster

    def move_coordinator(self, milliseconds: int, *, outdated: bool) -> None:
        """Another broker coordinates the group after a while; with `outdated`, it first describes a former state."""
        if not self.network.available:
            return
        self.invariants.excuse("the coordinator moves", milliseconds + self.slowest_ms() + 2000)
        self.network.available = False
        self.network.broker = 1 + self.network.broker % len(self.place.racks)
        before = self.invariants.former
        self.coordinator.unload()

        def load() -> None:
            self.coordinator.load()
            self.network.available = True
            sessions = [member.session_ms for member in self._gone()]
            self.invariants.excuse("the group has a coordinator again", max(sessions, default=0))
            if outdated and before is not None:
                self.network.outdated = before
                self.timeline.after(1500, up_to_date)

        def up_to_date() -> None:
            self.network.outdated, self.network.up_to_date_at = None, self.timeline.now
            # an agent that believed it may have joined an empty group, and sees this only after its first rebalance
            cost = self.coordinator.initial_delay_ms + self.setting.plan_ms
            self.invariants.excuse("the coordinator is up to date", cost)

        self.timeline.after(milliseconds, load)

    def move_coordinator_at(self, number: int, step: str, milliseconds: int) -> None:
        """Another broker coordinates the group after an agent's next such step."""
        move = partial(self.move_coordinator, milliseconds, outdated=False)
        self.agents[number % len(self.agents)].arm(step, self._soon(move))

    def bounce_broker(self, number: int, milliseconds: int) -> None:
        """A broker is down for a while."""
        broker = 1 + number % len(self.place.racks)
        self.place.absent.add(broker)
        self.place.changed()

        def back() -> None:
            self.place.absent.discard(broker)
            self.place.changed()

        self.timeline.after(milliseconds, back)

    def move_rack(self, number: int, rack: str) -> None:
        """A broker moves to another rack."""
        self.place.racks[1 + number % len(self.place.racks)] = rack
        self._cluster_changes()

    def restless_racks(self, times: int, milliseconds: int) -> None:
        """Brokers swap racks again and again."""
        for turn in range(times):
            racks = self.place.racks
            racks[1], racks[2 + turn % 2] = racks[2 + turn % 2], racks[1]
            self._cluster_changes()
            self.wait(milliseconds)

    def move_replica(self, number: int, broker: int) -> None:
        """A partition is moved to another broker."""
        if partitions := self.place.topics.get(TOPIC):
            partitions[number % len(partitions)] = (1 + broker % len(self.place.racks),)
            self._cluster_changes()

    def add_partitions(self, count: int) -> None:
        """The topic gets more partitions."""
        partitions = self.place.topics.get(TOPIC)
        if partitions and len(partitions) + count <= 24:
            partitions += [self._replicas(len(partitions) + number) for number in range(count)]
            self._cluster_changes()

    def show_stale(self, polls: int) -> None:
        """Every second metadata request goes to a broker that reports fewer partitions."""
        self.place.show_stale(polls)
        self.place.changed()

    def hide_cluster(self, milliseconds: int) -> None:
        """Metadata requests fail for a while."""
        self.place.hidden = True

        def show() -> None:
            self.place.hidden = False

        self.timeline.after(milliseconds, show)

    # inside

    def slowest_ms(self) -> int:
        """How long the slowest client takes to notice a rebalance."""
        kinds = [one.kind for one in self.consumers if one.host.alive]
        return max((kind.heartbeat_ms + kind.poll_ms for kind in kinds), default=0)

    def _soon(self, action: Action) -> Action:
        """Return an action that runs `action` after the current code has returned."""

        def soon() -> None:
            self.timeline.after(0, action)

        return soon

    def _cluster_changes(self) -> None:
        self.invariants.excuse("the cluster changes", self.slowest_ms())
        self.place.changed()

    def _foreign(self) -> bool:
        """Whether another application uses the group."""
        return self._foreign_since is not None

    def _living(self, number: int) -> Consumer | None:
        living = [one for one in self.consumers if one.host.alive]
        return living[number % len(living)] if living else None

    def _replicas(self, number: int) -> tuple[int, ...]:
        return (1 + (number * 2 + self.setting.seed) % len(RACKS),)

    def _new_id(self, begin: str) -> str:
        return f"{begin}-{UUID(int=self.random.getrandbits(128), version=4)}"

    def _signature(self) -> tuple[object, ...]:
        group = self.coordinator.group
        roles: Sequence[object] = [agent.leader and agent.process for agent in self.agents]
        return (group and (group.generation, group.state, group.leader, len(group.members)), *roles)

    def _check(self) -> None:
        """Check the group at intervals, so that anything that lasts too long is found while it lasts."""
        self.invariants.check()
        self.timeline.after(_TURN_MS, partial(self._check), repeats=True)
