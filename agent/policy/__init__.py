"""When the agent rebalances a group: a pure state machine. Time is an argument; nothing here touches the network.

A trigger is worth a rebalance if the new plan would read less across racks than the present assignment, by more than
every least saving; then windows, budget and breaker must allow it. Changed partitions and the second round of a
cooperative rebalance do not depend on cost: they always cause a rebalance, except in a group with a member that revokes
nothing round after round.

`model` has the values, `decide` the sequence of checks, `budget` the token bucket and the hourly cap, `windows` the
allowed times, `breaker` the comparison of rebalances with their prediction.
"""

from samerack.agent.policy.breaker import Breaker
from samerack.agent.policy.decide import State, decide, fresh, remembering
from samerack.agent.policy.model import (
    EXEMPT,
    MAX_ROUNDS,
    SECONDS_PER_DAY,
    Action,
    ByteRates,
    Crossing,
    Decision,
    GroupCondition,
    Reason,
    Rules,
    rules_of,
)

__all__ = [
    "EXEMPT",
    "MAX_ROUNDS",
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
]
