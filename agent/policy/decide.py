"""Decides what to do about a group, in a sequence of checks, and keeps state for the next decision."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Final, TypeAlias
from zoneinfo import ZoneInfo

from cronsim import CronSim

from samerack.agent.policy import breaker as breakers
from samerack.agent.policy.breaker import Breaker
from samerack.agent.policy.condition import GroupCondition
from samerack.agent.policy.reasons import SECONDS_PER_DAY, TOLERANCE, Action, Decision, Reason, why_cheaper
from samerack.settings.policy import PolicyRules, WindowSettings

# Windows in which rebalances may be triggered: each opens by a cron expression and stays open for some minutes.
#
# Cron expressions work as in Debian's cron, also at clock changes: a window in a skipped hour opens right after it, and
# one in a repeated hour opens once. The minutes are elapsed time.


def next_opening(windows: Iterable[WindowSettings], wall: float) -> float | None:
    """Return when the next of at least one window opens; None if one is open now. Times are in seconds since 1970."""
    opening = min(_opening(window, wall) for window in windows)
    return None if opening <= wall else opening


def _opening(window: WindowSettings, wall: float) -> float:
    """Return when the window that is open now opened, or else when the next one opens."""
    seconds = window.minutes * 60.0
    earliest = datetime.fromtimestamp(wall - seconds, UTC).astimezone(ZoneInfo(window.timezone))
    for start in CronSim(window.cron, earliest):
        opens = start.timestamp()
        if opens + seconds > wall:  # in a repeated hour CronSim may return a start before `earliest`
            return opens
    return float("inf")


HOUR_SECONDS: Final = 3600.0
_ERRORS: Final = 2.0
"""A rebalance for traffic alone must save more than this number of standard errors of what it saves."""
_ABOVE: Final = 1.0
"""... and exceed the minimum by this number: it is asked every few seconds, and noise would eventually pass."""
_LAG_SECONDS: Final = 3600.0
"""A pause delays all partitions: it must be shorter than the lag, or than what that would grow in this time."""
_RELIEVED_PER_DAY: Final = 3
"""Rebalances a day that take load from members whose lag grows; one more gives it back."""
_REPEATED_SECONDS: Final = 3600.0
"""After so long without lag or uneven load a rebalance for it is proposed anew: lag comes and goes within minutes."""
_UNMEASURED_SECONDS: Final = 600.0
"""How long bytes are waited for that a minimum needs: a group is measured within some minutes, or not at all."""
_Refusal: TypeAlias = tuple[Reason, float | None]
"""Why not, and until when (seconds since 1970), if known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """The rebalance budget: a token bucket for bursts, and a cap for any hour.

    `tokens` at time `at` (seconds, monotonic), and `spent`, the times of the last hour's rebalances.
    """

    tokens: float
    at: float
    spent: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyState:
    """The state between two decisions.

    Attributes:
        unmeasured: Since when the agent waits for measured bytes (seconds, monotonic).
        proposed: The saving of the open proposal for racks or traffic; None without one.
        relief_proposed: When a rebalance of each open proposal for load or lag was last worth it (seconds, monotonic).
        relieved: When rebalances of the last day took load from members whose lag grew (seconds, monotonic).
    """

    budget: Budget
    breaker: Breaker
    unmeasured: float | None = None
    proposed: float | None = None
    relief_proposed: Mapping[Reason, float] = field(default_factory=dict)
    relieved: tuple[float, ...] = ()


def fresh(rules: PolicyRules, now: float) -> PolicyState:
    """Return the state at the start: a full budget, a closed breaker."""
    return PolicyState(budget=Budget(tokens=float(rules.burst), at=now), breaker=Breaker())


def remembering(state: PolicyState, times: Iterable[float]) -> PolicyState:
    """Add rebalances of the last hour that were triggered before the start (seconds, monotonic).

    They count for the hourly cap, not for the bucket.
    """
    spent = tuple(sorted({*state.budget.spent, *times}))
    return replace(state, budget=replace(state.budget, spent=spent))


def taking_over(state: PolicyState, now: float, rules: PolicyRules) -> PolicyState:
    """Take a token for a takeover: the policy has not decided it, and the last trial ends without a result."""
    budget = _spent(_refilled(state.budget, now, rules))
    return replace(state, budget=budget, breaker=replace(state.breaker, trial=None))


