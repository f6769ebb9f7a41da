"""Settings of the storage of events."""

from __future__ import annotations

from pydantic import Field

from samerack.common.settings.base import Section


class EventSettings(Section):
    """What happened to groups and why, as `samerack events` shows it: in memory, in a file, in a topic."""

    path: str = Field(
        default="",
        description="File that events are kept in, on a local disk; each agent needs one of its own. Empty: "
        "`samerack/events-NAME.db` in `$XDG_STATE_HOME`, `~/.local/state` or, without a home, `/var/lib`, where NAME "
        "tells agents of one machine apart. `memory` keeps them in memory only.",
        examples=["/var/lib/samerack/events.db"],
    )
    most: int = Field(
        default=10_000, ge=100, le=100_000, description="Most events that are kept, in memory and in the file."
    )
    days: float = Field(default=30.0, gt=0, description="How long the file keeps events.")
    topic: str = Field(
        default="",
        description="Topic for events, one record each; empty publishes none. `publishing.kafka`, "
        "`publishing.cluster`, `publishing.create_topics` and its bounds hold for it too.",
        examples=["samerack-events"],
    )
