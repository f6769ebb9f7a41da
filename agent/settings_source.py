"""Where an agent's settings come from, which of them are in force, and whether others may replace them.

The supervisor puts settings in force when it starts a worker. A worker never changes its settings: it ends, and the
next one begins with the new ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from samerack.common.errors import SettingsError
from samerack.common.patterns import selects
from samerack.election.messages import identity_of
from samerack.events.event_writer import path_of
from samerack.settings.all_settings import Settings, difference, of_cluster
from samerack.settings.publishing import IN_MEMORY


class SettingsSource:
    """The settings in force and their source; a worker's copy is that of the moment in which it was forked."""

    def __init__(self, settings: Settings, read: Callable[[], Settings], *, path: Path | None = None) -> None:
        """Put the settings in force that were read first.

        `read` reads the settings from all their places, `path` is the file among these.
        """
        self._read = read
        self.path = path
        self._as_read = settings
        self.settings = settings
        """In force."""
        self._former: tuple[Settings, Settings] | None = None
        self._rejected: Settings | None = None
        self.why_rejected = ""
        """Why the last settings that were tried are not in force; empty if they are."""

    def reread(self) -> Settings | None:
        """Return the settings as they are now; None if they are those in force, or were tried before in vain.

        Raises:
            SettingsError: They are wrong.
        """
        found = self._read()
        return None if found in (self._as_read, self._rejected) else carried_over(found, self.settings)

    def renew(self) -> str:
        """Put the settings as they are now in force; return the keys that differ, empty if none does."""
        try:
            found = self._read()
        except SettingsError:
            return ""  # they were right a moment ago; the next worker's watch reports it
        before = self.settings
        self._former = (self._as_read, before)
        self._as_read, self.settings = found, carried_over(found, before)
        self._rejected, self.why_rejected = None, ""
        return ", ".join(difference(before, self.settings))

    def revert(self, why: str) -> bool:
        """Put the former settings in force again, once; return whether there are any.

        `why` says for what reason the present ones are of no use.
        """
        if self._former is None:
            return False
        self._rejected, self.why_rejected = self._as_read, why
        (self._as_read, self.settings), self._former = self._former, None
        return True


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
        before.kafka.get("bootstrap.servers") == now.kafka.get("bootstrap.servers")
        and (before.election.group, identity_of(before)) == (now.election.group, identity_of(now))
        and before.leading.instance_id == now.leading.instance_id
    )
    return same and selects(now.groups, group)