def decide(
    state: PolicyState, condition: GroupCondition, now: float, wall: float, rules: PolicyRules
) -> tuple[PolicyState, Decision]:
    """Decide about a Stable group that the agent leads; return the state after it and the decision.

    `now` is in seconds, monotonic; `wall` is the same moment in seconds since 1970.
    """
    state = replace(
        state,
        budget=_refilled(state.budget, now, rules),
        breaker=breakers.reviewed(state.breaker, condition, now, wall, rules),
    )
    if condition.withheld and not condition.stuck:
        return _required(state, condition, Reason.SECOND_ROUND)
    if condition.partitions_changed:
        if not condition.stuck:
            return _required(state, condition, Reason.PARTITIONS_CHANGED)
        if _budget_refusal(state.budget, rules) is None:
            # a withheld partition has no owner, like a new one: only the budget prevents endless rebalances
            return _required(replace(state, budget=_spent(state.budget)), condition, Reason.PARTITIONS_CHANGED)
    if condition.growing is not None and not condition.ends_lag:
        return state, _decision(condition, Action.SUPPRESS, Reason.NO_ROOM)
    weigh_up = _relieve if condition.growing is not None or condition.relieves else _evaluate
    return weigh_up(state, condition, now, wall, rules)


def _evaluate(
    state: PolicyState, condition: GroupCondition, now: float, wall: float, rules: PolicyRules
) -> tuple[PolicyState, Decision]:
    """Decide by what a rebalance would save, and whether that is enough."""
    closed = replace(state, proposed=None)
    if condition.present.cross_rack_share <= condition.possible.cross_rack_share + TOLERANCE:
        return closed, _decision(condition, Action.NOTHING, Reason.NOTHING_TO_GAIN)
    saving = condition.saving
    if saving <= rules.min_saving + TOLERANCE:
        return closed, _decision(condition, Action.SUPPRESS, Reason.BELOW_MIN_SAVING)
    if why_cheaper(condition) is Reason.TRAFFIC_CHANGED and _is_uncertain(condition, rules):
        return closed, _decision(condition, Action.SUPPRESS, Reason.BELOW_MIN_SAVING)
    if rules.max_pause_seconds and (condition.pause_seconds or 0.0) > rules.max_pause_seconds:
        return closed, _decision(condition, Action.SUPPRESS, Reason.PAUSE_TOO_LONG)
    state, weighed = _weigh(state, condition, now, wall, rules)
    if weighed is not None:
        return state, _decision(condition, Action.SUPPRESS, *weighed)
    if state.proposed is not None and saving <= state.proposed + rules.min_saving + TOLERANCE:
        return state, _decision(condition, Action.NOTHING, Reason.PROPOSED)
    return _unless_refused(state, condition, now, wall, rules)


def _relieve(
    state: PolicyState, condition: GroupCondition, now: float, wall: float, rules: PolicyRules
) -> tuple[PolicyState, Decision]:
    """Decide about a plan that takes load from the most loaded member, whatever it saves in bytes."""
    growing, pause = condition.growing, condition.pause_seconds or 0.0
    if growing is not None:
        if pause >= max(growing.seconds, growing.growth * _LAG_SECONDS):
            return state, _decision(condition, Action.SUPPRESS, Reason.PAUSE_TOO_LONG)
        recent = tuple(at for at in state.relieved if now - at < SECONDS_PER_DAY)
        state = replace(state, relieved=recent)
        most = _RELIEVED_PER_DAY - (not growing.growth)  # the last is kept for lag that grows
        if len(recent) >= most:
            until = wall + recent[-most] + SECONDS_PER_DAY - now
            return state, _decision(condition, Action.SUPPRESS, Reason.OUT_OF_BUDGET, until)
    if rules.max_pause_seconds and pause > rules.max_pause_seconds:
        return state, _decision(condition, Action.SUPPRESS, Reason.PAUSE_TOO_LONG)
    reason, proposed = why_cheaper(condition), state.relief_proposed
    if now - proposed.get(reason, float("-inf")) < _REPEATED_SECONDS:
        state = replace(state, relief_proposed={**proposed, reason: now})
        return state, _decision(condition, Action.NOTHING, Reason.PROPOSED)
    return _unless_refused(state, condition, now, wall, rules)


def _unless_refused(
    state: PolicyState, condition: GroupCondition, now: float, wall: float, rules: PolicyRules
) -> tuple[PolicyState, Decision]:
    """Trigger or propose a rebalance that is worth it, or say why it must wait."""
    state, refused = _refused(state, condition, now, wall, rules)
    if refused is not None:
        if refused[0] is Reason.MEMBER_MAY_BE_AWAY:  # now the rebalance would last as long
            condition = replace(condition, pause_seconds=condition.away_until - now)
        return state, _decision(condition, Action.SUPPRESS, *refused)
    return _act(state, condition, now, rules)


def _is_uncertain(condition: GroupCondition, rules: PolicyRules) -> bool:
    """Return whether what the plan saves in bytes is within what is uncertain in it, or above the minimum by chance."""
    rates = condition.rates
    if rates is None:
        return True
    return rates.saving <= max(_ERRORS * rates.error, rules.min_saving * rates.whole + _ABOVE * rates.error)


