"""Draws the order and targets of faults from a seed, the same with agents and without."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Final

from sandbox.chaos import faults_agents, faults_groups, faults_guests, faults_steps
from sandbox.chaos.fault import Drawn, Fault
from sandbox.chaos.means import Means
from sandbox.errors import SandboxError

_ALL: Final[tuple[type[Fault], ...]] = (
    faults_agents.KINDS + faults_steps.KINDS + faults_groups.KINDS + faults_guests.KINDS
)
KINDS: Final[Mapping[str, type[Fault]]] = {kind.kind: kind for kind in _ALL}
_PICKS: Final = 60
"""Divisible by every number of members, brokers and partitions, so that each is equally likely."""


def possible(means: Means) -> list[str]:
    """Returns the kinds that are possible on this machine."""
    return [
        name
        for name in KINDS
        if (means.network or not name.startswith(("network-", "joined-")))
        and (means.clock or not name.startswith("clock-"))
        and (means.disk or not name.startswith("disk-"))
    ]


def draw(seed: int, *, faults: int, kinds: Sequence[str], groups: Sequence[str]) -> list[Drawn]:
    """Returns a schedule: all kinds in rounds, each round in a new random order, so that no kind is absent for long.

    Raises:
        SandboxError: A kind does not exist.
    """
    unknown = sorted(set(kinds) - KINDS.keys())
    if unknown or not kinds:
        raise SandboxError(
            f"no such kind of fault: {', '.join(unknown) or '(none given)'}; there are {', '.join(KINDS)}"
        )
    chance = random.Random(seed)  # noqa: S311 - chance that can be repeated
    drawn: list[Drawn] = []
    while len(drawn) < faults:
        for kind in chance.sample(list(kinds), len(kinds)):
            drawn.append(
                Drawn(
                    number=len(drawn) + 1, kind=kind, group=chance.choice(list(groups)), pick=chance.randrange(_PICKS)
                )
            )
    return drawn[:faults]
