"""When the agent backs off from a group, for how long, and when it returns: a pure state machine.

Each cause has one rule (`RULES`). Outside the group the agent continues to poll it. Time is an argument.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from samerack.common.errors import AgentError

CALM_SECONDS: Final = 600.0
"""After this time since the last pause, or the length of that pause if longer, pauses have the first length again."""
MOST_FAILED: Final = 3
"""After so many fall-back plans in a row the group's own leader would plan as well."""
MOST_REJECTED: Final = 3
SOON_SECONDS: Final = 10.0
"""A rebalance so soon after a plan, with the same members and subscriptions and not asked for by the agent, counts as a
rejection of the plan."""
REFRESH_SECONDS: Final = 600.0
"""Within twice the clients' default `metadata.max.age.ms` every member has seen a change of the cluster."""
MOST_LOST: Final = 3
LOST_SECONDS: Final = 600.0
"""After MOST_LOST lost memberships in this time the agent backs off."""


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
    PLANS_FAILED = "plans-failed"
    PLANS_REJECTED = "plans-rejected"
    GIVEN_PARTITIONS = "given-partitions"
    UNSOUND_LEADER = "unsound-leader"
    NO_PLACE = "no-safe-place"
    PLACE_LOST = "place-lost"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """The rule of one cause.

    Attributes:
        seen: what the agent sees.
        first_seconds: the first pause.
        most_seconds: the longest pause; each is twice the one before it.
        gone: the condition for a return besides the end of the pause; empty if the agent just tries again.
    """

    seen: str
    first_seconds: float
    most_seconds: float
    gone: str = ""


RULES: Final[Mapping[Cause, Rule]] = MappingProxyType(
    {
        Cause.FENCED: Rule(
            seen="another agent with this instance id has taken the membership over",
            first_seconds=0,
            most_seconds=0,
            gone="an election has made this agent the active one again; without `election.group`, a restart",
        ),
        Cause.CONVERTED: Rule(
            seen="the group has no classic leader any more: a member of the new protocol (KIP-848) has converted it",
            first_seconds=5,
            most_seconds=600,
            gone="the brokers call the group classic",
        ),
        Cause.FOREIGN_AGENT: Rule(
            seen="another member without topics leads, under another instance id",
            first_seconds=5,
            most_seconds=600,
            gone="it is no member any more",
        ),
        Cause.EVICTED: Rule(
            seen=f"the membership was lost {MOST_LOST} times in {LOST_SECONDS / 60:g} minutes, while the agent ran",
            first_seconds=60,
            most_seconds=3600,
        ),
        Cause.NOT_ALLOWED: Rule(
            seen="the brokers do not allow being in the group, or seeing its topics",
            first_seconds=2,
            most_seconds=60,
            gone="the group's topics may be seen",
        ),
        Cause.NO_SHARED_PROTOCOL: Rule(
            seen="the brokers refuse the agent: the group's members share no protocol name with `leading.protocols`",
            first_seconds=10,
            most_seconds=600,
        ),
        Cause.UNREADABLE: Rule(
            seen="the subscription of a member cannot be read, so that no plan could cover the member",
            first_seconds=5,
            most_seconds=600,
            gone="every subscription can be read",
        ),
        Cause.TOPICS_UNKNOWN: Rule(
            seen="topics of the group could not be looked at within `leading.deadline_seconds`",
            first_seconds=2,
            most_seconds=60,
            gone="the group's topics have been looked at",
        ),
        Cause.STARVED: Rule(
            seen="a plan would give nothing to a member although its topics have partitions enough",
            first_seconds=60,
            most_seconds=3600,
        ),
        Cause.PLANS_FAILED: Rule(
            seen=f"no plan passes the check, or {MOST_FAILED} plans in a row were the fall-back's",
            first_seconds=60,
            most_seconds=3600,
        ),
        Cause.PLANS_REJECTED: Rule(
            seen=f"{MOST_REJECTED} plans in a row were each followed within {SOON_SECONDS:g} s by a rebalance of the "
            "same members with the same subscriptions that the agent did not ask for",
            first_seconds=60,
            most_seconds=3600,
        ),
        Cause.GIVEN_PARTITIONS: Rule(
            seen="the group's leader goes on giving partitions to the agent",
            first_seconds=600,
            most_seconds=3600,
        ),
        Cause.UNSOUND_LEADER: Rule(
            seen="the group's leader uses an assignor that gives partitions to members without topics (kafkajs's)",
            first_seconds=2,
            most_seconds=10,
            gone="all consumers have stopped, and start again",
        ),
        Cause.NO_PLACE: Rule(
            seen="the group's leader may give partitions to the agent in every place",
            first_seconds=600,
            most_seconds=3600,
        ),
        Cause.PLACE_LOST: Rule(
            seen="a dynamic agent's place is gone: the members before it have left, or the coordinator does not know "
            "the member id that it reserved; it might be given partitions",
            first_seconds=2,
            most_seconds=60,
        ),
    }
)


class BackOffError(AgentError):
    """The agent must stay out of a group for a while; it leaves properly and reports why."""

    def __init__(self, cause: Cause, reason: str = "") -> None:
        super().__init__(reason or RULES[cause].seen)
        self.cause = cause


# how long


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """The last pause for one cause."""

    seconds: float
    until: float


