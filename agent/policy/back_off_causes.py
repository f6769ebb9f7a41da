"""The causes for which the agent backs off from a group, and one rule for each: what it sees, and how long it pauses.

`agent.policy.back_off` applies the rules. `docs/operating.md` shows them as a table; a test compares the two.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from samerack.common.errors import AgentError

MAX_FAILED: Final = 3
"""After this number of fall-back plans in a row the group's own leader would plan equally well."""
MAX_REJECTED: Final = 3
SOON_SECONDS: Final = 10.0
"""A rebalance so soon after a plan, with the same members and subscriptions and not asked for by the agent, counts as a
rejection of the plan."""
MAX_LOST: Final = 3
LOST_SECONDS: Final = 600.0
"""After MAX_LOST lost memberships in this time the agent backs off."""


class Cause(StrEnum):
    """Why the agent backs off."""

    FENCED = "fenced"
    CONVERTED = "converted"
    FOREIGN_AGENT = "foreign-agent"
    EVICTED = "evicted"
    NOT_ALLOWED = "not-allowed"
    NO_SHARED_PROTOCOL = "no-shared-protocol"
    UNREADABLE = "unreadable-member"
    TOPICS_UNKNOWN = "topics-unknown"
    STARVED = "member-without-partitions"
    RECORD_TOO_LARGE = "record-too-large"
    PLANS_FAILED = "plans-failed"
    PLANS_REJECTED = "plans-rejected"
    GIVEN_PARTITIONS = "given-partitions"
    UNSOUND_LEADER = "unsound-leader"
    GIFT = "gift"
    EVICTION_FATAL = "eviction-fatal"
    NO_PLACE = "no-safe-place"
    PLACE_LOST = "place-lost"
    GROUP_FULL = "group-full"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """The rule of one cause.

    Attributes:
        symptom: what the agent sees.
        first_seconds: the first pause.
        max_seconds: the longest pause; each is twice the one before it.
        return_when: the condition for a return besides the end of the pause; empty if the agent just tries again.
    """

    symptom: str
    first_seconds: float
    max_seconds: float
    return_when: str = ""


RULES: Final[Mapping[Cause, Rule]] = MappingProxyType(
    {
        Cause.FENCED: Rule(
            symptom="another agent with this instance id has taken over the membership",
            first_seconds=10,
            max_seconds=600,
            return_when="no member has the instance id any more, or, the first time, the election still holds; a new "
            "election ends the pause",
        ),
        Cause.CONVERTED: Rule(
            symptom="the group has no classic leader any more: a member with the new protocol (KIP-848) converted it",
            first_seconds=5,
            max_seconds=600,
            return_when="the brokers call the group classic",
        ),
        Cause.FOREIGN_AGENT: Rule(
            symptom="another member without topics leads, under another instance id",
            first_seconds=5,
            max_seconds=600,
            return_when="it is no longer a member",
        ),
        Cause.EVICTED: Rule(
            symptom=f"the membership was lost {MAX_LOST} times in {LOST_SECONDS / 60:g} minutes, while the agent ran",
            first_seconds=60,
            max_seconds=3600,
        ),
        Cause.NOT_ALLOWED: Rule(
            symptom="the brokers do not allow the agent in the group, or to see its topics",
            first_seconds=2,
            max_seconds=60,
            return_when="the agent may see the group's topics",
        ),
        Cause.NO_SHARED_PROTOCOL: Rule(
            symptom="the group's members share no protocol name with `leading.protocols`",
            first_seconds=10,
            max_seconds=600,
        ),
        Cause.UNREADABLE: Rule(
            symptom="the subscription of a member cannot be read",
            first_seconds=5,
            max_seconds=600,
            return_when="every subscription can be read",
        ),
        Cause.TOPICS_UNKNOWN: Rule(
            symptom="topics of the group could not be described within `leading.deadline_seconds`",
            first_seconds=2,
            max_seconds=60,
            return_when="the group's topics have been described",
        ),
        Cause.STARVED: Rule(
            symptom="a plan would give a member nothing although there are enough partitions",
            first_seconds=60,
            max_seconds=3600,
        ),
        Cause.RECORD_TOO_LARGE: Rule(
            symptom="the group's record with a plan would be larger than `max.message.bytes` of `__consumer_offsets`, "
            "or SyncGroup failed twice in a row with the unknown error that brokers then send (KAFKA-3590)",
            first_seconds=60,
            max_seconds=3600,
            return_when="the group's record has room for the agent",
        ),
        Cause.PLANS_FAILED: Rule(
            symptom=f"no plan passes the check, or {MAX_FAILED} plans in a row were the fall-back's",
            first_seconds=60,
            max_seconds=3600,
        ),
        Cause.PLANS_REJECTED: Rule(
            symptom=f"{MAX_REJECTED} plans in a row were each followed within {SOON_SECONDS:g} s by a rebalance of the "
            "same members with the same subscriptions that the agent did not ask for",
            first_seconds=60,
            max_seconds=3600,
        ),
        Cause.GIVEN_PARTITIONS: Rule(
            symptom="the group's leader keeps giving partitions to the agent",
            first_seconds=600,
            max_seconds=3600,
        ),
        Cause.UNSOUND_LEADER: Rule(
            symptom="the group's leader uses an assignor that gives partitions to members without topics (kafkajs's)",
            first_seconds=2,
            max_seconds=10,
            return_when="all consumers have stopped and are starting again",
        ),
        Cause.GIFT: Rule(
            symptom="the group's leader gave partitions to the agent with a protocol whose usual assignors do not, or "
            "counts the agent in the members' shares (@platformatic/kafka's)",
            first_seconds=2,
            max_seconds=10,
            return_when="all consumers have stopped and are starting again",
        ),
        Cause.EVICTION_FATAL: Rule(
            symptom="members that the agent evicted did not rejoin, because a JoinGroup error is fatal to some clients "
            "(samsa, kafka_ex); it does not leave, but evicts nobody in the group until `samerack resume`",
            first_seconds=0,
            max_seconds=0,
        ),
        Cause.NO_PLACE: Rule(
            symptom="the group's leader may give partitions to the agent in any position",
            first_seconds=600,
            max_seconds=3600,
        ),
        Cause.PLACE_LOST: Rule(
            symptom="a dynamic agent's place is gone: the members before it left, or the coordinator does not know the "
            "member id that it reserved; it might get partitions",
            first_seconds=2,
            max_seconds=60,
        ),
        Cause.GROUP_FULL: Rule(
            symptom="the group has no room for the agent and one more consumer: the brokers refuse members beyond "
            "`group.max.size`",
            first_seconds=60,
            max_seconds=3600,
            return_when="there is room again, also counting consumers that may just be restarting",
        ),
    }
)


class BackOffError(AgentError):
    """The agent must stay out of a group for a while; it leaves properly and reports why."""

    def __init__(self, cause: Cause, reason: str = "") -> None:
        super().__init__(reason or RULES[cause].symptom)
        self.cause = cause
