"""Follows a group while its members change their protocol one by one, and says when that is over or went wrong."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from samerack.cluster.group import STABLE
from samerack.common.words import some


class RollOutcome(StrEnum):
    """How a roll goes."""

    GOES_ON = "goes on"
    DONE = "done"
    WRONG = "went wrong"


@dataclass(frozen=True, slots=True, kw_only=True)
class RollState:
    """A group during the roll, as `samerack move --watch` shows it; what is not known is None."""

    kind: str
    state: str
    classic_members: int
    new_members: int
    unknown_members: int = 0
    share_before: float | None = None
    share: float | None = None
    lag_records: int | None = None
    lag_unknown_partitions: int = 0
    read_topics: tuple[str, ...] | None = None
    """Topics with a partition that a member has."""

    @property
    def members(self) -> int:
        """All of them."""
        return self.classic_members + self.new_members + self.unknown_members


class Roll:
    """The roll of one group, from the first state on."""

    def __init__(self, *, back: bool, patience: float) -> None:
        """Follow the move to the new protocol, or back; a member may be away for `patience` seconds."""
        self._back = back
        self._patience = patience
        self._members: int | None = None
        self._converted = False
        self._topics: tuple[str, ...] | None = None
        self._since: float | None = None

    def take(self, state: RollState, now: float) -> tuple[RollOutcome, str]:
        """Return how the roll goes with the state at this monotonic time, and why, in words."""
        if state.unknown_members:
            return RollOutcome.WRONG, "brokers do not report which protocol members use: Kafka 4.0 or newer does"
        self._members = state.members if self._members is None else self._members
        if self._converted and not self._back and state.kind == "classic":
            return RollOutcome.WRONG, (
                "the group is classic again: its last member of the new protocol has left, and its log says why"
            )
        self._converted = self._converted or state.kind == "consumer"
        self._topics = state.read_topics if self._topics is None else self._topics
        read = self._topics if state.read_topics is None else state.read_topics
        unread = sorted({*(self._topics or ())} - {*(read or ())})
        missing = self._members - state.members
        left = state.new_members if self._back else state.classic_members
        if missing > 0:
            return self._wait(now, f"{missing} of {self._members} members are away; their logs say why")
        if left or not state.members:
            self._since = None
            return RollOutcome.GOES_ON, f"{left} of {state.members} members are left"
        if unread:
            return self._wait(now, f"all members have moved, and none has partitions of {some(unread, 'topic')}")
        if state.kind == ("classic" if self._back else "consumer") and state.state == STABLE:
            return RollOutcome.DONE, f"all {state.members} members have moved"
        return self._wait(now, f"all members have moved; the group is {state.kind}, {state.state}")

    def _wait(self, now: float, what: str) -> tuple[RollOutcome, str]:
        """Return that the roll goes on, or that this has lasted for too long."""
        self._since = now if self._since is None else self._since
        if now - self._since < self._patience:
            return RollOutcome.GOES_ON, what
        return RollOutcome.WRONG, f"for {self._patience:.0f} s: {what}"
