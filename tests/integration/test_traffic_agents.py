"""Two agents that measure one group together count what a single agent counts, each record once."""

from __future__ import annotations

import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import pytest
from confluent_kafka import Consumer
from prometheus_client.parser import text_string_to_metric_families

from sandbox.admin import wait_until
from sandbox.agent_process import AgentProcess
from sandbox.feeder import Feeder
from tests.integration.scene import INTERLEAVED, A, B, C, Scene

_POLL_SECONDS: Final = 0.5
_OFTEN: Final[dict[str, Any]] = {"traffic__poll_seconds": _POLL_SECONDS, "traffic__probe_seconds": 5}
_RACKS: Final = {f"*-{rack}": rack for rack in (A, B, C)}
_LOST_SECONDS: Final = 12.0
"""At a change of agents: the former agent's session, one poll of each, and a margin for a busy machine."""


class Telling(threading.Thread):
    """A consumer that posts its own counters to an agent, like an application with a sidecar."""

    def __init__(self, scene: Scene, agent: AgentProcess, rack: str) -> None:
        super().__init__(name="telling", daemon=True)
        self.answers: list[int] = []
        self._url = str(agent.events("started")[0]["url"]).replace("/metrics", f"/v1/statistics?group={scene.group}")
        self._ended = threading.Event()
        self._consumer = Consumer(
            {
                "bootstrap.servers": scene.cluster.bootstrap,
                "group.id": scene.group,
                "client.id": f"telling-{rack}",
                "client.rack": rack,
                "partition.assignment.strategy": "range",
                "auto.offset.reset": "earliest",
                "auto.commit.interval.ms": 500,
                "heartbeat.interval.ms": 500,
                "statistics.interval.ms": 500,
                "stats_cb": self._post,
                "log_level": 3,
            }
        )
        self._consumer.subscribe([scene.topic])

    def _post(self, statistics: str) -> None:
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(self._url, statistics.encode(), headers)  # noqa: S310 - the agent's own port
        with suppress(OSError), urllib.request.urlopen(request, timeout=1) as answer:  # noqa: S310 - see above
            self.answers.append(answer.status)

    def run(self) -> None:
        """Poll until the end is requested."""
        while not self._ended.is_set():
            self._consumer.poll(0.1)
        self._consumer.close()

    def __enter__(self) -> Self:
        """Start the thread."""
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        """End the thread."""
        self._ended.set()
        self.join(10)


def counted(*agents: AgentProcess) -> Counter[tuple[str, str]]:
    """The sums of records, bytes and dollars over the agents, by method."""
    sums: Counter[tuple[str, str]] = Counter()
    names = {
        "samerack_consumed_records_total": "records",
        "samerack_consumed_bytes_total": "bytes",
        "samerack_own_assignor_dollars_total": "own",
    }
    for agent in agents:
        for family in text_string_to_metric_families(agent.get("/metrics")[1]):
            for sample in family.samples:
                if sample.name in names:
                    sums[names[sample.name], sample.labels.get("method", "")] += sample.value  # type: ignore[assignment]
    return sums


def records(sums: Counter[tuple[str, str]], *methods: str) -> float:
    """The sum of records over these methods."""
    return sum(count for (what, method), count in sums.items() if what == "records" and method in methods)


def at_rest(*agents: AgentProcess) -> list[Counter[tuple[str, str]]]:
    """The counts of each agent once all records are read, committed and polled by all agents, a standby too."""
    seen: list[list[Counter[tuple[str, str]]]] = []

    def unchanged() -> bool:
        seen.append([counted(agent) for agent in agents])
        time.sleep(4 * _POLL_SECONDS)
        return len(seen) > 3 and all(
            records(one, "exact", "estimated") == records(other, "exact", "estimated")
            for before in seen[-3:-1]
            for one, other in zip(before, seen[-1], strict=True)
        )

    wait_until(unchanged, "nothing more is counted", timeout=60)
    return seen[-1]


