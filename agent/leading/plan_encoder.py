"""Encodes the plans of one group so that its coordinator can write them: a group is one record in the brokers' topic.

User data makes a plan larger, so only members that need it are given some, and none if the record would be too large
or the last SyncGroup failed as it does then. A plan that is too large without it is not sent. All of it runs on the
network thread while the group waits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from samerack.agent.policy.back_off_causes import BackOffError, Cause
from samerack.cluster.group import GroupView
from samerack.cluster.group_member import Joined
from samerack.cluster.group_record import LIMIT_KEY, OFFSETS_TOPIC, member_bytes, record_bytes, too_large_reason
from samerack.cluster.watch import ClusterWatch
from samerack.planning import planner
from samerack.planning.members import PlanMember
from samerack.protocol.consumer import encode_assignment
from samerack.protocol.values import NO_PARTITIONS, Assignment

_EMPTY_ASSIGNMENT: Final = encode_assignment(Assignment(version=0, partitions=NO_PARTITIONS))


class PlanEncoder:
    """What is known of the records that the brokers write for one group."""

    def __init__(self, group: str, watch: ClusterWatch) -> None:
        """Start without a failure."""
        self._group = group
        self._watch = watch
        self._has_failed = False
        """Whether the last SyncGroup was answered with an unknown error."""
        self._size = 0
        self._has_data = False
        self._refused: float = float("inf")
        """The smallest size of a record with user data whose SyncGroup was answered with an unknown error."""
        self.given: frozenset[bytes] = frozenset()
        """User data that members were given with their assignments."""

    def see(self, others: GroupView) -> None:
        """Store what members of a stable group were given."""
        self.given = frozenset(one.given_data for one in others.members if one.given_data)

    def encode(
        self, plan: planner.Plan, members: Sequence[PlanMember], joined: Joined, view: GroupView | None
    ) -> dict[str, bytes]:
        """Return the assignment of every member in the JoinGroup response.

        Raises:
            BackOffError: The brokers cannot write the plan.
        """
        data = {} if self._has_failed else planner.user_data_of(plan, members, generation=joined.generation)
        empty = dict.fromkeys((member for member, _, _ in joined.members), _EMPTY_ASSIGNMENT)
        for user_data in (data, {}) if data else ({},):
            encoded = empty | planner.encode(plan, members, user_data)
            self._size, self._has_data = _size(self._group, joined, encoded, view), bool(user_data)
            reason = too_large_reason(self._size, self._watch.record_limit)
            if not (reason or (user_data and self._size >= self._refused)):
                self.given |= set(user_data.values())
                return encoded
        raise BackOffError(Cause.RECORD_TOO_LARGE, reason)

    def synced(self, error: Exception | None) -> None:
        """Record an unknown error that answers SyncGroup, as it is when the group's record is too large, or success.

        Raises:
            BackOffError: Twice in a row, although the second plan had no user data: without the agent it is smaller.
        """
        if error is not None and self._has_data:
            self._refused = min(self._refused, self._size)
        has_failed, self._has_failed = self._has_failed, error is not None
        if error is None or not has_failed:
            return
        self._has_failed = False
        limit = self._watch.record_limit
        raise BackOffError(
            Cause.RECORD_TOO_LARGE,
            "brokers answered SyncGroup with an unknown error twice in a row, as if the group's record in "
            f"{OFFSETS_TOPIC} were too large (KAFKA-3590); the agent's last plan made it {self._size} bytes, and "
            f"{LIMIT_KEY} of that topic is {'not known' if limit is None else limit}",
        ) from error


def _size(group: str, joined: Joined, assignments: Mapping[str, bytes], view: GroupView | None) -> int:
    """Return the size of the group's record with these assignments."""
    described = {one.id: (one.client_id, f"/{one.client_host}") for one in view.members} if view is not None else {}
    return record_bytes(
        group,
        (
            member_bytes(member, instance, described.get(member), len(metadata) + len(assignments[member]))
            for member, instance, metadata in joined.members
        ),
    )
