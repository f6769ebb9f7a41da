"""What worker and supervisor say to each other: at its start, and then line by line over a socket.

An empty line is a sign of life; any other is JSON: the worker's settings, for the process that replaces it; the member
ids that the worker has got and lost since the last such line, so that another process can leave for it; or a text about
whether brokers accept it: empty once they do, before that why they refuse it.
"""

from __future__ import annotations

import json
from collections.abc import Set as AbstractSet
from dataclasses import asdict, dataclass
from typing import Final

ALIVE: Final = b"\n"
RENEWS: Final = 75
"""Exit code of a worker whose settings have changed: the next one begins with the new settings."""
HAND_OVER_SECONDS: Final = 5.0
"""How long a worker that was asked to stop may lead until an elected successor has taken over: on a busy machine the
successor needs about half of it. A session is longer, and Docker kills after ten seconds."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class MemberIdentity:
    """One member id of the worker.

    Attributes:
        instance_id: `group.instance.id`, or None.
        pending: reserved, not joined: it delays every rebalance of the group until it is released.
    """

    group: str
    member_id: str
    instance_id: str | None = None
    pending: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedIds:
    """What has changed in the worker's member ids."""

    came: frozenset[MemberIdentity] = frozenset()
    gone: frozenset[MemberIdentity] = frozenset()

    @classmethod
    def between(cls, before: frozenset[MemberIdentity], after: frozenset[MemberIdentity]) -> ChangedIds:
        """Return what makes the later member ids of the earlier ones."""
        return cls(came=after - before, gone=before - after)

    def after(self, before: frozenset[MemberIdentity]) -> frozenset[MemberIdentity]:
        """Return the later member ids."""
        return (before - self.gone) | self.came


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsInForce:
    """The settings of a worker.

    Attributes:
        content: All of them, for the processes after it; the supervisor does not read it.
        changed: The keys that differ from those before, for people.
        groups, memory_mib, restart_window_seconds: See `samerack settings`.
    """

    content: str
    changed: str
    groups: tuple[str, ...]
    memory_mib: int
    restart_window_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerStart:
    """How a worker begins.

    Attributes:
        settings: The content of those in force; empty for the first worker, which reads them.
        rejected: The content of those that were tried in vain; empty if none were.
        why_rejected: Why they are not in force.
        observing: It joins no group.
        why: Why this process replaces another one; empty if it does not.
    """

    settings: str = ""
    rejected: str = ""
    why_rejected: str = ""
    observing: bool = False
    why: str = ""


def encode_settings(settings: SettingsInForce) -> bytes:
    """Return a worker's settings as one line."""
    return json.dumps({"settings": asdict(settings)}).encode() + b"\n"


def encode(change: ChangedIds) -> bytes:
    """Return a change of member ids as one line; an agent may have a thousand, and few change at a time."""
    return json.dumps({"came": _rows(change.came), "gone": _rows(change.gone)}).encode() + b"\n"


def _rows(member_ids: AbstractSet[MemberIdentity]) -> list[dict[str, object]]:
    return [
        asdict(member_id)
        for member_id in sorted(member_ids, key=lambda member_id: (member_id.group, member_id.member_id))
    ]


def encode_auth_status(text: str) -> bytes:
    """Return the text about whether brokers accept the worker, as one line."""
    return json.dumps(text).encode() + b"\n"


def decode(line: bytes) -> SettingsInForce | ChangedIds | str | None:
    """Return the content of a line; None for a sign of life.

    Raises:
        ValueError: The line is not valid.
    """
    if not line.strip():
        return None
    said = json.loads(line)
    if isinstance(said, str):
        return said
    try:
        if (settings := said.get("settings")) is not None:
            return SettingsInForce(**{**settings, "groups": tuple(settings["groups"])})
        return ChangedIds(**{name: frozenset(MemberIdentity(**row) for row in rows) for name, rows in said.items()})
    except (TypeError, AttributeError, KeyError) as error:
        raise ValueError(str(error)) from None
