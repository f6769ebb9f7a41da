"""What leading asks of a membership, as a type: the real one speaks to brokers, another may stand for it in a model."""

from __future__ import annotations

from enum import Enum
from typing import Protocol

from agent.group import GroupView
from protocol.model import TopicPartitions


class Hold(Enum):
    """How far a membership is with holding its group where everybody waits and nobody has anything."""

    NONE = "none"
    ASKED = "asked"
    HELD = "held"
    FAILED = "failed"


class Member(Protocol):
    """The agent in one consumer group; `agent.leading.membership` says what each part means."""

    leader_id: str
    assigned: TopicPartitions
    pending: frozenset[str]
    waited_seconds: float

    @property
    def group_id(self) -> str:
        """The group."""

    @property
    def group_instance_id(self) -> str | None:
        """`group.instance.id` of this membership; None where it is a dynamic one."""

    @property
    def member_id(self) -> str:
        """The member id that the broker gave, or empty."""

    @property
    def generation_id(self) -> int:
        """The generation of the last JoinGroup answer."""

    @property
    def is_outside(self) -> bool:
        """Whether the agent is in the group neither now nor in a moment."""

    @property
    def is_static(self) -> bool:
        """Whether the membership is bound to the instance id."""

    @property
    def leading(self) -> bool:
        """Whether the last JoinGroup answer made this member the leader."""

    @property
    def fenced(self) -> bool:
        """Whether another agent has taken this membership over."""

    @property
    def hold_state(self) -> Hold:
        """How far it is with holding the group; FAILED where the broker gave no id to hold it with."""

    @property
    def wants_join(self) -> bool:
        """Whether `join` has something to do, or to tell."""

    def describe(self) -> GroupView:
        """One look at the group."""

    def await_return(self, seconds: float) -> None:
        """While alone, do not sync for so many seconds: evicted members may need that long to join again."""

    def poll_heartbeat(self) -> None:
        """Heed what the heartbeats brought."""

    def join(self, timeout: float) -> bool:
        """Join or rejoin where that is needed; False when the broker still waits for others."""

    def end_by(self, at: float) -> None:
        """From this time on (seconds, monotonic) nothing is waited for but the answer to `leave`."""

    def leave(self) -> None:
        """Leave by member id."""

    def offer(self, present: str) -> None:
        """Put the group's present protocol first."""

    def trigger(self, reason: str) -> None:
        """As the leader, start a rebalance with the next `join`."""

    def nudge(self) -> None:
        """As a follower, start a rebalance with the next `join`."""

    def rejoin_for_position(self) -> None:
        """Take a new member id of the same instance id with the next `join`."""

    def reserve(self) -> str:
        """A member id that the broker keeps; it holds up every rebalance until it joins or is released."""

    def release(self, member_id: str) -> None:
        """Give an id back."""

    def adopt(self, member_id: str) -> None:
        """Join under a reserved id from now on, as a member without instance id."""

    def hold(self) -> None:
        """At the end of the next JoinGroup that another leads, hold the group until `let_go`."""

    def let_go(self) -> None:
        """Let the group go on: give every reserved id back."""

    def evict(self, *member_ids: str) -> None:
        """Leave in the name of other members, which join again by themselves."""
