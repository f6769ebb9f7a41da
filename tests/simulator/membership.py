"""The agent's real membership, observed: it notifies the simulation before the real code acts."""

from __future__ import annotations

from functools import partial
from typing import Any

from samerack.agent.leading.membership import Membership
from samerack.cluster.group_member import Assign, Joined
from tests.simulator.process import Process


class ObservedMembership(Membership):
    """`agent.leading.membership.Membership` on a simulated process."""

    def __init__(self, client: Any, *, assign: Assign, **arguments: Any) -> None:
        process: Process = client._net.process
        self._process = process
        super().__init__(client, assign=partial(_plan, process, assign), **arguments)

    def trigger(self, reason: str) -> None:
        """As the leader, trigger a rebalance with the next join."""
        self._process.triggers(reason)
        super().trigger(reason)

    def nudge(self) -> None:
        """As a follower, trigger a rebalance with the next join."""
        self._process.triggers("nudge")
        super().nudge()


def _plan(process: Process, assign: Assign, joined: Joined) -> dict[str, bytes]:
    process.planned = joined.generation
    if len(joined.members) > 1:  # alone, there is nothing to plan
        process.spend(process.plan_ms)
    return assign(joined)
