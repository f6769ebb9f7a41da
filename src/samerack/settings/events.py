"""Settings of the storage of events."""

from __future__ import annotations

from typing import Final

from pydantic import Field

from samerack.settings.base import Section

IN_MEMORY: Final = "memory"
"""`path` of an agent that stores no events."""


class EventSettings(Section):
    """What happened to groups and why, as `samerack events` shows it: in memory, in a file, in a topic."""

    path: str = Field(
        default="",
        description="File for events, on a local disk, one for each agent. Empty: `samerack/events-NAME.db` in "
        "`$XDG_STATE_HOME`, `~/.local/state` or `/var/lib`. `memory` keeps them in memory.",
        examples=["/var/lib/samerack/events.db"],
    )
    most: int = Field(
        default=10_000, ge=100, le=100_000, description="Most events that are kept, in memory and in the file."
    )
    days: float = Field(default=30.0, gt=0, description="How long the file keeps events.")
    topic: str = Field(
        default="",
        description="Topic for events; empty publishes none. Its producer is that of `publishing`.",
        examples=["samerack-events"],
    )
