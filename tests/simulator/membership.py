"""The agent's real membership, observed, and its real poller of groups, which the model answers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, Final

from kafka.protocol.metadata import FindCoordinatorRequest

from samerack.agent.leading.membership import Hold, Membership
from samerack.cluster.group_member import Assign, Joined
from samerack.cluster.group_poller import GroupPoller
from samerack.cluster.wire import Answer, Question
from tests.simulator.broker import describe, find
from tests.simulator.process import Process


class ObservedMembership(Membership):
    """`agent.leading.membership.Membership` on a simulated process."""

    def __init__(self, client: Any, *, assign: Assign, **arguments: Any) -> None:
        process: Process = client.net.process
        self._process = process
        super().__init__(client, assign=partial(_plan, process, assign), **arguments)

    def trigger(self, reason: str) -> None:
        """As the leader, trigger a rebalance with the next join."""
        self._process.triggers(reason)
        super().trigger(reason)

    def nudge(self) -> None:
        """As a follower, trigger a rebalance with the next join."""
        self._process.triggers("nudge" if self.hold_state is Hold.NONE else "takeover")
        super().nudge()


def _plan(process: Process, assign: Assign, joined: Joined) -> dict[str, bytes]:
    process.planned = joined.generation
    if len(joined.members) > 1:  # alone, there is nothing to plan
        process.spend(process.plan_ms)
    return assign(joined)


# the poller of groups: it runs on the timeline, and the model answers

_POLL_MS: Final = 500


class _Wire:
    """Answers at once, from the coordinator's current state."""

    def __init__(self, process: Process) -> None:
        self._network = process.network

    def ask(self, questions: Sequence[Question], _seconds: float) -> Iterable[Answer]:
        """The answers to some requests."""
        return [Answer(question=one, response=self._response(one)) for one in questions]

    def _response(self, question: Question) -> Any:
        if isinstance(question.request, FindCoordinatorRequest):
            return find(question.request, self._network)
        return describe(question.request, self._network, question.broker)


def polling(process: Process) -> GroupPoller:
    """Start a poller on this process."""
    wire: Any = _Wire(process)
    poller = GroupPoller(wire, seconds=_POLL_MS / 1000)

    def poll() -> None:
        poller.poll_once()
        process.host.later(_POLL_MS, poll, repeats=True)

    process.host.later(0, poll, repeats=True)
    return poller
