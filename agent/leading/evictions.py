"""Follows who was evicted in one group until they are back, and evicts nobody there once somebody has not come back.

An evicted member's JoinGroup is answered UNKNOWN_MEMBER_ID. Most clients join again; to some an error of JoinGroup is
fatal: they end, and whoever starts them again must not meet the same. What is remembered is written before the
eviction, so that it is not lost with the process: a group that only might have such members is not evicted again.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from samerack.agent.leading.group_memory import GroupMemory
from samerack.agent.leading.group_reporter import GroupReporter
from samerack.cluster.group import GroupView, MemberView
from samerack.common import words
from samerack.settings.cures import command

_RETURN_SECONDS: Final = 9.0
"""The slowest of the clients that join again takes 7 s; Kubernetes starts a container that has ended twice after 10."""
_MAX_NAMES: Final = 3


@dataclass(kw_only=True, eq=False)
class Evictions:
    """The evictions of one group; `memory` has the client ids of those who did not come back."""

    group: str
    memory: GroupMemory
    reporter: GroupReporter
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        """Start without an eviction that this process knows of."""
        self._before: Counter[tuple[str, str]] = Counter()
        self._away: dict[str, tuple[str, str]] = {}
        """Who was evicted and is not known to be back: client id and host by the member id of then."""
        self._until = float("inf")

    @property
    def reason(self) -> str:
        """Why nobody is evicted in this group any more; empty while the agent may do so."""
        names = self.memory.of(self.group)
        if not names or self._away:
            return ""
        return (
            f"members ({names}) did not rejoin after the agent evicted them, because a JoinGroup error is fatal to "
            "some clients; it evicts nobody in this group any more and can lead it only when its leader leaves, until "
            f"{command('resume', group=self.group)} clears that"
        )

    def begin(self, before: Iterable[MemberView], evicted: Iterable[MemberView]) -> None:
        """Record which of the members are about to be evicted."""
        self._before |= Counter(map(client_of, before))
        self._away |= {one.id: client_of(one) for one in evicted}
        self.memory.keep(self.group, _names(self._away.values()))
        self._until = self.clock() + _RETURN_SECONDS

    def see(self, view: GroupView) -> None:
        """Compare a description with the members before the eviction: are all back, or is it too late by now?"""
        if not self._away:
            return
        here = {
            member.id for member in view.members
        }  # whoever has the id of then was not evicted: it was too late for that
        away = Counter(client for member_id, client in self._away.items() if member_id not in here)
        missing = (self._before - Counter(map(client_of, view.members))) & away
        if away and self.clock() > self._until:
            self._conclude(missing or away)  # whoever is there by now may have been started again
        elif not missing:
            self.forget()

    def ends_alone(self) -> None:
        """Conclude that nobody has come back, after the agent has waited for them in the group."""
        if self._away:
            self._conclude(self._away.values())

    def forget(self) -> None:
        """Forget all evictions: members may be evicted again."""
        self._clear()
        self.memory.keep(self.group, "")

    def _conclude(self, missing: Iterable[tuple[str, str]]) -> None:
        self.memory.keep(self.group, _names(missing))
        self._clear()
        self.reporter.evicts_nobody(self.reason)

    def _clear(self) -> None:
        self._before, self._away, self._until = Counter(), {}, float("inf")


def client_of(member: MemberView) -> tuple[str, str]:
    """Return what a member has in common with itself before it joined again."""
    return member.client_id, member.client_host


def _names(clients: Iterable[tuple[str, str]]) -> str:
    return words.listed(sorted({client_id for client_id, _ in clients}), _MAX_NAMES)
