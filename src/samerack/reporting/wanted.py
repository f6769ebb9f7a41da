"""How many members the groups that the agent leads need in which rack: for metrics, API, page and `samerack plan`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from prometheus_client.core import Metric
from prometheus_client.registry import Collector
from pydantic import TypeAdapter

from samerack.cluster.view import ClusterView
from samerack.common import words
from samerack.common.money import SECONDS_PER_MONTH, PriceTable
from samerack.common.records import LEADING
from samerack.common.weights import FULL_LOAD
from samerack.planning.members_wanted import RackMembers, members_wanted
from samerack.traffic.board import Published
from samerack.traffic.metrics import gauge
from samerack.traffic.snapshot import GroupTraffic

_SECONDS: Final = 60.0
"""The numbers of a group are computed again after this time ..."""
_TIMES: Final = 100.0
"""... or after this multiple of the time that the computation took: nothing is measured meanwhile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MembersWanted:
    """How many members a group needs in each rack of the brokers.

    Attributes:
        saved_dollars_per_month: what the best balanced plan of now reads across racks; None if that is not known.
        text: the same in words.
    """

    racks: tuple[RackMembers, ...]
    saved_dollars_per_month: float | None
    text: str


JSON: Final = TypeAdapter(MembersWanted | None)
"""A group's in the JSON of `GET /v1/status`."""


def in_words(racks: Sequence[RackMembers], saved: float | None) -> str:
    """Return where more members are wanted, and where fewer would do; `saved` is in dollars a month."""
    more = [f"{rack.wanted - rack.members} more in {rack.rack}" for rack in racks if rack.wanted > rack.members]
    fewer = [
        f"{rack.members - rack.wanted} fewer would do in {rack.rack}" for rack in racks if rack.wanted < rack.members
    ]
    if more:
        price = f", and save up to {words.monthly(saved)}" if saved else ""
        more = [
            f"{' and '.join(more)} would let everything be read near, with no member above "
            f"{words.percent(FULL_LOAD)} of what it can read{price}"
        ]
    return "; ".join([*more, *fewer]) or "each rack has as many as it needs"


@dataclass(eq=False, repr=False, kw_only=True)
class WantedMembers(Collector):
    """The numbers of all groups that the agent leads, each at most a minute old, of the largest groups ten.

    Attributes:
        roles: returns the agent's role in each group.
        capacity_of: returns the bytes per second that one member of a group can read; None if not known.
    """

    prices: PriceTable
    roles: Callable[[], Mapping[str, str]]
    capacity_of: Callable[[str], float | None]
    clock: Callable[[], float] = time.monotonic
    _known: Mapping[str, tuple[float, MembersWanted | None]] = field(default_factory=dict, init=False)
    """By group: when it is due again, and what it was. Replaced as a whole, so that any thread may read it."""

    def take(self, published: Published) -> None:
        """Compute the numbers that are due, of one publication; on the thread that publishes."""
        roles, snapshot = self.roles(), published.snapshot
        led = [group for group in snapshot.groups if roles.get(group.group) == LEADING]
        known = {group.group: self._known[group.group] for group in led if group.group in self._known}
        for group in led:
            begin = self.clock()
            if group.group not in known or begin >= known[group.group][0]:
                wanted = self._compute(group, snapshot.cluster)
                end = self.clock()
                known[group.group] = end + max(_SECONDS, _TIMES * (end - begin)), wanted
        self._known = known

    def of(self, group: str) -> MembersWanted | None:
        """Return the numbers of a group; None if they are not known, or the agent does not lead it."""
        return self.all().get(group)

    def all(self) -> dict[str, MembersWanted]:
        """Return all numbers that are known, by group."""
        roles = self.roles()
        return {
            group: wanted
            for group, (_, wanted) in self._known.items()
            if wanted is not None and roles.get(group) == LEADING
        }

    def collect(self) -> Iterator[Metric]:
        """Yield the gauge."""
        known = sorted(self.all().items())
        yield gauge(
            "samerack_members_wanted",
            "Members with which all is read near and none is too loaded, by rack of the brokers.",
            ("group", "rack"),
            (((group, rack.rack), rack.wanted) for group, wanted in known for rack in wanted.racks),
        )

    def _compute(self, group: GroupTraffic, cluster: ClusterView) -> MembersWanted | None:
        capacity = self.capacity_of(group.group)
        if capacity is None or group.problem is None:
            return None
        rates, shares = group.long_run_rates, group.shares
        racks = members_wanted(group.problem, cluster, rates, capacity)
        if racks is None:
            return None
        saved = None
        if shares.optimal is not None and shares.optimal_by == "bytes":
            saved = self.prices.dollars(shares.optimal * sum(rates.values())) * SECONDS_PER_MONTH
        return MembersWanted(racks=racks, saved_dollars_per_month=saved, text=in_words(racks, saved))
