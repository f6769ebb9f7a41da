"""The circuit breaker: stops rebalances for some time after several in a row did not save what was predicted.

Each rebalance for racks or traffic is on trial. It fails if the group, stable again, reads hardly less across racks
with the assignment in force, if the brokers that serve its members say so, or if the group rebalances again and again
right after it. It succeeds if none of that has happened after a minute. If members, racks or replicas change meanwhile,
the prediction is void, and the trial ends without a result.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from samerack.agent.policy.condition import CrossRackShare, GroupCondition
from samerack.agent.policy.reasons import TOLERANCE
from samerack.settings.policy import PolicyRules

UNDISTURBED_SECONDS: Final = 60.0
MAX_OTHERS: Final = 3
"""Rebalances of others that may follow in that time: members that join or leave with it, one by one."""
SETTLED_SECONDS: Final = 10.0
"""While its coordinator moves, a group described as stable may be out of date for this time."""
PATIENCE_SECONDS: Final = 300.0
"""A trial ends after this time, whether or not bytes have been measured."""
MIN_PART: Final = 0.5
"""The part of the predicted saving that a rebalance must reach."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A rebalance by the agent whose result is checked.

    Attributes:
        at: When it was triggered (seconds, monotonic).
        before: Cross-rack share of the assignment in force then.
        saving: Predicted reduction of that share.
        generation: The group's generation then; 0 if it was not known.
        conditions: Number of the conditions of the prediction, see `GroupCondition`.
        crossed: The cross-rack share of bytes then, by the brokers that served; None if it was not measured.
        byte_saving: Predicted reduction of the cross-rack share of bytes.
        byte_share: Predicted cross-rack share of bytes.
        own_rebalances: Rebalances by the agent since, including this one.
        stable: When the group was first seen stable after it: monotonic, and in seconds since 1970.
        brought: Whether the assignment in force has reached the predicted saving.
        undisturbed: Whether UNDISTURBED_SECONDS have passed without too many rebalances of others.
        void: Whether the conditions have changed.
    """

    at: float
    before: float
    saving: float
    generation: int
    conditions: int
    crossed: float | None = None
    byte_saving: float = 0.0
    byte_share: float = 0.0
    own_rebalances: int = 1
    stable: tuple[float, float] | None = None
    brought: bool = False
    undisturbed: bool = False
    void: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Breaker:
    """Failures in a row; when it opened, or None; the present trial, and why the last one failed."""

    failures: int = 0
    opened: float | None = None
    trial: Trial | None = None
    cause: str = ""


def is_open(breaker: Breaker, now: float, rules: PolicyRules) -> bool:
    """Return whether no rebalance is allowed: the pause is not over, or the first one after it is still on trial."""
    if breaker.opened is None:
        return False
    return now < breaker.opened + rules.breaker_seconds or breaker.trial is not None


def reviewed(breaker: Breaker, condition: GroupCondition, now: float, wall: float, rules: PolicyRules) -> Breaker:
    """Return the breaker after a poll of the group, which is stable."""
    trial = breaker.trial
    if trial is None:
        return breaker
    if not trial.undisturbed and now - trial.at >= PATIENCE_SECONDS:
        return replace(breaker, trial=None)  # the agent did not lead meanwhile: what happened since is not its result
    if trial.stable is None:
        trial = replace(trial, stable=(now, wall))
    trial = replace(trial, void=trial.void or condition.conditions != trial.conditions)
    if not trial.undisturbed:
        if (others := _others(trial, condition)) > MAX_OTHERS:
            return _failed(breaker, now, rules, f"the group rebalanced {others} times more right after it")
        trial = replace(trial, undisturbed=now - trial.at >= UNDISTURBED_SECONDS)
    if not trial.brought and not trial.void:
        trial = replace(trial, brought=_has_brought(trial, condition))
        if not trial.brought and _has_settled(trial, condition, now):
            return _failed(breaker, now, rules, _fell_short(trial, condition))
    return _concluded(replace(breaker, trial=trial), trial, condition.crossing, now, rules)


def superseded(breaker: Breaker, condition: GroupCondition, now: float, rules: PolicyRules) -> Breaker:
    """Return the breaker when the next rebalance is due before the last trial has ended."""
    trial = breaker.trial
    if trial is None:
        return breaker
    if not trial.brought and not trial.void:
        return _failed(breaker, now, rules, _fell_short(trial, condition))
    return replace(breaker, trial=None)


def tried(breaker: Breaker, condition: GroupCondition, now: float) -> Breaker:
    """Return the breaker after a rebalance for racks or traffic was triggered."""
    rates, before = condition.rates, condition.present.cross_rack_share
    return replace(
        breaker,
        trial=Trial(
            at=now,
            before=before,
            saving=before - condition.possible.cross_rack_share,
            generation=condition.generation,
            conditions=condition.conditions,
            crossed=condition.crossing.share if condition.crossing is not None else None,
            byte_saving=rates.saving / rates.whole if rates is not None and rates.whole else 0.0,
            byte_share=rates.possible / rates.whole if rates is not None and rates.whole else 0.0,
        ),
    )


def followed(breaker: Breaker) -> Breaker:
    """Return the breaker after a rebalance by the agent for another reason, which must not count as one of others."""
    trial = breaker.trial
    return breaker if trial is None else replace(breaker, trial=replace(trial, own_rebalances=trial.own_rebalances + 1))


def _others(trial: Trial, condition: GroupCondition) -> int:
    if not trial.generation or not condition.generation:
        return 0
    return condition.generation - trial.generation - trial.own_rebalances


def _has_brought(trial: Trial, condition: GroupCondition) -> bool:
    return trial.before - condition.present.cross_rack_share >= MIN_PART * trial.saving - TOLERANCE


def _has_settled(trial: Trial, condition: GroupCondition, now: float) -> bool:
    if condition.withheld and not condition.stuck:
        return False
    return trial.stable is not None and now - trial.stable[0] >= SETTLED_SECONDS


def _concluded(
    breaker: Breaker, trial: Trial, crossing: CrossRackShare | None, now: float, rules: PolicyRules
) -> Breaker:
    """Return the breaker with the trial's result, if it is due."""
    if not trial.undisturbed:
        return breaker
    if trial.void:
        return replace(breaker, trial=None)
    over = now - trial.at >= PATIENCE_SECONDS
    if not trial.brought:
        return replace(breaker, trial=None) if over else breaker
    if trial.crossed is None or trial.byte_saving <= TOLERANCE:
        return Breaker()
    if crossing is None or trial.stable is None or crossing.at < trial.stable[1]:
        return Breaker() if over else breaker
    if _is_near_what_was_predicted(trial, crossing.share):
        return Breaker()
    brought = trial.crossed - crossing.share
    if brought >= MIN_PART * trial.byte_saving - TOLERANCE:
        return Breaker()
    return _failed(
        breaker, now, rules, f"by the brokers that serve its members, {_too_little(trial.byte_saving, brought)}"
    )


def _is_near_what_was_predicted(trial: Trial, crossed: float) -> bool:
    """Return whether the share is near the prediction: the share before may not show a change that just happened."""
    return crossed <= trial.byte_share + (1 - MIN_PART) * trial.byte_saving + TOLERANCE


def _failed(breaker: Breaker, now: float, rules: PolicyRules, cause: str) -> Breaker:
    failures = breaker.failures + 1
    opens = breaker.opened is not None or failures >= rules.breaker_failures
    return Breaker(failures=failures, opened=now if opens else None, cause=cause)


def _fell_short(trial: Trial, condition: GroupCondition) -> str:
    return _too_little(trial.saving, trial.before - condition.present.cross_rack_share)


def _too_little(predicted: float, brought: float) -> str:
    return f"it brought {100 * brought:.1f} points of cross-rack share where {100 * predicted:.1f} were predicted"
