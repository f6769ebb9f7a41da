"""The circuit breaker: after some rebalances in a row that did not bring what was predicted, there are none for a time.

Each rebalance for racks or traffic is on trial. It fails when the group, stable again, reads hardly less across racks
by the assignment in force; when the bytes that are measured afterwards say so; or when the group rebalances again and
again right after it. It succeeds when a minute has passed and nothing of that has come true. Where members, racks or
replicas change meanwhile, what was predicted is void, and the trial ends without a verdict.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from agent.leading.policy.model import TOLERANCE, Crossing, GroupCondition, Rules, share

CALM_SECONDS: Final = 60.0
MOST_OTHERS: Final = 3
"""So many rebalances of others may follow ours in that time: members that come or go with it, one by one."""
SETTLED_SECONDS: Final = 10.0
"""A look at a group that is stable may be an old one for as long as its coordinator moves."""
PATIENCE_SECONDS: Final = 300.0
"""A trial ends by then, whether or not bytes have been measured."""
LEAST_PART: Final = 0.5
"""The part of what was predicted that a rebalance must bring."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A rebalance of ours that is watched.

    Attributes:
        at: When it was triggered (seconds, monotonic).
        before: Cross-rack share of the assignment in force then.
        saving: What was predicted to go of it.
        generation: The group's then; 0 where it was not known.
        conditions: Under which the prediction was made.
        crossed: The measured share then; None where it was not measured.
        byte_saving: What was predicted to go of that.
        byte_share: What was predicted to be left.
        ours: Rebalances of ours since, this one among them.
        stable: When the group was first seen stable after it: monotonic, and in seconds since 1970.
        brought: Whether the assignment in force has brought it.
        calm: Whether no storm followed.
        void: Whether the conditions are others.
    """

    at: float
    before: float
    saving: float
    generation: int
    conditions: int
    crossed: float | None = None
    byte_saving: float = 0.0
    byte_share: float = 0.0
    ours: int = 1
    stable: tuple[float, float] | None = None
    brought: bool = False
    calm: bool = False
    void: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Breaker:
    """Failures in a row; when it opened, unless it is closed; what is on trial, and why the last one failed."""

    failures: int = 0
    opened: float | None = None
    trial: Trial | None = None
    cause: str = ""


def is_open(breaker: Breaker, now: float, rules: Rules) -> bool:
    """Whether no rebalance is allowed: the time is not over, or the one that is allowed after it is still on trial."""
    if breaker.opened is None:
        return False
    return now < breaker.opened + rules.breaker_seconds or breaker.trial is not None


def reviewed(breaker: Breaker, situation: GroupCondition, now: float, wall: float, rules: Rules) -> Breaker:
    """The breaker after a look at the group, which is stable."""
    trial = breaker.trial
    if trial is None:
        return breaker
    if not trial.calm and now - trial.at >= PATIENCE_SECONDS:
        return replace(breaker, trial=None)  # not led meanwhile: what happened since is not of its making
    if trial.stable is None:
        trial = replace(trial, stable=(now, wall))
    trial = replace(trial, void=trial.void or situation.conditions != trial.conditions)
    if not trial.calm:
        if (others := _others(trial, situation)) > MOST_OTHERS:
            return _failed(breaker, now, rules, f"the group rebalanced {others} times more right after it")
        trial = replace(trial, calm=now - trial.at >= CALM_SECONDS)
    if not trial.brought and not trial.void:
        trial = replace(trial, brought=_has_brought(trial, situation))
        if not trial.brought and _has_settled(trial, situation, now):
            return _failed(breaker, now, rules, _too_little(trial.saving, trial.before - share(situation.present)))
    return _concluded(replace(breaker, trial=trial), trial, situation.crossing, now, rules)


def superseded(breaker: Breaker, situation: GroupCondition, now: float, rules: Rules) -> Breaker:
    """The breaker when the next rebalance is due before the trial of the last one is over."""
    trial = breaker.trial
    if trial is None:
        return breaker
    if not trial.brought and not trial.void:
        return _failed(breaker, now, rules, _too_little(trial.saving, trial.before - share(situation.present)))
    return replace(breaker, trial=None)


def tried(breaker: Breaker, situation: GroupCondition, now: float) -> Breaker:
    """The breaker after a rebalance for racks or traffic was triggered."""
    rates, before = situation.rates, share(situation.present)
    return replace(
        breaker,
        trial=Trial(
            at=now,
            before=before,
            saving=before - share(situation.possible),
            generation=situation.generation,
            conditions=situation.conditions,
            crossed=situation.crossing.share if situation.crossing is not None else None,
            byte_saving=rates.saving / rates.whole if rates is not None and rates.whole else 0.0,
            byte_share=rates.possible / rates.whole if rates is not None and rates.whole else 0.0,
        ),
    )


def followed(breaker: Breaker) -> Breaker:
    """The breaker after a rebalance of ours for another reason: it is not to be taken for one of others."""
    trial = breaker.trial
    return breaker if trial is None else replace(breaker, trial=replace(trial, ours=trial.ours + 1))


def _others(trial: Trial, situation: GroupCondition) -> int:
    if not trial.generation or not situation.generation:
        return 0
    return situation.generation - trial.generation - trial.ours


def _has_brought(trial: Trial, situation: GroupCondition) -> bool:
    return trial.before - share(situation.present) >= LEAST_PART * trial.saving - TOLERANCE


def _has_settled(trial: Trial, situation: GroupCondition, now: float) -> bool:
    if situation.withheld and not situation.stuck:
        return False
    return trial.stable is not None and now - trial.stable[0] >= SETTLED_SECONDS


def _concluded(breaker: Breaker, trial: Trial, crossing: Crossing | None, now: float, rules: Rules) -> Breaker:
    """The breaker with the trial's verdict, where it is due."""
    if not trial.calm:
        return breaker
    if trial.void:
        return replace(breaker, trial=None)
    over = now - trial.at >= PATIENCE_SECONDS
    if not trial.brought:
        return replace(breaker, trial=None) if over else breaker
    if trial.crossed is None or trial.byte_saving <= TOLERANCE:
        return Breaker()
    if crossing is None or trial.stable is None or crossing.since < trial.stable[1]:
        return Breaker() if over else breaker
    if _is_near_what_was_predicted(trial, crossing.share):
        return Breaker()
    brought = trial.crossed - crossing.share
    if brought >= LEAST_PART * trial.byte_saving - TOLERANCE:
        return Breaker()
    return _failed(breaker, now, rules, f"by measured bytes, {_too_little(trial.byte_saving, brought)}")


def _is_near_what_was_predicted(trial: Trial, crossed: float) -> bool:
    """Whether as little crosses as it should; what crossed before says nothing of a change that has just happened."""
    return crossed <= trial.byte_share + (1 - LEAST_PART) * trial.byte_saving + TOLERANCE


def _failed(breaker: Breaker, now: float, rules: Rules, cause: str) -> Breaker:
    failures = breaker.failures + 1
    opens = breaker.opened is not None or failures >= rules.breaker_failures
    return Breaker(failures=failures, opened=now if opens else None, cause=cause)


def _too_little(predicted: float, brought: float) -> str:
    return f"it brought {100 * brought:.1f} points of cross-rack share where {100 * predicted:.1f} were predicted"
