"""How long real groups stand still for their leader: between the last JoinGroup and SyncGroup, as the agent counts it.

Groups of librdkafka's consumers on a real broker, led by a running agent; members are replaced one after the other, so
that the group rebalances again and again. The figures are those of `samerack_join_to_sync_seconds`.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, Self

from sandbox.admin import Admin, wait_until
from sandbox.agent_process import AgentProcess
from sandbox.cluster import Cluster

SIZES: Final = (3, 30, 300)
PARTITIONS_PER_MEMBER: Final = 4
_REPLACED: Final = 10
_PER_PROCESS: Final = 100
_SETTLE_SECONDS: Final = 3.0
"""After this time without another plan the group has settled."""
_METRIC: Final = "samerack_join_to_sync_seconds"


def measure() -> list[dict[str, Any]]:
    """Returns for each size how many plans were sent, and the seconds from the last JoinGroup to SyncGroup."""
    with Cluster() as cluster, Admin(cluster.bootstrap) as admin:
        return [_measure(cluster.bootstrap, admin, size) for size in SIZES]


def _measure(bootstrap: str, admin: Admin, size: int) -> dict[str, Any]:
    group = topic = f"live-{size}"
    count = size * PARTITIONS_PER_MEMBER
    admin.create_topic(topic, [[1 + number % 3, 1 + (number + 1) % 3] for number in range(count)])
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        agent = stack.enter_context(AgentProcess(bootstrap, groups=[group], log=folder / "agent.log"))
        agent.wait_role("waiting")
        processes = [
            stack.enter_context(_Members(bootstrap, group, first, min(_PER_PROCESS, size - first)))
            for first in range(0, size, _PER_PROCESS)
        ]
        agent.wait_role("leading")
        _settled(agent)
        for number in range(min(_REPLACED, size)):
            processes[number // _PER_PROCESS].replace(number)
            _settled(agent)
        buckets = {float(one.labels["le"]): one.value for one in agent.samples(f"{_METRIC}_bucket")}
        total, plans = (sum(one.value for one in agent.samples(f"{_METRIC}_{what}")) for what in ("sum", "count"))
        return {
            "members": size,
            "partitions": count,
            "plans": int(plans),
            "mean_seconds": total / plans,
            "at_most_seconds": min(bound for bound, below in buckets.items() if below >= plans),
        }


def _settled(agent: AgentProcess) -> None:
    """Waits until no plan has been sent for a while."""
    seen = (-1, 0.0)

    def rests() -> bool:
        nonlocal seen
        plans = len(agent.events("plan-sent"))
        if plans != seen[0]:
            seen = (plans, time.monotonic())
        return time.monotonic() - seen[1] > _SETTLE_SECONDS

    wait_until(rests, "the group has settled", timeout=180)


class _Members:
    """A process with members; a context manager that ends it."""

    def __init__(self, bootstrap: str, group: str, first: int, count: int) -> None:
        line = [sys.executable, "-m", "benchmarks.live_members", bootstrap, group, group, str(first), str(count)]
        self._process = subprocess.Popen(line, stdin=subprocess.PIPE, text=True)  # noqa: S603 - our own module

    def replace(self, number: int) -> None:
        """Replaces one member by a new one."""
        assert self._process.stdin is not None  # noqa: S101 - Popen was called with a pipe
        self._process.stdin.write(f"{number}\n")
        self._process.stdin.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
