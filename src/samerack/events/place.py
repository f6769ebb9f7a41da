"""Decides where an agent stores its events: the path in its settings, or a file in the user's state directory."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from zlib import crc32

from samerack.settings.model import Settings
from samerack.settings.publishing import IN_MEMORY

_HOMELESS: Final = Path("/var/lib")
"""For a user without a home directory, as in a container."""
_SAFE: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_")


def path_of(settings: Settings, environment: Mapping[str, str] | None = None) -> Path | None:
    """Return the file; None where events are kept in memory only.

    Without a path in the settings, the name is made from what distinguishes the agent on this machine: its identity in
    the election, cluster, port and groups. So a restarted agent finds its file, and no two share one by accident.
    """
    given = settings.events.path
    if given == IN_MEMORY:
        return None
    if given:
        return Path(given).expanduser()
    environment = os.environ if environment is None else environment
    state = environment.get("XDG_STATE_HOME", "")
    base = Path(state) if state.startswith("/") else _state_of_user()
    return base / "samerack" / f"events-{_name(settings)}.db"


def _state_of_user() -> Path:
    try:
        return Path("~/.local/state").expanduser()
    except RuntimeError:
        return _HOMELESS


def _name(settings: Settings) -> str:
    whole = "\n".join(
        (
            settings.election.identity or socket.gethostname(),
            settings.kafka.get("bootstrap.servers", ""),
            str(settings.web.port),
            *settings.groups,
            "",
            *settings.traffic.groups,
            *settings.clusters,
        )
    )
    shown = "".join(character for character in settings.election.identity[:40] if character in _SAFE)
    return f"{shown or 'port-' + str(settings.web.port)}-{crc32(whole.encode()):08x}"
