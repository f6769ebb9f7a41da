"""Chooses pairs of subtopology and client between which tasks may be placed, where all pairs would be too many.

Each pair has a limit of its own (KIP-925, 4.B.II), so each is a seat. With a thousand subtopologies and ten thousand
clients hardly any of these seats is used: a plan needs those where tasks are and a few more, and node prices show which
others could improve it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from samerack.assignors.arrays import SCATTER, ranges

if TYPE_CHECKING:
    from samerack.assignors.model import Int32Array, Int64Array

MAX_PAIRS: Final = 400_000
"""Pairs up to which all are used from the start."""
A_FEW: Final = 16
"""Pairs of each client, and of each subtopology in each rack, that are used first, and that are added at a time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """The pairs of G subtopologies and C clients over R racks; pair (g, c) has the number g * C + c.

    Attributes:
        subtopologies: G.
        rack: [C] rack of the client.
        active: [A] clients that have tasks; others get none.
    """

    subtopologies: int
    rack: Int32Array
    active: Int64Array

    @property
    def pairs(self) -> int:
        """Returns the number of pairs that may have tasks."""
        return self.subtopologies * len(self.active)

    def all_pairs(self) -> Int64Array:
        """Return the numbers of all pairs that may have tasks, ascending."""
        return (np.arange(self.subtopologies)[:, np.newaxis] * len(self.rack) + self.active).ravel()

    def first_pairs(self, used: Int64Array) -> Int64Array:
        """Return the pairs in use, and a few of each client and of each subtopology in each rack, ascending."""
        each = np.arange(A_FEW)
        first = (self.active * SCATTER)[:, np.newaxis] + each * (self.subtopologies // A_FEW + 1)
        of_clients = first % self.subtopologies * len(self.rack) + self.active[:, np.newaxis]
        parts = [used, of_clients.ravel()]
        subtopology = np.arange(self.subtopologies)[:, np.newaxis]
        for rack in np.unique(self.rack[self.active]).tolist():
            inside = self.active[self.rack[self.active] == rack]
            turn = (subtopology * SCATTER + each * (len(inside) // A_FEW + 1)) % len(inside)
            parts.append((subtopology * len(self.rack) + inside[turn]).ravel())
        return np.unique(np.concatenate(parts))

    def better_pairs(self, pairs: Int64Array, hub_price: Int64Array, client_price: Int64Array) -> Int64Array:
        """Return pairs that could improve a plan, a few for each client; none if the plan is optimal.

        Args:
            pairs: the pairs of the plan, ascending.
            hub_price: [G, R] node price of a subtopology's tasks that move in the rack.
            client_price: [C] node price of the client; a pair improves the plan if this is higher.
        """
        subtopology, client = np.divmod(pairs, len(self.rack))
        good = hub_price[subtopology, self.rack[client]] < client_price[client]
        have = np.bincount(client[good], minlength=len(self.rack))
        found = [np.empty(0, np.int64)]
        for rack in np.unique(self.rack[self.active]).tolist():
            order = np.argsort(hub_price[:, rack], kind="stable")
            inside = self.active[self.rack[self.active] == rack]
            cheaper = np.searchsorted(hub_price[order, rack], client_price[inside])
            lacking = np.flatnonzero(cheaper > have[inside])
            # among one more than it has there is one that it lacks
            count = np.minimum(cheaper, have[inside] + A_FEW)[lacking]
            at = ranges(np.zeros(len(lacking), np.int64), count)
            found.append(order[at] * len(self.rack) + np.repeat(inside[lacking], count))
        return np.setdiff1d(np.concatenate(found), pairs)
