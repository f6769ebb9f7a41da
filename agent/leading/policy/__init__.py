"""When the agent rebalances a group: a pure state machine. Time is an argument; nothing here touches the network.

A trigger is worth acting on when the plan at hand would read less across racks than the present assignment, by more
than every least saving; then windows, budget and breaker must allow it. Changed partitions and the second round of a
cooperative rebalance are not a matter of cost: they are followed whatever those say, but for a group whose member
gives up nothing round after round.

`model` has the values, `decide` the ladder, `budget` the bucket and the hour, `windows` the times that are allowed,
`breaker` the trials of what was predicted.
"""

from agent.leading.policy.breaker import Breaker
from agent.leading.policy.decide import State, decide, fresh, remembering
from agent.leading.policy.model import (
    EXEMPT,
    MOST_ROUNDS,
    SECONDS_PER_DAY,
    Action,
    ByteRates,
    Crossing,
    Decision,
    GroupCondition,
    Reason,
    Rules,
    rules_of,
    share,
)

__all__ = [
    "EXEMPT",
    "MOST_ROUNDS",
    "SECONDS_PER_DAY",
    "Action",
    "Breaker",
    "ByteRates",
    "Crossing",
    "Decision",
    "GroupCondition",
    "Reason",
    "Rules",
    "State",
    "decide",
    "fresh",
    "remembering",
    "rules_of",
    "share",
]
