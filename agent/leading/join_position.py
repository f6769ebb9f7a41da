"""The agent's position in the join order of a group that another member leads: next to lead if that is safe.

`cluster.joining` decides which position is good. Here a static membership gets new member ids until its position
is good, which causes no rebalance. The agent never keeps partitions.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from structlog.typing import FilteringBoundLogger

from samerack.agent.leading.membership import Membership
from samerack.agent.metrics import Metrics
from samerack.agent.policy.back_off_causes import BackOffError, Cause
from samerack.cluster.group import GroupView
from samerack.cluster.joining import (
    SOUND_PROTOCOLS,
    ahead,
    counts_agents,
    front_is_free,
    is_exposed,
    is_first,
    is_well_behind,
    members_before,
)
from samerack.common.errors import AgentError

_MAX_REJOINS: Final = 64
_REJOINS_FOR_EACH: Final = 24
"""Each time after this number of rejoins a position with one more member before the agent is accepted."""
_CHOOSE_SECONDS: Final = 3.0
"""Time to choose a position: a reserved id delays every rebalance, and brokers drop it after six seconds."""
_MAX_RETURNS: Final = 3
_PROOF_SECONDS: Final = 5.0
"""So long one generation must show uneven counts: several polls, and a cooperative rebalance has ended by then."""


@dataclass(kw_only=True, eq=False)
class JoinPosition:
    """The agent's position in one group while another member leads it."""

    retry_seconds: float
    metrics: Metrics
    log: FilteringBoundLogger
    notify_supervisor: Callable[[], None] = lambda: None
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        self._retry_at = float("-inf")
        self._returned = 0
        self._uneven: tuple[int, float] | None = None
        """The generation whose leader seems to count the agent, and since when."""

    def reconsider(self) -> None:
        """Allow the next attempt at once: after a rebalance the order is different."""
        self._retry_at = float("-inf")

    def enter(self, membership: Membership, view: GroupView) -> None:
        """Choose a safe position before joining a group whose leader may give partitions to members without topics.

        A static member gets its position only by joining, which starts a rebalance that may give it partitions; so
        here member ids are reserved until one would come right after the first member, or at least after some. Groups
        with sound protocols, and those where this instance id is a member already, are joined as a static member.

        Raises:
            BackOffError: No id is safe.
            AgentError: The coordinator does not know an id that it has just given: more of them are of no use.
        """
        instance_id = membership.group_instance_id
        known = instance_id is not None and any(member.instance_id == instance_id for member in view.members)
        if not view.stable or view.protocol in SOUND_PROTOCOLS or known:
            return
        chosen, until = "", self.clock() + _CHOOSE_SECONDS
        for _ in range(_MAX_REJOINS):
            candidate = membership.reserve()
            before = members_before(view, candidate)
            if not is_exposed(view, candidate) and (not chosen or before < members_before(view, chosen)):
                chosen, candidate = candidate, chosen
            if candidate and not membership.release(candidate):
                raise AgentError("the group's coordinator does not know a member id that was reserved a moment ago")
            if chosen and (members_before(view, chosen) == 1 or self.clock() > until):
                break
        if not chosen:
            raise BackOffError(Cause.NO_PLACE)
        membership.adopt(chosen)
        self.notify_supervisor()  # else the id would be lost if this process ended before its next sign of life
        self.log.info("position-chosen", members_before=members_before(view, chosen))

    def keep(self, membership: Membership, view: GroupView) -> bool:
        """Take the best available position and give partitions back; return whether the membership has changed.

        Raises:
            BackOffError: No position is safe, or the group's leader gives partitions to the agent: under a sound
                protocol at once, as it is another implementation, which does so in every place; else again and again.
        """
        if view.protocol in SOUND_PROTOCOLS and (count := len(membership.assigned)):
            self.metrics.failed(membership.group_id, "assigned-to-agent")
            raise _gift(f"its leader's {view.protocol} gave {count} partitions to the agent, which has no topics")
        exposed = is_exposed(view, membership.member_id)
        if not exposed and (self.clock() < self._retry_at or _in_place(view, membership, front=True)):
            return self._return_partitions(membership)
        if not membership.is_static:
            if exposed:
                raise BackOffError(Cause.PLACE_LOST)
            return self._return_partitions(membership)
        front = front_is_free(view, membership.member_id, membership.leader_id)
        if not front and not exposed:
            self._wait(rejoins=0)
            return False
        for rejoins in range(1, _MAX_REJOINS + 1):
            membership.rejoin_for_position()
            if not membership.join(2.0) or membership.leading:
                return True
            self.metrics.position_rejoins.labels(membership.group_id).inc()
            view = membership.describe()
            if not view.stable:
                return True
            if _in_place(view, membership, front=front):
                self.log.info("in-position", first=front, rejoins=rejoins, leader=membership.leader_id)
                return True
        self._wait(rejoins=_MAX_REJOINS)
        if is_exposed(view, membership.member_id):
            raise BackOffError(Cause.NO_PLACE)
        return True

    def check_shares(self, membership: Membership, others: GroupView) -> None:
        """Leave a group whose leader counts the agent in the shares of the members: some have more than without it.

        The group is stable, and every partition is assigned; the view is without the agent.

        Raises:
            BackOffError: The counts have shown it for some seconds.
        """
        if not counts_agents(others):
            self._uneven = None
        elif self._uneven is None or self._uneven[0] != membership.generation_id:
            self._uneven = membership.generation_id, self.clock()
        elif self.clock() - self._uneven[1] >= _PROOF_SECONDS:
            counts = ", ".join(str(len(member.assigned)) for member in others.members)
            raise _gift(f"its leader's {others.protocol} counts the agent, which has no topics: {counts} partitions")

    def approach(self, membership: Membership, view: GroupView, *, max_ahead: int, rejoins: int) -> bool:
        """Rejoin until at a safe position with few members before it, not counting the leader; return whether to stop.

        There is more to try if the group has started a rebalance meanwhile. The aim is none, or one if the first
        position is taken; it grows with the number of rejoins, up to `max_ahead`. At most `rejoins` positions are
        tried.
        """
        aim = 0 if front_is_free(view, membership.member_id, membership.leader_id) else 1
        for tries in range(rejoins):
            before = ahead(view, membership.member_id, membership.leader_id)
            will_do = min(max_ahead, aim + tries // _REJOINS_FOR_EACH)
            if len(before) <= will_do and not is_exposed(view, membership.member_id):
                return True
            membership.rejoin_for_position()
            if not membership.join(2.0):
                return False
            if membership.leading:
                return True
            self.metrics.position_rejoins.labels(membership.group_id).inc()
            view = membership.describe()
            if not view.stable:
                return False
        return True

    def _wait(self, *, rejoins: int) -> None:
        self._retry_at = self.clock() + self.retry_seconds
        self.log.info("position-taken", rejoins=rejoins, retry_seconds=self.retry_seconds)

    def _return_partitions(self, membership: Membership) -> bool:
        """Ask for a new assignment if the group's leader gave partitions to the agent, so that consumers get them."""
        count = len(membership.assigned)
        if not count:
            self._returned = 0
            return False
        self.metrics.failed(membership.group_id, "assigned-to-agent")
        if self._returned >= _MAX_RETURNS:
            raise BackOffError(Cause.GIVEN_PARTITIONS, f"its leader gave {count} partitions to the agent again")
        self._returned += 1
        self.log.error("returns-partitions", partitions=count, leader=membership.leader_id)
        membership.nudge()
        return True


def _gift(what: str) -> BackOffError:
    """Return the error that keeps the agent out of a group until all its consumers have stopped."""
    only = "the agent leads such a group only from its first generation: stop all consumers and start them again"
    return BackOffError(Cause.ASSIGNED_WITHOUT_TOPICS, f"{what}; {only}")


def _in_place(view: GroupView, membership: Membership, *, front: bool) -> bool:
    """Return whether the agent's position is good: next to lead, or else behind enough other members."""
    mine = membership.member_id
    if is_exposed(view, mine):
        return False
    return is_first(view, mine, membership.leader_id) if front else is_well_behind(view, mine)