@dataclass(frozen=True, slots=True, kw_only=True)
class BackOffState:
    """The state of one group: the last pause for each cause, and the last cause."""

    pauses: Mapping[Cause, Pause] = field(default_factory=dict)
    last: Cause | None = None

    def is_out(self, now: float) -> bool:
        """Returns whether a pause is in effect."""
        return any(now < pause.until for pause in self.pauses.values())

    def seconds(self, cause: Cause) -> float:
        """Returns the length of the last pause for a cause."""
        pause = self.pauses.get(cause)
        return pause.seconds if pause is not None else 0.0


def backed_off(state: BackOffState, cause: Cause, now: float) -> BackOffState:
    """Returns the state after a cause has occurred, for the first time or again."""
    rule, last = RULES[cause], state.pauses.get(cause)
    again = last is not None and now - last.until < max(CALM_SECONDS, last.seconds)
    seconds = min(rule.most_seconds, 2 * last.seconds) if last is not None and again else rule.first_seconds
    return BackOffState(pauses={**state.pauses, cause: Pause(seconds=seconds, until=now + seconds)}, last=cause)


# what a group does with the agent's plans


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRecord:
    """One plan that went to the group.

    Attributes:
        at: when, in seconds.
        subscriptions: topics by id of the members that it was for. Members with a pattern rejoin once each when a topic
            appears, each after its own metadata refresh: that is no rejection of the plan.
        failed: it is a plan of the fall-back.
        withheld: partitions were withheld for the next round.
        asked: the agent itself had asked for the rebalance.
        changed: partitions or replicas of its topics differ from the plan before. Each librdkafka member rejoins once
            for that too, after its own metadata refresh, with an unchanged subscription.
    """

    at: float
    subscriptions: Mapping[str, frozenset[str]]
    failed: bool = False
    withheld: bool = False
    asked: bool = False
    changed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanHealth:
    """How the plans and memberships of one group succeed.

    Attributes:
        failed: plans in a row that were the fall-back's.
        rejected: plans in a row after each of which the group rebalanced soon.
        expected: rebalances that members may still start because partitions or replicas have changed.
        expected_until: until when they are expected.
        last: the last plan.
        lost: when memberships were lost.
    """

    failed: int = 0
    rejected: int = 0
    expected: int = 0
    expected_until: float = 0.0
    last: PlanRecord | None = None
    lost: tuple[float, ...] = ()

    @property
    def cause(self) -> Cause | None:
        """The cause to back off, or None."""
        if self.failed >= MOST_FAILED:
            return Cause.PLANS_FAILED
        if self.rejected >= MOST_REJECTED:
            return Cause.PLANS_REJECTED
        return Cause.EVICTED if len(self.lost) >= MOST_LOST else None


def planned(health: PlanHealth, sent: PlanRecord) -> PlanHealth:
    """Returns the health after a plan."""
    last = health.last
    rejected = (
        last is not None
        and not last.withheld
        and not sent.asked
        and sent.subscriptions == last.subscriptions
        and sent.at - last.at < SOON_SECONDS
    )
    expected, until = health.expected, health.expected_until
    if sent.changed:
        expected, until = len(sent.subscriptions), sent.at + REFRESH_SECONDS
    if rejected and expected and sent.at < until:
        rejected, expected = False, expected - 1
    return replace(
        health,
        failed=health.failed + 1 if sent.failed else 0,
        rejected=health.rejected + 1 if rejected else 0,
        expected=expected,
        expected_until=until,
        last=sent,
    )


def lost(health: PlanHealth, now: float) -> PlanHealth:
    """Returns the health after the membership was lost although the agent did not leave."""
    return replace(health, lost=(*(one for one in health.lost if now - one < LOST_SECONDS), now))


# both together, for one group


class BackOff:
    """Back-offs and plan health of one group for as long as the agent runs."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """Starts without pauses and failures.

        Args:
            clock: Seconds, monotonic.
        """
        self._clock = clock
        self._state = BackOffState()
        self._health = PlanHealth()
        self.reason = ""
        """Why the agent is out, or was last."""

    @property
    def is_out(self) -> bool:
        """Whether a pause is in effect."""
        return self._state.is_out(self._clock())

    @property
    def is_wary(self) -> bool:
        """Whether the agent last backed off because of a foreign agent, so that it stays out while there is one."""
        return self._state.last is Cause.FOREIGN_AGENT

    @property
    def waits_for_topics(self) -> bool:
        """Whether the agent last left because topics were unknown, so that it stays out until they are known."""
        return self._state.last is Cause.TOPICS_UNKNOWN

    def start(self, cause: Cause, reason: str) -> float:
        """Starts a pause for this cause; returns its length in seconds."""
        self._state = backed_off(self._state, cause, self._clock())
        self._health = replace(self._health, failed=0, rejected=0, expected=0, last=None, lost=self._health.lost[1:])
        self.reason = reason
        return self._state.seconds(cause)

    def planned(self, sent: PlanRecord) -> None:
        """Records a plan that was sent to the group.

        Raises:
            BackOffError: Too many plans in a row failed or were rejected.
        """
        self._heed(planned(self._health, sent))

    def lost(self) -> None:
        """Records that the membership was lost although the agent did not leave.

        Raises:
            BackOffError: That happened too often.
        """
        self._heed(lost(self._health, self._clock()))

    def _heed(self, health: PlanHealth) -> None:
        self._health = health
        if health.cause is not None:
            raise BackOffError(health.cause)
