"""The worker process dies, hangs, sleeps or cannot start: its supervisor replaces it, and the group continues."""

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import psutil
import pytest

from lab.sandbox.admin import wait_until
from lab.sandbox.agent_process import AgentProcess
from lab.sandbox.settings import HOST, free_ports
from samerack.agent.supervisor.watchdog import MAX_RESTARTS, RESTART_PAUSES
from tests.integration.scenario import Scenario, holds_for


def _back(agent: AgentProcess, died: psutil.Process) -> None:
    """Wait until another worker leads."""
    wait_until(lambda: len(agent.events("started")) > 1 and agent.role() == "leading", "a new worker leads")
    assert agent.worker().pid != died.pid


@pytest.mark.promise(
    "A worker that is killed is replaced at once: the next one leads the same generation, without a rebalance."
)
def test_a_killed_worker_is_replaced(scenario: Scenario) -> None:
    """After a kill in a stable group, the next worker leads the same generation, without a rebalance."""
    agent = scenario.led(web__port=free_ports(1)[0], leading__session_timeout_seconds=60)
    before, worker = scenario.rebalances(), agent.worker()
    killed = time.monotonic()
    worker.kill()
    _back(agent, worker)
    print(f"leads again after {time.monotonic() - killed:.1f} s")  # noqa: T201 - pytest -rP shows the measurement
    assert holds_for(2.0, lambda: scenario.rebalances() == before)
    assert agent.events("worker-died")[0]["reason"] == "exit code -9"
    scenario.finish()


def test_one_that_dies_again_and_again_only_observes(scenario: Scenario) -> None:
    """After too many deaths the supervisor leaves the groups by member id; a worker that joins none still measures."""
    agent = scenario.led(web__port=free_ports(1)[0], supervisor__restart_window_seconds=600)
    for restarts in range(1, MAX_RESTARTS + 1):
        killed = time.monotonic()
        agent.worker().kill()
        wait_until(lambda: len(agent.events("worker-died")) == restarts, "the death is seen")  # noqa: B023 - waited for here
        wait_until(lambda: len(agent.events("started")) == restarts + 1, "another works")  # noqa: B023 - see above
        assert time.monotonic() - killed > RESTART_PAUSES.after(restarts)
        if restarts == 1:
            agent.wait_inside()
    assert agent.events("only-observes")
    wait_until(lambda: scenario.agent_member() is None, "the group was left")
    scenario.wait_settled()
    agent.wait(lambda: agent.metric("samerack_up") == 1.0, "it measures on")
    scenario.finish()


@pytest.mark.promise("If no worker can start, the supervisor leaves the group for the dead one, and a member leads.")
def test_one_that_cannot_start_leaves_its_groups(scenario: Scenario) -> None:
    """If no worker can start, the supervisor leaves the group for the dead one long before its session ends."""
    [port] = free_ports(1)
    agent = scenario.led(web__port=port, leading__session_timeout_seconds=60)
    worker = agent.worker()
    agent.pause()  # so that the port can be taken before the next worker opens it
    worker.kill()
    with _taken(port):
        since = time.monotonic()
        agent.resume()
        wait_until(lambda: scenario.agent_member() is None, "the group was left")
        print(f"left after {time.monotonic() - since:.1f} s")  # noqa: T201 - see above
        scenario.wait_settled()
    agent.wait(lambda: len(agent.events("started")) > 1, "it starts again once it can")
    scenario.finish()


@contextmanager
def _taken(port: int) -> Iterator[None]:
    """Listen on a port as soon as it is free: a killed process may be a zombie before its last thread closes it."""
    with socket.socket() as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)

        def bound() -> bool:
            with suppress(OSError):
                server.bind((HOST, port))
                return True
            return False

        wait_until(bound, f"port {port} is free")
        server.listen()
        yield