def _weigh(
    state: PolicyState, condition: GroupCondition, now: float, wall: float, rules: PolicyRules
) -> tuple[PolicyState, _Refusal | None]:
    """Return why the saving in bytes is not enough; None if it is, is not required, or was not measured in time."""
    if not rules.min_saving_bytes_per_second:
        return state, None
    if condition.rates is not None:
        too_little = condition.rates.saving <= rules.min_saving_bytes_per_second
        return replace(state, unmeasured=None), (Reason.BELOW_MIN_SAVING, None) if too_little else None
    since = now if state.unmeasured is None else state.unmeasured
    left = since + _UNMEASURED_SECONDS - now
    return replace(state, unmeasured=since), (Reason.NOT_MEASURED, wall + left) if left > 0 else None


def _refused(
    state: PolicyState, condition: GroupCondition, now: float, wall: float, rules: PolicyRules
) -> tuple[PolicyState, _Refusal | None]:
    """Return why a rebalance that is worth it must wait, and until when; None if it need not."""
    if condition.pause is not None:
        return state, (Reason.PAUSED, condition.pause.until)
    if condition.owns_deleted:
        return state, (Reason.TOPIC_DELETED, None)
    opening = next_opening(rules.windows, wall) if rules.windows else None
    if opening is not None:
        return state, (Reason.OUTSIDE_WINDOW, opening)
    if breakers.is_open(state.breaker, now, rules):
        return state, _broken(state.breaker, now, wall, rules)
    refusal = _budget_refusal(state.budget, rules)
    if refusal is not None:
        reason, until = refusal
        return state, (reason, wall + until - now)
    if condition.away_until > now:  # in mode propose too: who asks for a takeover then asks for a rebalance
        return state, (Reason.MEMBER_MAY_BE_AWAY, wall + condition.away_until - now)
    state = replace(state, breaker=breakers.superseded(state.breaker, condition, now, rules))
    if breakers.is_open(state.breaker, now, rules):
        return state, _broken(state.breaker, now, wall, rules)
    return state, None


def _broken(breaker: Breaker, now: float, wall: float, rules: PolicyRules) -> _Refusal:
    closes = (breaker.opened or 0.0) + rules.breaker_seconds
    return Reason.BREAKER_OPEN, wall + closes - now if closes > now else None


def _act(state: PolicyState, condition: GroupCondition, now: float, rules: PolicyRules) -> tuple[PolicyState, Decision]:
    """Trigger a rebalance, or propose it."""
    reason = why_cheaper(condition)
    state = replace(state, budget=_spent(state.budget))
    if rules.mode == "propose":
        if reason in (Reason.LAG_GROWS, Reason.UNEVEN_LOAD):
            state = replace(state, relief_proposed={**state.relief_proposed, reason: now})
        else:
            state = replace(state, proposed=condition.saving)
        return state, _decision(condition, Action.PROPOSE, reason)
    if reason is Reason.LAG_GROWS:
        state = replace(state, relieved=(*state.relieved, now))
    elif reason is not Reason.UNEVEN_LOAD:  # the breaker judges rebalances by what they save
        state = replace(state, breaker=breakers.tried(state.breaker, condition, now))
    return state, _decision(condition, Action.REBALANCE, reason)


def _required(state: PolicyState, condition: GroupCondition, reason: Reason) -> tuple[PolicyState, Decision]:
    """Trigger a rebalance that the group needs."""
    state = replace(state, breaker=breakers.followed(state.breaker))
    return state, _decision(condition, Action.REBALANCE, reason)


def _decision(condition: GroupCondition, action: Action, reason: Reason, until: float | None = None) -> Decision:
    before, after = condition.shares
    return Decision(
        action=action,
        reason=reason,
        before=before,
        after=after,
        until=until,
        pause_seconds=condition.pause_seconds,
        changes=condition.changes,
        uneven=condition.uneven,
        growing=condition.growing,
    )


def _refilled(budget: Budget, now: float, rules: PolicyRules) -> Budget:
    """Return the budget as it is now."""
    at = max(budget.at, now)
    return Budget(
        tokens=min(float(rules.burst), budget.tokens + (at - budget.at) / rules.refill_seconds),
        at=at,
        spent=tuple(time for time in budget.spent if time > at - HOUR_SECONDS),
    )


def _budget_refusal(budget: Budget, rules: PolicyRules) -> tuple[Reason, float] | None:
    """Return why a refilled budget does not allow a rebalance, and until when; None if it does."""
    if len(budget.spent) >= rules.max_per_hour:
        return Reason.HOURLY_CAP, budget.spent[-rules.max_per_hour] + HOUR_SECONDS
    if budget.tokens < 1:
        return Reason.OUT_OF_BUDGET, budget.at + (1 - budget.tokens) * rules.refill_seconds
    return None


def _spent(budget: Budget) -> Budget:
    """Return the budget after a rebalance."""
    return replace(budget, tokens=budget.tokens - 1, spent=(*budget.spent, budget.at))
