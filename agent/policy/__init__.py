"""When the agent rebalances a group: a pure state machine. Time is an argument; nothing here touches the network.

A trigger is worth a rebalance if the new plan would read less across racks than the present assignment, by more than
every minimum saving; then windows, budget and breaker must allow it. Changed partitions and the second round of a
cooperative rebalance do not depend on cost: they always cause a rebalance, except in a group with a member that revokes
nothing round after round.

`condition` has what is known of a group, `reasons` every decision and reason with its texts, `decide` the sequence of
checks with windows and budget, `breaker` the comparison of rebalances with their prediction.
"""

from samerack.agent.policy.breaker import Breaker
from samerack.agent.policy.condition import MAX_ROUNDS, ByteRates, Changes, CrossRackShare, GroupCondition
from samerack.agent.policy.decide import PolicyState, decide, fresh, remembering, taking_over
from samerack.agent.policy.reasons import (
    EXEMPT,
    REFUSALS,
    SECONDS_PER_DAY,
    TRIGGERS,
    WAITS,
    Action,
    Decision,
    Reason,
    rules_of,
)

__all__ = [
    "EXEMPT",
    "MAX_ROUNDS",
    "REFUSALS",
    "SECONDS_PER_DAY",
    "TRIGGERS",
    "WAITS",
    "Action",
    "Breaker",
    "ByteRates",
    "Changes",
    "CrossRackShare",
    "Decision",
    "GroupCondition",
    "PolicyState",
    "Reason",
    "decide",
    "fresh",
    "remembering",
    "rules_of",
    "taking_over",
]
