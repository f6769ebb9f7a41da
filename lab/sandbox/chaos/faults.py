"""All kinds of faults, and schedules of them: the same with agents and without.

Agents are hit at rest, and at each step of a rebalance. Members and brokers are hit with agents and without. Those in
which all consumers of a group leave are in `faults_emptied`.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import Final

from lab.sandbox.admin import wait_until
from lab.sandbox.chaos.agents import FULL, Agent
from lab.sandbox.chaos.fault import HITS, Drawn, Fault, Inject, Kind
from lab.sandbox.chaos.faults_emptied import EMPTIED
from lab.sandbox.chaos.means import BENT, Means, bend, empty, fill
from lab.sandbox.chaos.setup import MemberSpec
from lab.sandbox.chaos.world import World
from lab.sandbox.errors import SandboxError

_Hit = Callable[[Fault, Agent], object]
_SHORT_SECONDS: Final = 2.0
"""Less than the session of an agent or a member."""
_BEYOND_SESSION_SECONDS: Final = 7.5
_REPLACED_SECONDS: Final = 20.0
_PARKED_SECONDS: Final = 0.8
"""An agent's heartbeat is half a second away at most."""
_PLAN_SECONDS: Final = 10.0
_AWAY_SECONDS: Final = 1.0
_FOLLOW_SECONDS: Final = 6.0
"""An agent waits a second until it trusts a move, then for a commit of each member, and then rebalances the group."""
_PICKS: Final = 60
"""Divisible by every number of members, brokers and partitions, so that each is equally likely."""


def _at_rest(title: str, hit: _Hit) -> Kind:
    """Return a kind of fault that hits the agent that is in the group."""

    def inject(fault: Fault) -> None:
        agent = fault.agent()
        if agent is not None:
            # groups with the agent as dynamic member, as with sticky assignors, rebalance without it
            fault.explains = frozenset(name for name, group in fault.world.groups.items() if group.has_dynamic_agent())
            hit(fault, agent)

    return Kind(title=title, inject=inject, like="nothing", on_agents=True)


def _worker_stopped(_fault: Fault, agent: Agent) -> None:
    """Stop the worker for good: its supervisor detects that it hangs, and replace it."""
    stopped = agent.worker()
    HITS["pause"](agent)
    wait_until(lambda: agent.worker() != stopped, "the supervisor has replaced its worker", timeout=_REPLACED_SECONDS)


def _agent_killed(fault: Fault, agent: Agent) -> None:
    HITS["agent"](agent)
    fault.hand_over(agent)


def _agent_ended(fault: Fault, agent: Agent) -> None:
    # a group that it leaves before the other agent is ready rebalances without a report
    fault.explains = frozenset(fault.world.groups)
    HITS["ended"](agent)
    fault.hand_over(agent)


def _shortly(_fault: Fault, _agent: Agent) -> None:
    """Wait for less than the agent's session: no other agent must take over."""
    time.sleep(_SHORT_SECONDS)


def _stopped(wait: _Hit) -> _Hit:
    """Stop supervisor and worker for a time; afterwards they go on, maybe with an old generation."""

    def hit(fault: Fault, agent: Agent) -> None:
        fault.healing.callback(agent.resume)
        agent.process.pause()
        wait(fault, agent)

    return hit


def _cut_off(wait: _Hit) -> _Hit:
    """Drop what the agent sends for a time."""

    def hit(fault: Fault, agent: Agent) -> None:
        number = fault.agents.all.index(agent)
        fault.healing.callback(fault.world.network.mend, number)
        fault.world.network.cut(number)
        wait(fault, agent)

    return hit


def _clock_jumps(seconds: int) -> _Hit:
    """Change the clock as when a machine synchronises with its time server, and changes it back."""

    def hit(fault: Fault, agent: Agent) -> None:
        bent = fault.agents.all[BENT]
        if agent is not bent:
            agent.process.stop()  # the agent with the adjustable clock takes over
            fault.agents.wait_roles(bent)
        fault.target = f"agent {bent.name}"
        fault.healing.callback(bend, fault.world.folder, 0)
        bend(fault.world.folder, seconds)
        time.sleep(_SHORT_SECONDS)

    return hit


def _disk_full(fault: Fault, agent: Agent) -> None:
    """Fill the disk of the agent's events, and kill the worker, so that a new one must start with a full disk."""
    fault.healing.callback(empty, fault.world.folder, agent)
    fill(fault.world.folder, agent)
    time.sleep(_SHORT_SECONDS / 2)
    HITS["worker"](agent)
    time.sleep(_SHORT_SECONDS)


