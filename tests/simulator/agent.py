"""The agent in the simulation: the real leader of one group on a simulated process. The only place that builds one.

Real are the group's thread with its sessions, admission, seat, judge, policy, planner and teller. Replaced are the
membership, the connection, the watch over the cluster, threads' events and the clock.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import cache
from types import SimpleNamespace
from typing import Any, Final
from unittest import mock

import structlog

from agent.events import Events
from agent.leading import leader as leader_module
from agent.leading.leader import GroupLeader
from agent.metrics import Metrics
from common.settings import Settings
from tests.simulator.membership import SimulatedMembership
from tests.simulator.place import RACKS, Watch
from tests.simulator.process import Process, Signal
from tests.simulator.standing import SimulatedStanding

GROUP: Final = "orders"
_EPOCH: Final = 1_750_000_000.0


@cache
def settings_of(instance_id: str, takeover: str) -> Settings:
    """As by default, but for what stands in for an environment."""
    return Settings.model_validate(
        {
            "kafka": {"bootstrap.servers": "simulated:9092"},
            "leading": {"instance_id": instance_id, "takeover": takeover, "weigh_by": "partitions"},
            "racks": {"client_ids": {f"*-{rack}": rack for rack in RACKS}},
        }
    )


@cache
def _metrics() -> Metrics:
    """One for all agents: nobody reads it here, and each costs a millisecond."""
    return Metrics()


@contextmanager
def simulated() -> Iterator[None]:
    """While this lasts leaders are built on the simulated process that runs, and nothing is logged."""
    names: dict[str, Any] = {
        "connect": lambda _config: _current(),
        "close": _close,
        "Membership": _membership,
        "time": SimpleNamespace(monotonic=lambda: _current().seconds(), time=lambda: _EPOCH + _current().seconds()),
    }
    with ExitStack() as stack:
        for name, value in names.items():
            stack.enter_context(mock.patch.object(leader_module, name, value))
        configured = structlog.get_config()
        structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
        stack.callback(lambda: structlog.configure(**configured))
        yield


def build(
    process: Process,
    *,
    settings: Settings,
    watch: Watch,
    standing: SimulatedStanding | None,
    broke: Callable[[Exception], None],
) -> GroupLeader:
    """The leader of the group on this process; whoever builds it runs it with `run`.

    Args:
        process: Where it runs.
        settings: All settings.
        watch: Over the cluster.
        standing: In the election; None without one.
        broke: Told of mistakes of the agent's own.
    """
    before, Process.current = Process.current, process
    try:

        def wall() -> float:
            return _EPOCH + process.seconds()

        looking: Any = watch
        told: Any = standing
        leader = GroupLeader(
            group=GROUP,
            settings=settings,
            watch=looking,
            group_type=lambda _group: "classic",
            metrics=_metrics(),
            events=Events(clock=wall),
            standing=told,
        )
        inside: Any = leader
        inside._wake, inside._stopping = Signal(process), Signal(process)
        inside._parts = replace(inside._parts, clock=process.seconds)
        inside._parts.seat._clock = process.seconds
        inside._parts.judge._wall = wall
        inside._teller.broke = lambda error, _pause: broke(error)
        watch.listen(inside._wake.set)
        if standing is not None:
            standing.listen(inside._wake.set)
    finally:
        Process.current = before
    return leader


def _current() -> Process:
    assert Process.current is not None
    return Process.current


def _close(process: Process) -> None:
    """No connection any more: what the membership hears now comes too late."""
    if isinstance(process.membership, SimulatedMembership):
        process.membership.closed = True


def _membership(client: Process, **arguments: Any) -> SimulatedMembership:
    client.membership = membership = SimulatedMembership(client, **arguments)
    return membership
