"""Several agents for one group: one leads, the others stand by, and a change of agents rebalances nobody."""

import time

from sandbox.admin import wait_until
from sandbox.agent_process import AgentProcess
from tests.integration.scene import INTERLEAVED, A, B, C, Scene, holds_for, now_ms

_SHORT_PAUSE_SECONDS = 3.0
"""Half of the shortest session: nobody waited for a dead agent, however busy the machine."""


def _two(scene: Scene) -> tuple[AgentProcess, AgentProcess]:
    """One that leads a group of three members, and one that stands by."""
    scene.lay_out(INTERLEAVED)
    first = scene.waiting_agent()
    for client, rack in (("confluent", A), ("aiokafka", B), ("java", C)):
        scene.join(client, rack)
    scene.wait_settled(cross_rack=0)
    second = scene.agent()
    second.wait_role("standby")
    second.wait(lambda: bool(second.events("elected")), "it was elected with the other")
    return first, second


def _leads_without_rebalance(scene: Scene, agent: AgentProcess, before: int) -> None:
    """It leads, still follows racks, and no member was told of anything in between."""
    assert holds_for(2.0, lambda: scene.rebalances() == before)
    first, second = (scene.admin.replicas([scene.topic])[scene.topic, number].replicas for number in (0, 1))
    scene.admin.move_replicas({(scene.topic, 0): second, (scene.topic, 1): first})
    scene.wait_settled(cross_rack=0)
    assert agent.role() == "leading"


def test_sigterm_hands_over_without_a_rebalance(scene: Scene) -> None:
    """The other takes the membership over well below a second after SIGTERM; the members notice nothing."""
    first, second = _two(scene)
    before, since = scene.rebalances(), now_ms()
    signalled = time.time()
    code, _ = first.stop()
    assert code == 0
    second.wait_role("leading")
    took = second.events("role", now="leading")[-1]["timestamp"]
    print(f"led {took} after SIGTERM at {signalled:.3f}")  # noqa: T201 - pytest -rP shows what was measured
    assert first.events("handed-over")
    _leads_without_rebalance(scene, second, before)
    assert scene.longest_pause(since_ms=since) < _SHORT_PAUSE_SECONDS
    scene.finish()


def test_kill_hands_over_without_a_rebalance(scene: Scene) -> None:
    """Killed with -9 the first is missed after its session in the election; the second leads on, with no rebalance."""
    first, second = _two(scene)
    before, since = scene.rebalances(), now_ms()
    killed = time.monotonic()
    first.kill()
    second.wait_role("leading")
    seconds = time.monotonic() - killed
    print(f"led after {seconds:.1f} s")  # noqa: T201 - see above
    assert seconds < 9
    assert scene.longest_pause(since_ms=since) < _SHORT_PAUSE_SECONDS
    _leads_without_rebalance(scene, second, before)
    scene.finish()


def test_one_that_slept_is_harmless(scene: Scene) -> None:
    """Stopped until the other leads, then continued, it stands by; it comes back when it is elected again."""
    first, second = _two(scene)
    before = scene.rebalances()
    first.pause()
    second.wait_role("leading")
    first.resume()
    first.wait_role("standby")
    assert holds_for(3.0, lambda: (first.role(), second.role()) == ("standby", "leading"))
    _leads_without_rebalance(scene, second, before)
    second.stop()
    first.wait_role("leading")
    scene.wait_settled(cross_rack=0)
    scene.finish()


def test_a_newcomer_displaces_nobody(scene: Scene) -> None:
    """Four agents come and go beside the one that leads; it leads on, and nobody is rebalanced."""
    first, second = _two(scene)
    before = scene.rebalances()
    others = [scene.agent(), scene.agent()]
    for other in others:
        other.wait_role("standby")
    second.stop()
    others[0].kill()
    wait_until(lambda: any(event["agents"] == 2 for event in first.events("elected")[3:]), "two are left")
    assert (first.role(), others[1].role()) == ("leading", "standby")
    _leads_without_rebalance(scene, first, before)
    scene.finish()
