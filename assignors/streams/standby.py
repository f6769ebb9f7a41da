"""Places standby tasks at least cost, on arrays: exactly, while KIP-925 (4.C) swaps pairs.

Objective, exact: each client keeps its number of standbys, no task is twice on one client, every standby goes only to
an allowed group of clients (tags, KIP-708); then

1. cost: traffic cost * changelog partitions read across racks + non-overlap cost * standbys not where they were,
2. moves.

Standbys with the same changelog racks and the same allowed groups share a pool of one flow (`standby_flow`), which
ignores where the actives are. Most solutions of that flow can be assigned to tasks so that no client has a task twice
(`standby_deal`); tasks for which that fails get a node of their own with the clients they may have, and the flow is
solved again. The cost of each flow is a lower bound, so the first that can be assigned is optimal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from samerack.assignors.streams.standby_deal import deal
from samerack.assignors.streams.standby_flow import flow

if TYPE_CHECKING:
    from samerack.assignors.model import Int32Array
    from samerack.assignors.streams.active import Costs
    from samerack.assignors.streams.standby_model import Standbys

PATIENCE: Final = 6
"""Flows after which every task gets a node of its own: slower, but this flow is the last."""


def cost_of(standbys: Standbys, costs: Costs, placed: Int32Array) -> int:
    """Return the cost of a placement; a standby on a client that had a standby of its task has not moved."""
    stays = np.isin(standbys.pairs(standbys.task, placed), standbys.pairs(standbys.task, standbys.client))
    traffic = int(standbys.traffic(standbys.task, standbys.group[placed]).sum())
    return traffic * costs.traffic + int((~stays).sum()) * costs.non_overlap


def optimize_standby(standbys: Standbys, costs: Costs) -> Int32Array:
    """Compute the client of every standby, [U], at least cost (objective above).

    Args:
        standbys: the standbys and their current clients.
        costs: the costs that apply.

    Complexity: a few flows with arcs in the number of pools * current clients, and of tasks with an own node * clients.
    """
    if not len(standbys.task):
        return standbys.client
    alone = np.zeros(len(standbys.remote), np.bool_)
    rounds = 0
    while True:
        placed, wrong = deal(standbys, alone, flow(standbys, costs, alone))
        if not len(wrong):
            return placed
        rounds += 1
        alone[standbys.task[wrong]] = True
        if rounds >= PATIENCE:
            alone[:] = True
