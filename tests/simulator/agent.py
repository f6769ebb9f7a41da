"""The agent in the simulation: the real leader of one group on a simulated process. The only place that builds one.

The group's thread with its sessions, admission, position, evaluator, policy, planner and reporter, the membership,
and kafka-python with its connections are real. The event loop, sockets, the watch of the cluster, threads' events and
the clock are replaced.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import cache, partial
from types import SimpleNamespace
from typing import Any, Final
from unittest import mock

import structlog
from kafka import util
from kafka.net import connection, selector
from kafka.protocol.metadata import FindCoordinatorRequest

from samerack.agent.leading import assigning, responsibility
from samerack.agent.leading import leader as leader_module
from samerack.agent.leading import membership as membership_module
from samerack.agent.leading import parts as parts_module
from samerack.agent.leading.group_memory import GroupMemory, GroupSizes
from samerack.agent.leading.leader import GroupLeader
from samerack.agent.leading.membership import Hold, Membership
from samerack.agent.leading.parts import build_group_parts
from samerack.agent.metrics import Metrics
from samerack.agent.policy.back_off_causes import Cause
from samerack.agent.supervisor.protocol import HAND_OVER_SECONDS
from samerack.auth.kafka_config import for_kafka_python
from samerack.cluster import client, connections, group_member, group_poller
from samerack.cluster.diagnosis import Diagnoses
from samerack.cluster.group_member import Assign, Joined
from samerack.cluster.group_poller import GroupPoller
from samerack.cluster.wire import BrokerRequest, BrokerResponse
from samerack.common.shared_threads import SharedThreads
from samerack.events import EventLog
from samerack.settings.all_settings import Settings
from tests.simulator.broker import describe, find
from tests.simulator.leadership import SimulatedLeadership
from tests.simulator.loop import SimulatedConnections, VirtualLoop
from tests.simulator.place import RACKS, Watch
from tests.simulator.process import Killed, Process, Signal

GROUP: Final = "orders"
_EPOCH: Final = 1_750_000_000.0
_POLL_MS: Final = 500
_ON_PLAYED_TIME: Final[tuple[Any, ...]] = (
    assigning,
    connection,
    connections,
    group_member,
    leader_module,
    membership_module,
    responsibility,
    selector,
    util,
)
"""Modules whose heartbeats and timeouts use the played time: a leap of hours would let them expire."""


@cache
def settings_of(instance_id: str, takeover: str) -> Settings:
    """The default settings, except those that depend on the environment."""
    return Settings.model_validate(
        {
            "kafka": {"bootstrap.servers": "simulated:9092"},
            "leading": {"instance_id": instance_id, "takeover": takeover, "weigh_by": "partitions"},
            "racks": {"client_ids": {f"*-{rack}": rack for rack in RACKS}},
        }
    )


@cache
def _metrics() -> Metrics:
    """One instance for all agents: no test reads it, and each instance costs a millisecond."""
    return Metrics()


_DIAGNOSES: Final = Diagnoses()
_DIAGNOSES.end_attempts = False  # as in an agent's process


class ObservedMembership(Membership):
    """The agent's real membership on a simulated process, observed."""

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


class _Wire:
    """Answers at once, from the coordinator's current state."""

    def __init__(self, process: Process) -> None:
        self._network = process.network

    def ask(self, questions: Sequence[BrokerRequest], _seconds: float) -> Iterable[BrokerResponse]:
        """The answers to some requests."""
        return [BrokerResponse(question=one, response=self._response(one)) for one in questions]

    def _response(self, question: BrokerRequest) -> Any:
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


# an agent


@contextmanager
def simulated() -> Iterator[None]:
    """In this context, leaders use the current simulated process, and nothing is logged."""
    played = SimpleNamespace(
        monotonic=lambda: _current().played_seconds(),
        time=lambda: _EPOCH + _current().seconds(),
        perf_counter=time.perf_counter,
        sleep=lambda seconds: _current().sleep(seconds),
    )
    replaced: list[tuple[Any, str, Any]] = [
        (leader_module, "Membership", ObservedMembership),
        (group_poller, "time", SimpleNamespace(monotonic=lambda: _current().seconds())),
        (client, "NetworkSelector", VirtualLoop),
        (client, "Connections", SimulatedConnections),
        (client, "_DIAGNOSES", _DIAGNOSES),
        (
            connections,
            "random",
            SimpleNamespace(choice=lambda items: items[0], sample=lambda items, _: items, uniform=_middle),
        ),
        *((module, "time", played) for module in _ON_PLAYED_TIME),
    ]
    with ExitStack() as stack:
        for module, name, value in replaced:
            stack.enter_context(mock.patch.object(module, name, value))
        logger = logging.getLogger("kafka")
        stack.callback(partial(logger.setLevel, logger.level))
        logger.setLevel(logging.CRITICAL + 1)
        configured = structlog.get_config()
        structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
        stack.callback(lambda: structlog.configure(**configured))
        yield


def build(
    process: Process,
    *,
    settings: Settings,
    watch: Watch,
    leadership: SimulatedLeadership | None,
    evicted: GroupMemory,
    sizes: GroupMemory,
    broke: Callable[[Exception], None],
    backs_off: Callable[[Cause], None],
    notify: Callable[[], None],
    group_type: Callable[[str], str],
) -> GroupLeader:
    """Build the leader of the group on this process; the caller runs it with `run`.

    `evicted` and `sizes` are what the agent keeps over a restart. `broke` is called with its unexpected errors,
    `backs_off` with causes, and `notify` when it reports its member ids.
    """
    before, Process.current = Process.current, process
    try:

        def wall() -> float:
            return _EPOCH + process.seconds()

        cluster_watch: Any = watch
        kept = GroupSizes(None)
        kept._memory = sizes
        led_by: Any = leadership
        with mock.patch.object(parts_module, "time", SimpleNamespace(monotonic=process.seconds, time=wall)):
            parts = build_group_parts(
                group=GROUP,
                settings=settings,
                watch=cluster_watch,
                foreign_protocols=GroupMemory(None, name="protocols"),
                evicted=evicted,
                sizes=kept,
                group_type=group_type,
                metrics=_metrics(),
                events=EventLog(clock=wall),
                notify_supervisor=notify,
            )
        leader = GroupLeader(
            parts,
            threads=SharedThreads(GROUP),
            client=client.SharedClient(for_kafka_python(settings.kafka)),
            poller=polling(process),
            leadership=led_by,
            hand_over_seconds=HAND_OVER_SECONDS,
        )
        inside: Any = leader
        inside._wake, inside._stopping = Signal(process), Signal(process)
        inside._parts = replace(inside._parts, clock=process.seconds)
        inside._parts.position.clock = process.seconds
        inside._parts.evaluator.wall = wall
        back_off = inside._parts.admission.back_off

        def start(cause: Cause, reason: str = "") -> float:
            backs_off(cause)
            return float(type(back_off).start(back_off, cause, reason))

        back_off.start = start
        inside.reporter.broke = lambda error, _pause: broke(error)
    finally:
        Process.current = before
    return leader


def run(leader: GroupLeader) -> None:
    """Do the leader's work on its process, without threads."""
    inside: Any = leader
    steps: Any = leader.work()
    pause = next(steps, None)
    while pause is not None:
        try:
            (inside._wake if pause.may_hurry else inside._stopping).wait(pause.seconds)
        except Killed as killed:
            steps.throw(killed)  # its work ends where it waits
        leader.resume(pause)
        pause = next(steps, None)


def _current() -> Process:
    assert Process.current is not None
    return Process.current


def _middle(least: float, most: float) -> float:
    return (least + most) / 2
