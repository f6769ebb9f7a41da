"""The states of a takeover: in each step, what may happen, what the agent then does, and the step after it.

`agent.leading.takeover_attempt` does nothing that is not in this table, the simulator shows that all of it happens, and
`docs/takeover.md` prints it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

from samerack.agent.leading.progress import Outcome


class Step(Enum):
    """The steps of a takeover, in their order."""

    GATHER = "gather"
    HOLD = "hold"
    EVICT = "evict"
    RELEASE = "release"
    REJOIN = "rejoin"


class Event(Enum):
    """What may happen in a step."""

    IS_HELD = "all members have joined, and the broker has given the pending member's id"
    GOT_NO_ID = "the broker gives no id"
    MEMBERS_ARE_SLOW = "a member has not joined within `leading.takeover_wait_seconds`"
    LEADER_WAS_FASTER = "the leader's plan is in force already"
    LEADER_WAS_FASTER_AGAIN = "the same for the fourth time"
    NOBODY_OWNS_ANYTHING = "the group is in PreparingRebalance, its members are those of before, without partitions"
    GROUP_IS_ANOTHER = "the group is in another state, or has other members"
    HELD_FOR_LONG = "the group has been held for 4 s"
    ARE_BACK = "the evicted members are back, or have been waited for"
    DOES_NOT_END = "the rebalance has not ended within 10 s"
    LEADS_ALL = "the rebalance has ended, and the agent leads all members"
    LEADS_SOME = "the rebalance has ended, the agent leads, and an evicted member is outside"
    FOLLOWS = "the rebalance has ended under another leader"
    IS_REBALANCED = "another rebalance has ended under the agent"
    NOBODY_IS_LATE = "the evicted members have partitions, or 15 s have passed"
    ENDS = "the agent's membership ends, or a request fails for good"


@dataclass(frozen=True, slots=True, kw_only=True)
class Transition:
    """A row of the table: in one of these steps, what happens, what the agent does, and where that leads."""

    steps: tuple[Step, ...]
    event: Event
    effect: str
    then: Step | Outcome


_RELEASE: Final = "releases the pending member"
_NOT_LED: Final = (Step.GATHER, Step.HOLD, Step.EVICT, Step.RELEASE)
TRANSITIONS: Final = tuple(
    Transition(steps=steps, event=event, effect=effect, then=then)
    for steps, event, effect, then in (
        ((Step.GATHER,), Event.IS_HELD, "sends its ids to the supervisor", Step.HOLD),
        ((Step.GATHER,), Event.GOT_NO_ID, _RELEASE, Outcome.UNDONE),
        ((Step.GATHER,), Event.MEMBERS_ARE_SLOW, _RELEASE, Outcome.UNDONE),
        ((Step.HOLD,), Event.LEADER_WAS_FASTER, "holds the next rebalance instead", Step.GATHER),
        ((Step.HOLD,), Event.LEADER_WAS_FASTER_AGAIN, _RELEASE, Outcome.UNDONE),
        ((Step.HOLD,), Event.NOBODY_OWNS_ANYTHING, "evicts the leader, and members that would lead next", Step.EVICT),
        ((Step.HOLD,), Event.HELD_FOR_LONG, _RELEASE, Outcome.UNDONE),
        ((Step.HOLD, Step.EVICT), Event.GROUP_IS_ANOTHER, _RELEASE, Outcome.UNDONE),
        ((Step.EVICT,), Event.ARE_BACK, _RELEASE, Step.RELEASE),
        ((Step.RELEASE,), Event.DOES_NOT_END, _RELEASE, Outcome.UNDONE),
        (_NOT_LED, Event.LEADS_ALL, "gives each member its partitions", Outcome.LEADS),
        ((Step.EVICT, Step.RELEASE), Event.LEADS_SOME, "gives each member its partitions", Step.REJOIN),
        (tuple(Step), Event.FOLLOWS, _RELEASE, Outcome.UNDONE),
        (_NOT_LED, Event.ENDS, _RELEASE, Outcome.UNDONE),
        ((Step.REJOIN,), Event.IS_REBALANCED, "gives the late member its partitions", Step.REJOIN),
        ((Step.REJOIN,), Event.NOBODY_IS_LATE, "leads on", Outcome.LEADS),
        ((Step.REJOIN,), Event.ENDS, "leaves as from any group", Outcome.LEADS),
    )
)  # fmt: skip
_BY_STEP: Final = {(step, row.event): row for row in TRANSITIONS for step in row.steps}


def transition(step: Step, event: Event) -> Transition:
    """Return the row for an event in a step.

    Raises:
        KeyError: The event cannot happen in this step.
    """
    return _BY_STEP[step, event]
