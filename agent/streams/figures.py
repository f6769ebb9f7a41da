"""A plan in figures: what the agent keeps of it, and shows; in words for events and the log."""

from __future__ import annotations

from dataclasses import dataclass

from samerack.assignors.streams.application import Strategy
from samerack.common import words


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """A plan in figures; None is not known.

    Attributes:
        strategy: `rack.aware.assignment.strategy` by which it was made.
        sources: source partitions of all tasks.
        sources_before: those that active tasks read across racks so far.
        sources_after: the same after the plan; not known of clients that read from leaders whose racks are not known.
        changelogs_before: changelog partitions that standbys, warm-ups included, read across racks so far.
        changelogs_after: the same after the plan.
        cost_before: traffic cost of all of these so far (KIP-925), by the costs that the assignor used.
        cost_after: the same after the plan, without the cost of moves.
        moved: active tasks that another client has than before; one that no client had is not moved.
        standbys: standby tasks, warm-ups included.
        warmups: standbys beyond the configured number.
        followup_ms: when a follow-up rebalance was requested, in ms since 1970; 0 for at once.
        warnings: what the user should know.
    """

    application: str
    plan: str
    assignor: str
    clients: int
    tasks: int
    sources: int
    sources_before: int | None
    sources_after: int | None
    changelogs_before: int | None
    changelogs_after: int | None
    cost_before: int | None
    cost_after: int | None
    moved: int
    standbys: int
    warmups: int
    followup_ms: int | None
    warnings: tuple[str, ...] = ()
    strategy: str = Strategy.NONE.value

    @property
    def before(self) -> int | None:
        """Partitions read across racks so far; None if a part is not known."""
        return _sum(self.sources_before, self.changelogs_before)

    @property
    def after(self) -> int | None:
        """The same after the plan."""
        return _sum(self.sources_after, self.changelogs_after)

    @property
    def share_before(self) -> float | None:
        """Share of the source partitions that is read across racks so far."""
        return _share(self.sources_before, self.sources)

    @property
    def share_after(self) -> float | None:
        """The same after the plan."""
        return _share(self.sources_after, self.sources)


def _sum(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other


def _share(part: int | None, whole: int) -> float | None:
    return None if part is None or not whole else part / whole


def planned_text(figures: Summary) -> str:
    """Return a plan in a few words: what it reads across racks, what moves, what follows."""
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
