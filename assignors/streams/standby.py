"""Where standby tasks go at least cost, on arrays: what KIP-925 (4.C) does by swapping pairs, done exactly.

Objective, exact: how many standbys each client has stays as it was, no task is twice on one client, every standby goes
only to a group of clients that it may go to (tags, KIP-708); then

1. cost: traffic cost * changelog partitions read across racks + non-overlap cost * standbys not where they were,
2. moves.

Standbys with the same changelog racks and the same allowed groups share a pool of one flow (`standby_flow`), in which
a pool knows nothing of who is active where. Most answers of that flow can be handed out so that no task meets itself
(`standby_deal`); tasks for which that fails get a node of their own with the clients they may have, and the flow is
solved again. Each flow bounds the optimum from below, so the first that can be handed out is optimal.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from assignors.streams.standby_deal import deal
from assignors.streams.standby_flow import flow

if TYPE_CHECKING:
    from assignors.model import BoolArray, Int32Array, Int64Array
    from assignors.streams.active import Costs

PATIENCE: Final = 6
"""Flows after which every task gets a node of its own: slower, but the last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standbys:
    """U standbys of T tasks on C clients in G groups over R racks. Clients of a group have one rack and equal tags.

    Attributes:
        task: [U] task of the standby, ascending.
        client: [U] client that has it, where it costs no move.
        seats: [C] standbys that the client takes.
        remote: [T] row of `remotes`.
        remotes: [K, R] changelog partitions that a client in the rack would read across racks.
        group: [C] group of the client.
        rack: [G] rack of the group.
        kind: [T] row of `allowed`.
        allowed: [L, G] true where a standby may move to.
        stays: [U] true where it may stay.
        fixed_task: [F] tasks that stand elsewhere too, in ways that do not move (active),
        fixed_client: [F] and the clients where: no standby of the task may come there.
    """

    task: Int32Array
    client: Int32Array
    seats: Int64Array
    remote: Int32Array
    remotes: Int64Array
    group: Int32Array
    rack: Int32Array
    kind: Int32Array
    allowed: BoolArray
    stays: BoolArray
    fixed_task: Int32Array
    fixed_client: Int32Array


def cost_of(standbys: Standbys, costs: Costs, placed: Int32Array) -> int:
    """What a placement costs; a standby that is where its task had one has not moved."""
    clients = len(standbys.group)
    moved = np.isin(
        standbys.task.astype(np.int64) * clients + placed, standbys.task * np.int64(clients) + standbys.client
    )
    remote = standbys.remotes[standbys.remote[standbys.task], standbys.rack[standbys.group[placed]]]
    return int(remote.sum()) * costs.traffic + int((~moved).sum()) * costs.non_overlap


def optimize_standby(standbys: Standbys, costs: Costs, *, portable: bool = False) -> Int32Array:
    """The client of every standby, [U], at least cost (objective above).

    Args:
        standbys: the standbys and where they are.
        costs: prices.
        portable: solve with networkx even where OR-Tools is there; same cost, other ties.

    Complexity: a few flows with arcs in the number of pools * present clients, and tasks of their own * clients.
    """
    if not len(standbys.task):
        return standbys.client
    alone = np.zeros(len(standbys.remote), np.bool_)
    rounds = 0
    while True:
        placed, wrong = deal(standbys, alone, flow(standbys, costs, alone, portable=portable))
        if not len(wrong):
            return placed
        rounds += 1
        alone[standbys.task[wrong]] = True
        if rounds >= PATIENCE:
            alone[:] = True
