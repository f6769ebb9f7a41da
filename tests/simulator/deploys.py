"""After how many restarts the agent leads a running group that it has joined: many groups, of several sizes.

The order of a group's members is random, so one group shows little. The real agent's code joins a group with a member
as leader, and members are restarted in turn, the oldest first, as in a rolling deployment.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import Final

from tests.simulator.agent import simulated
from tests.simulator.group import AGENTS
from tests.simulator.world import Setting, World

PROTOCOLS: Final = ("range", "sticky", "cooperative-sticky")
SIZES: Final = (3, 10, 30)
DEPLOYS: Final = 3
_AWAY_MS: Final = 2000
_RACKS: Final = "abc"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Groups of one protocol and size: their number, and how many the agent led after 1, 2, ... deployments."""

    protocol: str
    members: int
    groups: int
    led: tuple[int, ...]


def restarts_until_led(protocol: str, members: int, seed: int) -> int | None:
    """Restarts of single members until the agent leads; None if it does not after `DEPLOYS` deployments."""
    with simulated():
        world = World(Setting(seed=seed, protocol=protocol, partitions=2 * members, agent_first=False))
        try:
            for number in range(members):
                world.join("java", _RACKS[number % len(_RACKS)])
            world.settle()
            world.start_agent(0)
            world.settle()
            for restarts in range(DEPLOYS * members):
                if _leads(world):
                    return restarts
                world.leave(0)
                world.wait(_AWAY_MS)
                world.join("java", _RACKS[restarts % len(_RACKS)])
                world.settle()
            return DEPLOYS * members if _leads(world) else None
        finally:
            world.close()


def _leads(world: World) -> bool:
    group = world.coordinator.group
    return group is not None and any(one.id == group.leader and one.client_id == AGENTS for one in group.members)


def rows(groups: int, processes: int) -> Iterator[Row]:
    """One row for each protocol and size: `groups` groups of the smallest size, and fewer larger ones."""
    with ProcessPoolExecutor(processes) as pool:
        for protocol in PROTOCOLS:
            for members in SIZES:
                count = max(1, groups * SIZES[0] // members)
                found = list(pool.map(restarts_until_led, [protocol] * count, [members] * count, range(count)))
                led = tuple(
                    sum(one is not None and one <= deploy * members for one in found)
                    for deploy in range(1, DEPLOYS + 1)
                )
                sys.stderr.write(f"simulate: {protocol}, {members} members: led {led} of {count}\n")
                yield Row(protocol=protocol, members=members, groups=count, led=led)


def table(found: Iterable[Row]) -> str:
    """The rows as a Markdown table."""
    head = ["protocol", "members", *(f"after {number} deploy{'s' * (number > 1)}" for number in range(1, DEPLOYS + 1))]
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    for row in found:
        cells = [f"`{row.protocol}`", str(row.members), *(f"{count} of {row.groups}" for count in row.led)]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)
