"""The states of a takeover: in each step, what may happen, what the agent then does, and the step after it.

`agent.leading.takeover_attempt` does nothing that is not in this table, a test reaches every row of it,
`scripts/simulate` reports which ones took place, and `docs/takeover.md` prints it.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple

from samerack.agent.leading.progress import TakeoverOutcome
from samerack.agent.leading.takeover import HELD_SECONDS, LATE_SECONDS, LEAD_SECONDS, MAX_TRIES


class Step(Enum):
    """The steps of a takeover, in their order."""

    GATHER = "gather"
    HOLD = "hold"
    EVICT = "evict"
    RELEASE = "release"
    REJOIN = "rejoin"


class TakeoverEvent(Enum):
    """What may happen in a step."""

    IS_HELD = "all members have joined, and the broker has given the pending member's id"
    GOT_NO_ID = "the broker gives no id"
    MEMBERS_ARE_SLOW = "a member has not joined within `leading.takeover_wait_seconds`"
    LEADER_WAS_FASTER = "the leader's plan is in force already"
    LEADER_WAS_FASTER_AGAIN = f"the same in try {MAX_TRIES}"
    NOBODY_OWNS_ANYTHING = "the group is in PreparingRebalance, its members are those of before, without partitions"
    GROUP_IS_ANOTHER = "the group is in another state, or has other members"
    HELD_FOR_LONG = f"the group has been held for {HELD_SECONDS:g} s"
    ARE_BACK = "the evicted members are back, or have been waited for"
    DOES_NOT_END = f"the rebalance has not ended within {LEAD_SECONDS:g} s"
    LEADS_ALL = "the rebalance has ended, and the agent leads all members"
    LEADS_SOME = "the rebalance has ended, the agent leads, and an evicted member is outside"
    FOLLOWS = "the rebalance has ended under another leader"
    IS_REBALANCED = "another rebalance has ended under the agent"
    NOBODY_IS_LATE = f"the evicted members have partitions, or {LATE_SECONDS:g} s have passed"
    ENDS = "the agent's membership ends, or a request fails for good"


class Transition(NamedTuple):
    """A row of the table: in one of these steps, what happens, what the agent does, and where that leads."""

    steps: tuple[Step, ...]
    event: TakeoverEvent
    effect: str
    then: Step | TakeoverOutcome


_RELEASE: Final = "releases the pending member"
_NOT_LED: Final = (Step.GATHER, Step.HOLD, Step.EVICT, Step.RELEASE)
TRANSITIONS: Final = (
    Transition((Step.GATHER,), TakeoverEvent.IS_HELD, "sends its ids to the supervisor", Step.HOLD),
    Transition((Step.GATHER,), TakeoverEvent.GOT_NO_ID, _RELEASE, TakeoverOutcome.UNDONE),
    Transition((Step.GATHER,), TakeoverEvent.MEMBERS_ARE_SLOW, _RELEASE, TakeoverOutcome.UNDONE),
    Transition((Step.HOLD,), TakeoverEvent.LEADER_WAS_FASTER, "holds the next rebalance instead", Step.GATHER),
    Transition((Step.HOLD,), TakeoverEvent.LEADER_WAS_FASTER_AGAIN, _RELEASE, TakeoverOutcome.UNDONE),
    Transition(
        (Step.HOLD,),
        TakeoverEvent.NOBODY_OWNS_ANYTHING,
        "evicts the leader, and members that would lead next",
        Step.EVICT,
    ),
    Transition((Step.HOLD,), TakeoverEvent.HELD_FOR_LONG, _RELEASE, TakeoverOutcome.UNDONE),
    Transition((Step.HOLD, Step.EVICT), TakeoverEvent.GROUP_IS_ANOTHER, _RELEASE, TakeoverOutcome.UNDONE),
    Transition((Step.EVICT,), TakeoverEvent.ARE_BACK, _RELEASE, Step.RELEASE),
    Transition((Step.RELEASE,), TakeoverEvent.DOES_NOT_END, _RELEASE, TakeoverOutcome.UNDONE),
    Transition(_NOT_LED, TakeoverEvent.LEADS_ALL, "gives each member its partitions", TakeoverOutcome.LEADS),
    Transition((Step.EVICT, Step.RELEASE), TakeoverEvent.LEADS_SOME, "gives each member its partitions", Step.REJOIN),
    Transition(tuple(Step), TakeoverEvent.FOLLOWS, _RELEASE, TakeoverOutcome.UNDONE),
    Transition(_NOT_LED, TakeoverEvent.ENDS, _RELEASE, TakeoverOutcome.UNDONE),
    Transition((Step.REJOIN,), TakeoverEvent.IS_REBALANCED, "gives the late member its partitions", Step.REJOIN),
    Transition((Step.REJOIN,), TakeoverEvent.NOBODY_IS_LATE, "leads on", TakeoverOutcome.LEADS),
    Transition((Step.REJOIN,), TakeoverEvent.ENDS, "leaves as from any group", TakeoverOutcome.LEADS),
)
_BY_STEP: Final = {(step, row.event): row for row in TRANSITIONS for step in row.steps}


def transition(step: Step, event: TakeoverEvent) -> Transition:
    """Return the row for an event in a step.

    Raises:
        KeyError: The event cannot happen in this step.
    """
    return _BY_STEP[step, event]