def _in_rebalance(step: str, hit: Callable[[Agent], object]) -> Inject:
    """Return a fault that rebalances the group, and hit its agent at a step: `parked`, `joined` or `synced`.

    A stopped member keeps the group waiting in JoinGroup while the extra member joins or leaves; the agent parks there
    after its next heartbeat. For the second step the agent's requests are dropped from then on: it gets the answer to
    JoinGroup, but its SyncGroup never arrives, so the group waits for the plan until the agent is hit. The third step
    starts when the agent logs that its plan was sent. Without agents the group has the same rebalance, and one without
    room for the agent (`group.max.size`): that agent is hit while it leaves or stays out.
    """

    def inject(fault: Fault) -> None:
        group, network = fault.group, fault.world.network
        fault.explains = frozenset({group.name})
        slow, agent = fault.any_member(), fault.agent()
        role = "" if agent is None else agent.roles()[group.name]
        if agent is not None and role not in ("leading", FULL):
            raise SandboxError(f"agent {agent.name} does not lead {group.name}, so that it cannot be hit in that")
        number = 0 if agent is None else fault.agents.all.index(agent)
        logged = 0 if agent is None else len(agent.logged())
        fault.healing.callback(network.mend, number)
        fault.healing.callback(group.resume, slow)
        group.pause(slow)
        comes = group.come_or_go()
        fault.target = f"{fault.target or group.name}, {group.extra.name} {comes}"
        group.wait_state(("PREPARING_REBALANCING",), "it waits in JoinGroup")
        time.sleep(_PARKED_SECONDS)
        at_once = step == "parked" or role == FULL or not fault.world.has_room(group)
        if agent is not None and at_once:
            hit(agent)
        if agent is not None and not at_once and step == "joined":
            network.cut(number)
        group.resume(slow)
        if agent is None or at_once:
            return
        if step == "joined":
            group.wait_state(("COMPLETING_REBALANCING",), "it waits for the plan")
            network.discard(agent.worker())  # its SyncGroup, which the kernel would send again, must never arrive
            hit(agent)
            network.mend(number)
        else:
            wait_until(
                lambda: any(
                    event.get("event") == "plan-sent" and event.get("group") == group.name
                    for event in agent.logged(logged)
                ),
                "the plan is sent",
                timeout=_PLAN_SECONDS,
                pause=0.005,
            )
            hit(agent)

    return inject


_STEPS: Final = {"parked": "in JoinGroup", "joined": "between JoinGroup and SyncGroup", "synced": "after SyncGroup"}
_VICTIMS: Final = {"worker": "worker killed", "agent": "supervisor and worker killed", "pause": "worker stopped"}


def _on_member(title: str, hit: Callable[[Fault, MemberSpec], object]) -> Kind:
    def inject(fault: Fault) -> None:
        fault.explains = frozenset({fault.group.name})
        spec = fault.any_member()
        fault.target = spec.name
        hit(fault, spec)

    return Kind(title=title, inject=inject)


def _comes_or_goes(fault: Fault, _spec: MemberSpec) -> None:
    comes = fault.group.come_or_go()
    fault.target = f"{fault.group.extra.name} {comes}"


def _member_stopped(seconds: float) -> Callable[[Fault, MemberSpec], object]:
    """Stop the member; beyond its session the group removes it, and it continues with an old generation."""

    def hit(fault: Fault, spec: MemberSpec) -> None:
        fault.healing.callback(fault.group.resume, spec)
        fault.group.pause(spec)
        time.sleep(seconds)

    return hit


def _broker_away(choose: Callable[[Fault], int], *, kill: bool) -> Inject:
    """Return a fault that stops a broker for a second, as in an update or, killed, as when its machine fails."""

    def inject(fault: Fault) -> None:
        broker = choose(fault)
        fault.target = f"broker {broker}"
        fault.healing.callback(_start_broker, fault.world, broker)
        fault.world.cluster.stop_broker(broker, kill=kill)
        time.sleep(_AWAY_SECONDS)

    return inject


def _start_broker(world: World, broker: int) -> None:
    """Start the broker and elect it leader of its partitions again; those of offsets decide who coordinates."""
    if not world.cluster.brokers[broker].running:
        world.cluster.start_broker(broker)
    wait_until(world.replicated, "all replicas are in sync", timeout=60)
    world.admin.elect_leaders(world.admin.replicas([*world.groups, "__consumer_offsets"]))


def _coordinator_moved(fault: Fault) -> None:
    """Give each `__consumer_offsets` partition that the group's coordinator leads another leader: no broker stops."""
    admin, before = fault.world.admin, fault.group.coordinator()
    placed = admin.replicas(["__consumer_offsets"])
    moved = {
        partition: [*(broker for broker in found.replicas if broker != before), before]
        for partition, found in placed.items()
        if found.leader == before
    }
    admin.move_replicas(moved)
    fault.target = f"from broker {before} to {fault.group.coordinator()}"


