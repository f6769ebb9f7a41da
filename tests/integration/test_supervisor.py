"""The worker process dies, hangs, sleeps or cannot start: its supervisor replaces it, and the group continues."""

import os
import signal
import socket
import time
from pathlib import Path

import psutil

from sandbox.admin import wait_until
from sandbox.agent_process import AgentProcess
from tests.integration.scene import INTERLEAVED, A, B, C, Scene, holds_for, now_ms

_PAUSE_SECONDS = 3.0


def _led(scene: Scene, *, config: Path | None = None, **settings: object) -> AgentProcess:
    scene.lay_out(INTERLEAVED)
    agent = scene.waiting_agent(config=config, **settings)
    for client, rack in (("confluent", A), ("aiokafka", B), ("java", C)):
        scene.join(client, rack)
    scene.wait_settled(cross_rack=0)
    return agent


def _worker(agent: AgentProcess) -> psutil.Process:
    """The agent's worker process."""
    return psutil.Process(agent.events("started")[-1]["process"])


def _back(agent: AgentProcess, died: psutil.Process) -> None:
    """Waits until another worker leads."""
    wait_until(lambda: len(agent.events("started")) > 1 and agent.role() == "leading", "a new worker leads")
    assert _worker(agent).pid != died.pid


def test_a_killed_worker_is_replaced(scene: Scene) -> None:
    """After a kill in a stable group, the next worker leads the same generation, without a rebalance."""
    agent = _led(scene, web__port=_free_port())
    before, worker = scene.rebalances(), _worker(agent)
    killed = time.monotonic()
    worker.kill()
    _back(agent, worker)
    print(f"leads again after {time.monotonic() - killed:.1f} s")  # noqa: T201 - pytest -rP shows the measurement
    assert holds_for(2.0, lambda: scene.rebalances() == before)
    assert agent.events("worker-died")[0]["reason"] == "exit code -9"
    scene.finish()


def test_a_stopped_worker_is_replaced(scene: Scene) -> None:
    """A suspended worker that sends no sign of life for a second is killed and replaced."""
    agent = _led(scene, web__port=_free_port())
    before, worker = scene.rebalances(), _worker(agent)
    worker.suspend()
    _back(agent, worker)
    assert holds_for(2.0, lambda: scene.rebalances() == before)
    assert agent.events("worker-died")[0]["reason"] == "no sign of life for 1 s"
    scene.finish()


def test_killed_in_a_rebalance_costs_no_session(scene: Scene) -> None:
    """After a kill while the group waits in JoinGroup, the next worker takes over the membership and sends the plan."""
    agent = _led(scene, web__port=_free_port())
    slow = scene.seats[0].member
    # librdkafka may deliver the first record twice, in one generation, if it is stopped within its first fetch
    wait_until(lambda: any(event.kind == "records" for event in slow.events), "it reads")
    os.kill(slow.pid, signal.SIGSTOP)
    try:
        scene.join("aiokafka", B)
        wait_until(lambda: scene.describe().state.name == "PREPARING_REBALANCING", "the group waits")
        assert holds_for(1.5, lambda: agent.running)  # three heartbeats, so that it has joined
        worker = _worker(agent)
        worker.kill()
    finally:
        os.kill(slow.pid, signal.SIGCONT)
    since = now_ms()
    _back(agent, worker)
    scene.wait_settled()
    pause = scene.longest_pause(since_ms=since)
    print(f"longest pause {pause:.1f} s")  # noqa: T201 - see above
    assert pause < _PAUSE_SECONDS
    assert agent.role() == "leading"
    scene.finish()


def test_one_that_dies_again_and_again_only_observes(scene: Scene) -> None:
    """After too many deaths the supervisor leaves the groups by member id; a worker that joins none still measures."""
    agent = _led(scene, web__port=_free_port(), supervisor__max_restarts=2, supervisor__restart_window_seconds=600)
    for deaths in (1, 2):
        _worker(agent).kill()
        wait_until(lambda: len(agent.events("worker-died")) == deaths, "the death is seen")  # noqa: B023 - waited for here
        wait_until(lambda: len(agent.events("started")) == deaths + 1, "another works")  # noqa: B023 - see above
        if deaths == 1:
            agent.wait_role("leading")
    assert agent.events("only-observes")
    wait_until(lambda: scene.presence() is None, "the group was left")
    scene.wait_settled()
    agent.wait(lambda: agent.metric("samerack_up") == 1.0, "it measures on")
    scene.finish()


def test_one_that_cannot_start_leaves_its_groups(scene: Scene, tmp_path: Path) -> None:
    """If settings become invalid, the supervisor leaves the group for the dead worker long before its session ends."""
    config = tmp_path / "samerack.yaml"
    config.write_text("policy: {burst: 3}\n", encoding="utf-8")
    agent = _led(scene, config=config, leading__session_timeout_seconds=60, leading__heartbeat_seconds=0.5)
    config.write_text("policy: {bursts: 3}\n", encoding="utf-8")
    since = time.monotonic()
    _worker(agent).kill()
    wait_until(lambda: scene.presence() is None, "the group was left")
    print(f"left after {time.monotonic() - since:.1f} s")  # noqa: T201 - see above
    scene.wait_settled()
    config.write_text("policy: {burst: 3}\n", encoding="utf-8")
    agent.wait(lambda: len(agent.events("started")) > 1, "it starts again once it can")
    scene.finish()


def test_a_worker_ends_with_its_supervisor(scene: Scene) -> None:
    """If the supervisor is killed, its worker leaves the group and ends."""
    agent = _led(scene)
    worker = _worker(agent)
    os.kill(agent.process.pid, signal.SIGKILL)
    wait_until(lambda: not worker.is_running(), "the worker has ended")
    assert scene.presence() is None
    scene.wait_settled()
    scene.finish()


def _free_port() -> int:
    """A port for the worker and the workers after it."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
