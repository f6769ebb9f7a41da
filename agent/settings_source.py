"""Where an agent's settings come from, which of them are in force, and whether others may replace them.

A worker never changes its settings: it ends, and the next one begins with the new ones. The supervisor keeps those of
the last worker for the next, and does not read them itself.
"""

from __future__ import annotations

import pickle
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from samerack.agent.supervisor.protocol import SettingsInForce, WorkerStart
from samerack.cluster.names import address_of
from samerack.common.errors import SettingsError
from samerack.common.patterns import selects
from samerack.election.messages import identity_of
from samerack.events.event_writer import path_of
from samerack.settings.all_settings import Settings, difference, of_cluster
from samerack.settings.publishing import IN_MEMORY


class SettingsSource:
    """A worker's settings, and where they come from."""

    def __init__(self, read: Callable[[], Settings], *, path: Path | None = None, start: WorkerStart) -> None:
        """Take the settings with which a worker is to start, or read them if it is the first.

        `read` reads the settings from all their places, `path` is the file among these.

        Raises:
            SettingsError: They are wrong.
        """
        self._read = read
        self.path = path
        if start.settings:
            self._as_read, self.settings = _unpacked(start.settings)
        else:
            self._as_read = self.settings = read()
        self._rejected = _unpacked(start.rejected)[0] if start.rejected else None
        self._why_rejected = start.why_rejected
        self._found = self._as_read
        self.in_force = _packed(self._as_read, self.settings, changed=())
        """For the supervisor."""

    def reread(self) -> Settings | None:
        """Return the settings as they are now; None if they are those in force.

        Raises:
            SettingsError: They are wrong, or were tried before in vain.
        """
        found = self._read()
        if _are_same(found, self._as_read):
            return None
        if self._rejected is not None and _are_same(found, self._rejected):
            raise SettingsError(self._why_rejected)
        self._found = found
        return carried_over(found, self.settings)

    def changes(self) -> dict[str, tuple[Any, Any]]:
        """Return what differs in the settings read last, as `difference`, without what an agent carries over."""
        return difference(self._as_read, self._found)

    def renew(self) -> None:
        """Put the settings in force that were read last: those of the worker after this one."""
        changed = self.changes()
        self._as_read, self.settings = self._found, carried_over(self._found, self.settings)
        self.in_force = _packed(self._as_read, self.settings, changed=changed)


def _are_same(one: Settings, other: Settings) -> bool:
    """Return whether settings are equal, patterns in the same order: equality of maps does not compare that."""
    return one == other and not difference(one, other)


def _packed(as_read: Settings, settings: Settings, *, changed: Iterable[str]) -> SettingsInForce:
    return SettingsInForce(
        content=b64encode(pickle.dumps((as_read, settings))).decode(),
        changed=", ".join(changed),
        groups=settings.groups,
        memory_mib=settings.supervisor.memory_mib,
        restart_window_seconds=settings.supervisor.restart_window_seconds,
    )


def _unpacked(content: str) -> tuple[Settings, Settings]:
    as_read, settings = pickle.loads(b64decode(content))  # noqa: S301 - from a process of this agent
    return as_read, settings


def cluster_settings(settings: Settings) -> Mapping[str, Settings]:
    """Return the settings of each cluster by its name; those of a single one as they are, by an empty name."""
    if not settings.clusters:
        return {"": settings}
    path = path_of(settings)  # one place of events, in which each cluster has a file
    placed = settings.model_copy(
        update={"events": settings.events.model_copy(update={"path": str(path) if path is not None else IN_MEMORY})}
    )
    return {name: of_cluster(placed, name) for name in settings.clusters}


def carried_over(found: Settings, former: Settings) -> Settings:
    """Return settings with what a running agent keeps where they leave it open: its identity and its store of events.

    Both have names that are made of other settings, such as `groups`.
    """
    identity = found.election.identity or identity_of(former)
    path = path_of(former)
    events = {} if found.events.path or path is None else {"path": str(path)}
    return found.model_copy(
        update={
            "election": found.election.model_copy(update={"identity": identity}),
            "events": found.events.model_copy(update=events),
        }
    )


def continues(group: str, before: Settings, now: Settings) -> bool:
    """Return whether an agent that goes over to other settings keeps its membership of a group meanwhile."""
    same = (
        not _servers(before).isdisjoint(_servers(now))  # some brokers of the cluster, in any order
        and (before.election.group, identity_of(before)) == (now.election.group, identity_of(now))
        and before.leading.instance_id == now.leading.instance_id
    )
    return same and selects(now.groups, group)


def _servers(settings: Settings) -> set[tuple[str, int]]:
    return {address_of(server) for server in settings.kafka.get("bootstrap.servers", "").split(",")}
