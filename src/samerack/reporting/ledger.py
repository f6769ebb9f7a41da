"""Money since the agent's start: what the bytes of each group would have cost under the group's own assignor.

It receives every publication of the traffic board.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from samerack.common.money import PriceTable
from samerack.common.records import LEADING
from samerack.reporting.costs import summed
from samerack.traffic.board import Published
from samerack.traffic.snapshot import GroupTraffic


@dataclass(eq=False, repr=False)
class Ledger:
    """Dollars by group under the group's own assignor; they never decrease while the board has the group's bytes.

    `own_share` returns the cross-rack share of a group's own assignor.
    """

    prices: PriceTable
    roles: Callable[[], Mapping[str, str]]
    own_share: Callable[[GroupTraffic], float | None]
    _dollars: dict[str, float] = field(default_factory=dict, init=False)
    _unknown: set[str] = field(default_factory=set, init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)

    def take(self, published: Published) -> None:
        """Add what groups that this agent counts have read since the last publication.

        While the agent leads, it adds the share of the group's own assignor, or nothing if that is not known; else
        what really crossed, since the group's own assignor caused that.
        """
        roles = self.roles()
        groups = {group.group: group for group in published.snapshot.groups}
        with self._lock:
            kept = groups.keys() | {key.group for key in published.totals}
            self._dollars = {name: dollars for name, dollars in self._dollars.items() if name in kept}
            self._unknown &= kept
        for name, read in summed(published.counted, lambda flow: flow.key.group).items():
            group = groups.get(name)
            booked: float | None = read.known_crossing
            if group is not None and roles.get(name) == LEADING:
                own = self.own_share(group)
                booked = own * read.known if own is not None and booked is not None else None
            with self._lock:
                if booked is None:
                    self._unknown.add(name)
                else:
                    self._unknown.discard(name)
                    self._dollars[name] = self._dollars.get(name, 0.0) + self.prices.dollars(booked)

    def dollars(self) -> dict[str, float]:
        """Return dollars by group since the agent's start, without groups for which they are not known now."""
        with self._lock:
            return {group: dollars for group, dollars in self._dollars.items() if group not in self._unknown}
