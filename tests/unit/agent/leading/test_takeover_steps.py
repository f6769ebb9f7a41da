"""Each transition of the table takes place, and leads where the table says."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

import pytest

from samerack.agent.leading import takeover_attempt
from samerack.agent.leading.membership import Hold
from samerack.agent.leading.progress import TakeoverOutcome
from samerack.agent.leading.takeover import HELD_SECONDS, LATE_SECONDS, MAX_TRIES
from samerack.agent.leading.takeover_attempt import TRANSITIONS, Step, TakeoverEvent, Transition, transition
from samerack.cluster.group import GroupView
from tests.unit.agent.leading.test_takeover import AGENT, M1, M2, M3, STABLE, held
from tests.unit.agent.leading.test_takeover_attempt import NEW, Joining, Stage, led_without_one, released_without_one
from tests.unit.agent.values import group

_ON_THE_WAY: Final = replace(STABLE, state="CompletingRebalance")
_OWNED: Final = replace(STABLE, state="PreparingRebalance")
_REACHED: Final[Mapping[Step, Callable[[], Stage]]] = {
    Step.GATHER: lambda: Stage(Joining(view=_ON_THE_WAY, grants=Hold.ASKED)),
    Step.HOLD: lambda: _after(1, Joining(view=_ON_THE_WAY)),
    Step.EVICT: lambda: _after(1, Joining(back=held(AGENT, M2, M3))),
    Step.RELEASE: lambda: _after(2, Joining()),
    Step.REJOIN: led_without_one,
}
"""An attempt in each step, in which nothing more happens by itself."""


def _after(turns: int, joining: Joining) -> Stage:
    stage = Stage(joining)
    stage.turns(turns)
    return stage


def _turn(stage: Stage, *, seconds: float = 0.0, view: GroupView | None = None, hold: Hold | None = None) -> None:
    stage.now += seconds
    stage.joining.view = view or stage.joining.view
    stage.joining.hold_state = hold or stage.joining.hold_state
    stage.turns()


def _joined(stage: Stage, *, leading: bool, late: bool = False) -> None:
    if late:
        stage.turns()  # notices that an evicted member is not back
    stage.joining.leading = leading
    stage.run.joined(stage.member)


def _fourth_time(stage: Stage) -> None:
    for _ in range(MAX_TRIES):
        _turn(stage, view=_OWNED)


def _sees(stage: Stage, view: GroupView | None, *, seconds: float = 0.0) -> None:
    stage.now += seconds
    stage.run.sees(view)


_HAPPENS: Final[Mapping[TakeoverEvent, Callable[[Stage], None]]] = {
    TakeoverEvent.IS_HELD: lambda stage: _turn(stage, hold=Hold.HELD),
    TakeoverEvent.GOT_NO_ID: lambda stage: _turn(stage, hold=Hold.FAILED),
    TakeoverEvent.MEMBERS_ARE_SLOW: lambda stage: _turn(stage, seconds=5.1),
    TakeoverEvent.LEADER_WAS_FASTER: lambda stage: _turn(stage, view=_OWNED),
    TakeoverEvent.LEADER_WAS_FASTER_AGAIN: _fourth_time,
    TakeoverEvent.NOBODY_OWNS_ANYTHING: lambda stage: _turn(stage, view=held(AGENT, M1, M2, M3)),
    TakeoverEvent.GROUP_IS_ANOTHER: lambda stage: _turn(stage, view=held(AGENT, M2)),
    TakeoverEvent.HELD_FOR_LONG: lambda stage: _turn(stage, seconds=HELD_SECONDS + 0.1),
    TakeoverEvent.ARE_BACK: lambda stage: _turn(stage, view=held(AGENT, NEW, M2, M3)),
    TakeoverEvent.DOES_NOT_END: lambda stage: _turn(stage, seconds=10.1),
    TakeoverEvent.LEADS_ALL: lambda stage: _joined(stage, leading=True),
    TakeoverEvent.LEADS_SOME: lambda stage: _joined(stage, leading=True, late=True),
    TakeoverEvent.FOLLOWS: lambda stage: _joined(stage, leading=False),
    TakeoverEvent.IS_REBALANCED: lambda stage: _joined(stage, leading=True),
    TakeoverEvent.NOBODY_IS_LATE: lambda stage: _sees(stage, group(AGENT, NEW, M2, M3), seconds=LATE_SECONDS + 0.1),
    TakeoverEvent.ENDS: lambda stage: stage.run.end(stage.member),
}


@pytest.mark.parametrize(("step", "event"), [(step, row.event) for row in TRANSITIONS for step in row.steps])
def test_each_transition_takes_place_and_leads_where_the_table_says(
    step: Step, event: TakeoverEvent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last that happens is the event, and the attempt is then in the step, or has the outcome, of the table."""
    seen: list[tuple[Step, TakeoverEvent]] = []
    late = (step, event) == (Step.RELEASE, TakeoverEvent.LEADS_SOME)
    stage = released_without_one() if late else _REACHED[step]()
    assert stage.run.progress.step == step.value

    def recorded(in_step: Step, happened: TakeoverEvent) -> Transition:
        seen.append((in_step, happened))
        return transition(in_step, happened)

    monkeypatch.setattr(takeover_attempt, "transition", recorded)
    _HAPPENS[event](stage)
    then = transition(step, event).then
    assert seen[-1] == (step, event)
    progress = stage.seen[-1]
    assert (progress.outcome if isinstance(then, TakeoverOutcome) else Step(progress.step)) is then
    assert (progress.step == "") is isinstance(then, TakeoverOutcome)


def test_what_the_table_does_not_have_cannot_happen() -> None:
    """An attempt that finds something else fails instead of going on."""
    with pytest.raises(KeyError):
        transition(Step.GATHER, TakeoverEvent.ARE_BACK)