@pytest.fixture
def alone(scene: Scene, tmp_path: Path) -> Iterator[AgentProcess]:
    """An agent that measures the group alone, without an election."""
    settings = {
        "traffic.groups": [scene.group],
        "traffic.poll_seconds": _POLL_SECONDS,
        "traffic.probe_seconds": 5,
        "racks.client_ids": _RACKS,
        "election.group": "",
    }
    with AgentProcess(
        scene.cluster.bootstrap, groups=["none"], log=tmp_path / "alone.log", settings=settings
    ) as running:
        yield running


def feed(scene: Scene, seconds: float) -> None:
    """Write records for a while."""
    with Feeder(scene.cluster.bootstrap, {scene.topic: len(INTERLEAVED)}, pause=0.01) as feeder:
        time.sleep(seconds)
        feeder.finish()


@pytest.mark.timeout(300)
def test_two_agents_count_what_one_counts(scene: Scene, alone: AgentProcess) -> None:
    """Each record is counted once, whichever agent leads and whichever gets counters; none twice around a change."""
    scene.admin.create_topic(scene.topic, INTERLEAVED)
    first = scene.waiting_agent(**_OFTEN, election__identity="first")
    second = scene.agent(**_OFTEN, election__identity="second")
    second.wait_role("standby")
    for rack in (A, B):
        scene.join("confluent", rack, auto_commit_interval_ms="500")
    both = (first, second)
    with Telling(scene, second, C) as telling:
        wait_until(lambda: 200 in telling.answers, "the standby takes what it is told")
        with Feeder(scene.cluster.bootstrap, {scene.topic: len(INTERLEAVED)}):
            second.wait(lambda: records(counted(second), "exact") > 0, "the standby counts what it is told")

        *before, reference = at_rest(*both, alone)
        feed(scene, 5)
        *after, grown = at_rest(*both, alone)
        ours = [later - earlier for earlier, later in zip(before, after, strict=True)]
        whole = grown - reference
        assert records(ours[0], "exact") == records(ours[1], "estimated") == 0
        assert records(ours[0], "estimated") == pytest.approx(2 * records(ours[1], "exact"))
        assert sum(records(one, "exact", "estimated") for one in ours) == records(whole, "estimated") > 0
        bytes_ours = sum(count for one in ours for (what, _), count in one.items() if what == "bytes")
        assert bytes_ours == pytest.approx(whole["bytes", "estimated"], rel=0.05)
        shown = second.get("/metrics")[1]
        assert f'samerack_cross_rack_ratio{{group="{scene.group}"}}' not in shown
        assert "samerack_findings{" not in shown
        assert second.metric("samerack_own_assignor_dollars_total", group=scene.group) is None

        begun = time.monotonic()
        with Feeder(scene.cluster.bootstrap, {scene.topic: len(INTERLEAVED)}, pause=0.01) as feeder:
            time.sleep(2)
            first.pause()
            second.wait_role("leading")
            first.resume()
            first.wait_role("standby")
            time.sleep(2)
            feeder.finish()
        seconds = time.monotonic() - begun
        *handed, changed = at_rest(*both, alone)
        ours = [later - earlier for earlier, later in zip(after, handed, strict=True)]
        whole = changed - grown
        sent = records(whole, "estimated")
        missing = sent - sum(records(one, "exact", "estimated") for one in ours)
        print(f"{missing:.0f} of {sent:.0f} records in {seconds:.1f} s were counted by nobody")  # noqa: T201 - pytest -rP shows the measurement
        assert 0 <= missing <= sent * _LOST_SECONDS / seconds
        assert records(ours[1], "exact") == pytest.approx(sent / 3)

        feed(scene, 3)
        *last, end = at_rest(*both, alone)
        ours = [later - earlier for earlier, later in zip(handed, last, strict=True)]
        assert records(ours[0], "exact", "estimated") == 0
        assert records(ours[1], "exact", "estimated") == records(end - changed, "estimated") > 0