def _replicas_moved(fault: Fault) -> None:
    """Move a partition to the broker without a replica, which becomes its leader."""
    admin = fault.world.admin
    partition, found = fault.pick(sorted(admin.replicas([fault.group.name]).items()))
    (spare,) = fault.world.cluster.brokers.keys() - set(found.replicas)
    moved = [spare, found.replicas[0]]
    admin.move_replicas({partition: moved})
    time.sleep(_FOLLOW_SECONDS)
    fault.target = f"{partition[0]}-{partition[1]} from {list(found.replicas)} to {moved}"


def _moved_while_away(fault: Fault, spec: MemberSpec) -> None:
    """Kill the member, and move replicas while its session lasts: who rebalances then stops all others too."""
    fault.group.end(spec, kill=True)
    fault.healing.callback(fault.group.start, spec)
    _replicas_moved(fault)
    fault.target = f"{spec.name}, {fault.target}"
    time.sleep(_BEYOND_SESSION_SECONDS - _FOLLOW_SECONDS)


KINDS: Final[Mapping[str, Kind]] = {
    "worker-killed": _at_rest("worker killed", lambda _fault, agent: HITS["worker"](agent)),
    "worker-stopped": _at_rest("worker stopped for good", _worker_stopped),
    "agent-killed": _at_rest("supervisor and worker killed", _agent_killed),
    "agent-ended": _at_rest("agent ended with SIGTERM", _agent_ended),
    "agent-stopped-short": _at_rest("agent stopped for two seconds", _stopped(_shortly)),
    "agent-stopped-long": _at_rest("agent stopped until the other takes over", _stopped(Fault.hand_over)),
    "network-cut-short": _at_rest("agent's network cut for two seconds", _cut_off(_shortly)),
    "network-cut-long": _at_rest("agent's network cut until the other takes over", _cut_off(Fault.hand_over)),
    "clock-forward": _at_rest("agent's clock jumps an hour ahead, and back", _clock_jumps(3600)),
    "clock-back": _at_rest("agent's clock jumps an hour back, and forth", _clock_jumps(-3600)),
    "disk-full": _at_rest("agent's disk full, then its worker killed", _disk_full),
    **{
        f"{step}-{victim}": Kind(
            title=f"{what} {when}", inject=_in_rebalance(step, HITS[victim]), like="rebalance with a slow member"
        )
        for step, when in _STEPS.items()
        for victim, what in _VICTIMS.items()
    },
    "member-comes-or-goes": _on_member("member joins, or leaves in good order", _comes_or_goes),
    "member-redeployed": _on_member("member restarted in good order", lambda fault, spec: fault.group.redeploy(spec)),
    "member-killed": _on_member(
        "member killed and started again", lambda fault, spec: fault.group.redeploy(spec, kill=True)
    ),
    "member-away": _on_member("member killed, then replicas of a partition moved", _moved_while_away),
    "member-stopped-short": _on_member("member stopped for two seconds", _member_stopped(_SHORT_SECONDS)),
    "member-stopped-long": _on_member("member stopped beyond its session", _member_stopped(_BEYOND_SESSION_SECONDS)),
    **{
        f"{broker}-{what}": Kind(
            title=f"{who} {how} and started", inject=_broker_away(choose, kill=what == "killed"), like=f"broker-{what}"
        )
        for broker, who, choose in (
            ("broker", "broker", lambda fault: fault.pick(sorted(fault.world.cluster.brokers))),
            ("coordinator", "the group's coordinator", lambda fault: fault.group.coordinator()),
        )
        for what, how in (("restarted", "stopped"), ("killed", "killed"))
    },
    "coordinator-moved": Kind(title="the group's coordinator moved to another broker", inject=_coordinator_moved),
    "replicas-moved": Kind(title="replicas of a partition moved to other racks", inject=_replicas_moved),
    **EMPTIED,
}


def possible(means: Means) -> list[str]:
    """Return the kinds that are possible on this machine."""
    return [name for name in KINDS if not name.startswith(tuple(chain(*means.missing())))]


def draw(seed: int, *, faults: int, kinds: Sequence[str], groups: Sequence[str]) -> list[Drawn]:
    """Return a schedule: all kinds in rounds, each round in a new random order, so that no kind is absent for long."""
    unknown = sorted(set(kinds) - KINDS.keys())
    if unknown or not kinds:
        raise SandboxError(
            f"no such kind of fault: {', '.join(unknown) or '(none given)'}; there are {', '.join(KINDS)}"
        )
    chance = random.Random(seed)  # noqa: S311 - chance that can be repeated
    drawn: list[Drawn] = []
    while len(drawn) < faults:
        drawn += [
            Drawn(number=number, kind=kind, group=chance.choice(list(groups)), pick=chance.randrange(_PICKS))
            for number, kind in enumerate(chance.sample(list(kinds), len(kinds)), len(drawn) + 1)
        ]
    return drawn[:faults]
