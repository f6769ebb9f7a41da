"""Takes the lead of a group that is just forming, before its first generation.

When the first consumer joins an empty group, its coordinator holds the first rebalance open for
`group.initial.rebalance.delay.ms` (KIP-134), and for the same time again if others join meanwhile. No member owns
partitions yet. The agent joins in that time until it is first in the coordinator's order, and then removes with one
LeaveGroup the members that may lead, of which one was the first to join: their JoinGroups are answered
UNKNOWN_MEMBER_ID, they join again, and the agent leads generation 1.

As few as possible are removed, since librdkafka before 2.16 joins again only three seconds after its start: one that
was not the group's first would come after the delay, and make the coordinator wait for a third one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from kafka import errors as kafka_errors
from structlog.typing import FilteringBoundLogger

from samerack.agent.leading.evictions import client_of
from samerack.agent.leading.membership import Membership
from samerack.cluster.group import CONSUMER, FORMING_STATE, GroupView, MemberView, is_agent
from samerack.common.errors import one_line

_MAX_EVICTIONS: Final = 3
_MAX_REJOINS: Final = 8
"""To become first. Among many members a good position is rare: then those before the agent are removed too."""
_SAFE_PART: Final = 0.8
"""The part of the delay that is used; the rest is reserved for the latency of a request."""
_SLOW_RETRY_SECONDS: Final = 5.0
"""How long segmentio/kafka-go waits after a failed JoinGroup (`JoinGroupBackoff`); other clients rejoin at once."""
_RETRY_SLACK_SECONDS: Final = 0.05
_LATE_SECONDS: Final = 1.0
"""How much later than its retry a member may join again on a busy machine."""


def is_forming(view: GroupView, *, empty_at: float | None, delay_seconds: float | None, now: float) -> bool:
    """Return whether the group's members certainly wait for their first generation, so that none owns partitions.

    The description alone is no proof: a rebalance that follows another one before its SyncGroup also clears all
    assignments, and cooperative members own partitions then. `empty_at` is when the group was last seen without
    members, None if it was not; `delay_seconds` is `group.initial.rebalance.delay.ms`, None if that is not known.
    """
    if empty_at is None or not delay_seconds or now >= safe_to_join_until(empty_at, delay_seconds):
        return False
    return _awaits_generation(view)


def _awaits_generation(view: GroupView) -> bool:
    return (
        view.state == FORMING_STATE
        and view.protocol_type == CONSUMER
        and bool(view.members)
        and not any(member.has_assignment for member in view.members)
    )


def safe_to_join_until(empty_at: float, delay_seconds: float) -> float:
    """Return until when a member may join without a further delay, in monotonic seconds."""
    return empty_at + _SAFE_PART * delay_seconds


def safe_until(empty_at: float, delay_seconds: float) -> float:
    """Return until when the first rebalance of a group certainly stays open, in monotonic seconds.

    The first consumer joined after `empty_at`; since another member, the agent, joined within the delay, the
    coordinator waits for a second delay.
    """
    return empty_at + (1 + _SAFE_PART) * delay_seconds


def earliest_eviction(empty_at: float, seen_at: float, delay_seconds: float) -> float:
    """Return when to evict members at the earliest, in monotonic seconds, so that no retry extends the rebalance.

    A member that joins in the second delay makes the coordinator wait for a third one. Clients that retry at once must
    be evicted in the first delay; clients that retry after `_SLOW_RETRY_SECONDS` so late in it that they join after the
    second. If no time suits both, or any time does, members are evicted at once. The group was last seen without
    members at `empty_at`, and with members at `seen_at`.
    """
    late = seen_at + 2 * delay_seconds - _SLOW_RETRY_SECONDS + _RETRY_SLACK_SECONDS
    return late if seen_at < late <= safe_to_join_until(empty_at, delay_seconds) else seen_at


@dataclass(kw_only=True, eq=False)
class InitialRebalance:
    """One attempt to lead one group from its first generation; begins before the agent sends its JoinGroup.

    Attributes:
        first_seen: The ids of the members in the first poll that showed any. If the group was empty before, one of them
            was the first to join, and leads.
        begin: No member is evicted before this time (monotonic seconds), see `earliest_eviction`.
        rejoin_until: Until when the agent may join again for its position, see `safe_to_join_until`.
        until: Until when the coordinator certainly holds the rebalance open, see `safe_until`.
        own_client_id: `client.id` of agents.
        on_evict: Called with all members and those that are about to be evicted.
    """

    first_seen: frozenset[str]
    begin: float
    rejoin_until: float
    until: float
    clock: Callable[[], float]
    log: FilteringBoundLogger
    own_client_id: str
    on_evict: Callable[[Iterable[MemberView], Iterable[MemberView]], None] = lambda _all, _evicted: None

    def __post_init__(self) -> None:
        self._rejoins = 0
        self._evictions = 0
        self._evicted_from: GroupView | None = None
        """The group as it was described before the last eviction."""
        self._suspects: frozenset[str] | None = None
        """Who may lead since the last eviction: None before the first poll after it."""

    @property
    def is_open(self) -> bool:
        """Whether anything may be done now or later."""
        return self.clock() < self.until and self._evictions < _MAX_EVICTIONS

    @property
    def is_decided(self) -> bool:
        """Whether nobody can lead but the agent, whoever joins from now on; see `_newcomers`."""
        return self._suspects == frozenset()

    def turn(self, member: Membership, view: GroupView) -> bool:
        """Join again for its position, or evict members that may lead instead of the agent, whose JoinGroup is parked.

        Return whether any member was evicted. Then one that has joined meanwhile may lead: poll again at once.
        """
        if not self.is_open or not _awaits_generation(view):
            return False
        mine = next((one for one in view.members if one.instance_id == member.group_instance_id), None)
        if mine is None or mine.instance_id is None or self._has_other_agent(view, mine):
            return False
        if self._evictions:
            members_ahead = self._newcomers(view, mine)
        else:
            first = self._first(view, mine)
            before = [one for one in _before(view.members, mine) if one not in first]
            if before and self._may_rejoin():
                self._rejoins += 1
                member.release(mine.id, mine.instance_id)  # its JoinGroup fails, and it joins again with another id
                return False
            members_ahead = (*first, *before)
        if not members_ahead or self.clock() < self.begin:
            return False
        return self._evict(member, view, members_ahead)

    def _first(self, view: GroupView, mine: MemberView) -> tuple[MemberView, ...]:
        """Return the members of which one leads: those of the first poll, or all if none of these is left."""
        others = tuple(member for member in view.members if member is not mine)
        return tuple(other for other in others if other.id in self.first_seen) or others

    def _newcomers(self, view: GroupView, mine: MemberView) -> tuple[MemberView, ...]:
        """Return the members that may lead since the last eviction.

        The evicted ones are in the group again with new ids, and joined after the agent, whatever their place in the
        order. A member that joined between the description and the eviction leads if it comes before the agent in the
        order: it is in the first description after the eviction, and its client has more members than before.
        """
        before = self._evicted_from
        if before is None:
            return ()
        if self._suspects is None:
            known = {member.id for member in before.members}
            self._suspects = frozenset(one.id for one in _before(view.members, mine) if one.id not in known)
        if not Counter(map(client_of, view.members)) - Counter(map(client_of, before.members)):
            return ()
        return tuple(member for member in view.members if member.id in self._suspects)

    def _may_rejoin(self) -> bool:
        return self._rejoins < _MAX_REJOINS and self.clock() < self.rejoin_until

    def _evict(self, member: Membership, view: GroupView, members_ahead: tuple[MemberView, ...]) -> bool:
        self.on_evict(view.members, members_ahead)
        if not self.is_open:  # that may have waited for a disk
            return False
        if not self._evictions:  # the time covers later evictions too: the members of this one are back by then
            member.await_return(_SLOW_RETRY_SECONDS + _LATE_SECONDS)
        self._evictions += 1
        self._evicted_from, self._suspects = view, None
        try:
            member.evict(*(one.id for one in members_ahead))
        except kafka_errors.UnknownMemberIdError:
            pass  # one of them has left by itself meanwhile
        except kafka_errors.KafkaError as error:
            # the group is healthy, whichever member leads: the agent continues as an ordinary member
            self.log.warning("initial-rebalance-failed", error=one_line(error))
            self._evictions = _MAX_EVICTIONS
            return False
        self.log.info(
            "evicted-while-forming",
            members=len(members_ahead),
            of=len(view.members) - 1,
            attempt=self._evictions,
            rejoins=self._rejoins,
        )
        return True

    def _has_other_agent(self, view: GroupView, mine: MemberView) -> bool:
        """Return whether another agent is in the group: two agents would evict each other forever."""
        return any(is_agent(member, self.own_client_id) for member in view.members if member is not mine)


def _before(members: Iterable[MemberView], mine: MemberView) -> Iterable[MemberView]:
    for member in members:
        if member is mine:
            return
        yield member
