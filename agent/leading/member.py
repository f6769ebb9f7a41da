"""The interface of a membership: the real one talks to brokers; a model may replace it in tests."""

from __future__ import annotations

from enum import Enum
from typing import Protocol

from samerack.cluster.group import GroupView
from samerack.protocol.model import TopicPartitions


class Hold(Enum):
    """The state of holding a group in a rebalance in which all members wait and own no partitions."""

    NONE = "none"
    ASKED = "asked"
    HELD = "held"
    FAILED = "failed"


class Member(Protocol):
    """The agent in one consumer group; `agent.leading.membership` documents each part."""

    leader_id: str
    assigned: TopicPartitions
    pending: frozenset[str]
    waited_seconds: float

    @property
    def group_id(self) -> str:
        """The group."""

    @property
    def group_instance_id(self) -> str | None:
        """`group.instance.id` of this membership; None if it is dynamic."""

    @property
    def member_id(self) -> str:
        """The member id that the broker gave, or empty."""

    @property
    def generation_id(self) -> int:
        """The generation of the last JoinGroup response."""

    @property
    def is_outside(self) -> bool:
        """Whether the agent is neither in the group nor joining it."""

    @property
    def is_static(self) -> bool:
        """Whether the membership has an instance id."""

    @property
    def leading(self) -> bool:
        """Whether the last JoinGroup response made this member the leader."""

    @property
    def fenced(self) -> bool:
        """Whether another agent has taken this membership over."""

    @property
    def hold_state(self) -> Hold:
        """The state of holding the group; FAILED if the broker gave no member id to hold it with."""

    @property
    def wants_join(self) -> bool:
        """Whether to call `join`: a join is needed, or one ended while no call waited for it."""

    def describe(self) -> GroupView:
        """Describes the group."""

    def await_return(self, seconds: float) -> None:
        """Delays the sync while alone, for so many seconds: evicted members may need that long to join again."""

    def poll_heartbeat(self) -> None:
        """Acts on the results of the heartbeats."""

    def join(self, timeout: float) -> bool:
        """Joins or rejoins if needed; returns False if the broker still waits for others."""

    def end_by(self, at: float) -> None:
        """Ends every wait at this time (seconds, monotonic), except for the response to `leave`."""

    def leave(self) -> None:
        """Leaves by member id."""

    def offer(self, present: str) -> None:
        """Puts the group's present protocol first."""

    def trigger(self, reason: str) -> None:
        """Makes the next `join` start a rebalance, as the leader."""

    def nudge(self) -> None:
        """Makes the next `join` start a rebalance, as a follower."""

    def rejoin_for_position(self) -> None:
        """Makes the next `join` take a new member id of the same instance id."""

    def reserve(self) -> str:
        """Returns a reserved member id, which delays every rebalance until it joins or is released."""

    def release(self, member_id: str, instance_id: str | None = None) -> bool:
        """Releases a member id; returns whether the brokers knew it."""

    def adopt(self, member_id: str) -> None:
        """Joins with a reserved id from now on, as a member without instance id."""

    def hold(self) -> None:
        """Holds the group from the end of the next JoinGroup that another member leads until `let_go`."""

    def let_go(self) -> None:
        """Ends the hold of the group: releases every reserved id."""

    def evict(self, *member_ids: str) -> None:
        """Removes other members, which join again by themselves."""
