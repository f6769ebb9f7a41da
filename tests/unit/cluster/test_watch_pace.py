"""The pause between two polls: as set, or longer if polls take long, but never because of one poll."""

from __future__ import annotations

import time

from samerack.agent.metrics import Metrics
from samerack.cluster.view import SettlingTimes
from samerack.cluster.watch import ClusterWatch
from samerack.common.errors import AgentError
from samerack.common.service import Service
from tests.unit.cluster.scripted_wire import ScriptedWire


class Paced(ClusterWatch):
    """A watch whose polls take the given seconds, the last of them repeatedly, and which stores when they start."""

    def __init__(self, *seconds: float) -> None:
        super().__init__(
            ScriptedWire(lambda _: AssertionError("not asked")),
            pause=0.02,
            times=SettlingTimes(change=1.0, leader=1.0),
            selector="leader",
            metrics=Metrics(),
        )
        self.seconds = list(seconds)
        self.begun: list[float] = []

    def look_once(self) -> None:
        """Take the next time."""
        self.begun.append(time.monotonic())
        time.sleep(self.seconds.pop(0) if len(self.seconds) > 1 else self.seconds[0])


def _looks(watch: Paced, seconds: float) -> int:
    watch.start()
    time.sleep(seconds)
    return len(watch.begun)


def test_one_slow_look_does_not_blind_the_watch(started: list[Service]) -> None:
    """A poll that waits for a restarting broker, after quick ones, does not delay the next one."""
    watch = Paced(0.001, 0.001, 0.3, 0.001)
    started.append(watch)
    assert _looks(watch, 1.5) > 10  # the slow poll alone would have asked for three seconds of silence


def test_slow_looks_are_rare(started: list[Service]) -> None:
    """If every poll takes long, polls take a tenth of the time at most."""
    watch = Paced(0.2)
    started.append(watch)
    assert _looks(watch, 1.5) == 1


class Blind(Paced):
    """A watch whose polls all fail."""

    def look_once(self) -> None:
        """Fail."""
        super().look_once()
        raise AgentError("kafka: metadata: Timed out waiting for controller")


def test_a_failed_look_is_followed_by_one_with_new_connections(started: list[Service]) -> None:
    """The client may keep asking a broker that is away, although others would answer."""
    watch = Blind(0.001)
    wire = watch._wire
    started.append(watch)
    assert _looks(watch, 0.5) > 1
    assert isinstance(wire, ScriptedWire)
    assert wire.closed >= len(watch.begun) - 1
