"""The name of an agent in the election, by which a restarted agent is known."""

from __future__ import annotations

import socket
from zlib import crc32

from samerack.settings.model import Settings


def identity_of(settings: Settings) -> str:
    """Return `election.identity`, or a name of the host and of what distinguishes the agents on it."""
    name = f"{settings.web.port} {' '.join(settings.groups)}"
    return settings.election.identity or f"{socket.gethostname()}-{crc32(name.encode()):08x}"
