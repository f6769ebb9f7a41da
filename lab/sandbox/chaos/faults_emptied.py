"""Faults in which all consumers of a group leave and return: an agent must not affect the empty group.

With a healthy agent, two seconds after its last consumer has left the group must be as without an agent: empty, with
all offsets, open to tools and to any protocol. If the agent is hit meanwhile, the group may take until the agent, its
successor or the end of its session empties it. A stop counts from the restart of the consumers.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import wait
from typing import Final

from lab.sandbox.chaos import guests
from lab.sandbox.chaos.fault import HITS, Fault, Inject, Kind
from lab.sandbox.chaos.group import Group, now_ns
from lab.sandbox.chaos.setup import IDLE, MemberSpec
from lab.sandbox.errors import SandboxError

_SESSION_SECONDS: Final = 9.0
"""`leading.session_timeout_seconds`: brokers keep an agent that was killed with its supervisor for this time."""
_EMPTY_SECONDS: Final[Mapping[str, float]] = {
    "": guests.TOOL_SECONDS,
    "worker": 5.0,  # its supervisor replaces it within two seconds
    "pause": 6.0,  # a second later
    "ended": 6.0,  # SIGTERM may take five
    "agent": _SESSION_SECONDS + 2.0,
}
"""Seconds in which a group must be empty after its last consumer has left, by what happened to the agent meanwhile."""
_MOMENTS: Final = (0.0, 0.2, 0.5)
"""Seconds between the consumers' SIGTERM and the hit on the agent: before, while and after it sees them leave."""
_START_SECONDS: Final = 30.0
_FOREIGN_ASSIGNOR: Final = "homegrown"
"""An assignor from tests/java/consumer, which agents do not offer."""


def _empty(fault: Fault, groups: Sequence[Group], *, kill: bool = False, victim: str = "") -> float:
    """End all consumers of these groups, and hit the agent meanwhile; return when the last of them had left."""
    agent = fault.agent() if victim else None
    fault.explains = frozenset(group.name for group in groups)
    fault.healing.callback(_come_back, fault, {group: list(group.present) for group in groups})
    leaving = [future for group in groups for future in group.leave(kill=kill)]
    if agent is not None:
        time.sleep(fault.pick(_MOMENTS))
        HITS[victim](agent)
    wait(leaving)
    for group in groups:
        guests.wait_without_consumers(group)  # a killed consumer is removed after its session
    return time.monotonic()


def _come_back(fault: Fault, gone: Mapping[Group, Sequence[MemberSpec]]) -> None:
    for group, specs in gone.items():
        fault.counts_from[group.name] = now_ns()
        for spec in specs:
            if spec not in group.present:
                group.start(spec)


def _check(fault: Fault, groups: Sequence[Group], left: float, *, victim: str = "") -> None:
    """Check that groups are as without agents, whose last consumer left at this time of the monotonic clock."""
    if not victim:
        time.sleep(max(0.0, left + guests.TOOL_SECONDS - time.monotonic()))
    for group in groups:
        fault.violations += guests.check(group, left, seconds=_EMPTY_SECONDS[victim])


def _emptied(*, kill: bool = False, victim: str = "") -> Inject:
    def inject(fault: Fault) -> None:
        groups = [fault.group]
        _check(fault, groups, _empty(fault, groups, kill=kill, victim=victim), victim=victim)

    return inject


def _scaled_to_zero(fault: Fault) -> None:
    """Empty also the idle group, whose commits are older than brokers keep, and delete it, as tools do."""
    idle = fault.world.groups[IDLE.name]
    groups = [fault.group, idle]
    _check(fault, groups, _empty(fault, groups))
    fault.violations += guests.delete(idle)


def _foreign_starts(fault: Fault) -> None:
    """Start an application with another protocol as soon as the group is empty, and end it when it owns all."""
    group = fault.group
    left = _empty(fault, [group])
    spec = MemberSpec(client="java", rack=group.extra.rack, number=group.extra.number + 1)
    member = group.start(spec, assignor=_FOREIGN_ASSIGNOR)
    try:
        member.wait(lambda: len(member.owned) == len(group.setup.placed), "it owns all", timeout=_START_SECONDS)
    except SandboxError as error:
        fault.violations.append(f"{spec.name} does not start in {group.name}: {error}; {group.described()}")
    fault.target = f"{group.name}, {spec.name} after {time.monotonic() - left:.1f} s"
    group.end(spec)
    _check(fault, [group], time.monotonic())


def _kind(title: str, inject: Inject) -> Kind:
    return Kind(title=f"all members {title}", inject=inject, like="group emptied")


EMPTIED: Final[Mapping[str, Kind]] = {
    "group-emptied": _kind("end in good order, and come back", _scaled_to_zero),
    "group-killed": _kind("killed, and started again", _emptied(kill=True)),
    "foreign-starts": _kind("end, and one of a foreign protocol starts at once", _foreign_starts),
    "emptied-worker": _kind("end, and the worker is killed", _emptied(victim="worker")),
    "emptied-pause": _kind("end, and the worker is stopped", _emptied(victim="pause")),
    "emptied-agent": _kind("end, and supervisor and worker are killed", _emptied(victim="agent")),
    "emptied-ended": _kind("end, and the agent ends with SIGTERM", _emptied(victim="ended")),
}
