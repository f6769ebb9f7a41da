"""The causes for which the agent backs off from a group, and one rule for each: how long it pauses, and its text.

`agent.policy.back_off` applies the rules. The table in docs/operating.md also says what the agent sees, and what has to
be true before it returns; a test compares causes and pauses.
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
    INTERNAL_ERROR = "internal-error"
    GIVEN_PARTITIONS = "given-partitions"
    UNSOUND_LEADER = "unsound-leader"
    ASSIGNED_WITHOUT_TOPICS = "assigned-without-topics"
    EVICTION_FATAL = "eviction-fatal"
    NO_PLACE = "no-safe-place"
    PLACE_LOST = "place-lost"
    GROUP_FULL = "group-full"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """The rule of one cause.

    Attributes:
        first_seconds: the first pause.
        max_seconds: the longest pause; each is twice the one before it.
        symptom: what the agent sees; empty where every back-off has its own text.
    """

    first_seconds: float
    max_seconds: float
    symptom: str = ""


RULES: Final[Mapping[Cause, Rule]] = MappingProxyType(
    {
        Cause.FENCED: Rule(
            symptom="another agent with this instance id has taken over the membership",
            first_seconds=10,
            max_seconds=600,
        ),
        Cause.CONVERTED: Rule(
            symptom="the group has no classic leader any more: a member with the new protocol (KIP-848) converted it",
            first_seconds=5,
            max_seconds=600,
        ),
        Cause.FOREIGN_AGENT: Rule(first_seconds=5, max_seconds=600),
        Cause.EVICTED: Rule(
            symptom=f"the membership was lost {MAX_LOST} times in {LOST_SECONDS / 60:g} minutes, while the agent ran",
            first_seconds=60,
            max_seconds=3600,
        ),
        Cause.NOT_ALLOWED: Rule(first_seconds=2, max_seconds=60),
        Cause.NO_SHARED_PROTOCOL: Rule(
            symptom="the group's members share no protocol name with `leading.protocols`",
            first_seconds=10,
            max_seconds=600,
        ),
        Cause.UNREADABLE: Rule(first_seconds=5, max_seconds=600),
        Cause.TOPICS_UNKNOWN: Rule(first_seconds=2, max_seconds=60),
        Cause.STARVED: Rule(first_seconds=60, max_seconds=3600),
        Cause.RECORD_TOO_LARGE: Rule(first_seconds=60, max_seconds=3600),
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
        Cause.INTERNAL_ERROR: Rule(first_seconds=60, max_seconds=3600),
        Cause.GIVEN_PARTITIONS: Rule(first_seconds=600, max_seconds=3600),
        Cause.UNSOUND_LEADER: Rule(first_seconds=2, max_seconds=10),
        Cause.ASSIGNED_WITHOUT_TOPICS: Rule(first_seconds=2, max_seconds=10),
        Cause.EVICTION_FATAL: Rule(first_seconds=0, max_seconds=0),
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
        ),
    }
)


class BackOffError(AgentError):
    """The agent must stay out of a group for a while; it leaves properly and reports why."""

    def __init__(self, cause: Cause, reason: str = "") -> None:
        super().__init__(reason or RULES[cause].symptom)
        self.cause = cause
