"""Which groups this agent publishes, where several agents measure the same ones: those that it is elected for.

A group that agents may lead is published by the one that is active for leading it, any other by the one that is active
for the first pattern of `traffic.groups` that it matches. What must not enter: electing, and clients.
"""

from __future__ import annotations

from collections.abc import Callable
from fnmatch import fnmatchcase

from agent.election.election import Standing
from agent.election.model import lead, observe
from common.settings import Settings


def publishes(settings: Settings, standing: Standing) -> Callable[[str], bool]:
    """Tells of a group whether this agent publishes it now."""
    led, patterns = frozenset(settings.groups), settings.traffic.groups

    def mine(group: str) -> bool:
        if group in led:
            return standing.is_active(lead(group))
        pattern = next((one for one in patterns if fnmatchcase(group, one)), None)
        return pattern is None or standing.is_active(observe(pattern))

    return mine
