"""Formats plans of Kafka Streams applications as text: the same for events and the log."""

from __future__ import annotations

from samerack.agent.streams.figures import Summary
from samerack.common import words


def planned_text(figures: Summary) -> str:
    """Returns a plan in a few words: what it reads across racks, what moves, what follows."""
    parts = [
        f"{figures.tasks} tasks on {figures.clients} client{'' if figures.clients == 1 else 's'}",
        f"sources across racks {words.count(figures.sources_before)} > {words.count(figures.sources_after)}",
    ]
    if figures.standbys:
        parts.append(f"changelogs {words.count(figures.changelogs_before)} > {words.count(figures.changelogs_after)}")
    parts.append(f"{figures.moved} moved")
    if figures.cost_after is not None:
        parts.append(f"cost {words.count(figures.cost_before)} > {figures.cost_after}")
    if figures.warmups:
        parts.append(f"{figures.warmups} warm-up{'' if figures.warmups == 1 else 's'}")
    if figures.followup_ms is not None:
        parts.append("a follow-up rebalance comes")
    parts.extend(figures.warnings)
    return "; ".join(parts)
