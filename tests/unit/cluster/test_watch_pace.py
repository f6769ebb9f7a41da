"""The pause between two polls: as set, or longer if polls take long, but never because of one poll."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from samerack.agent.metrics import Metrics
from samerack.cluster import watch as cluster_watch
from samerack.cluster.view import SettlingTimes
from samerack.cluster.watch import ClusterWatch
from samerack.common.errors import AgentError
from samerack.common.service import Service
from tests.unit.cluster.scripted_wire import ScriptedBrokerClient
from tests.unit.waiting import until


class Paced(ClusterWatch):
    """A watch whose polls take the given seconds, the last of them repeatedly, by a clock of its own."""

    def __init__(self, *seconds: float) -> None:
        super().__init__(
            ScriptedBrokerClient(lambda _: AssertionError("not asked")),
            pause=0.02,
            times=SettlingTimes(change=1.0, leader=1.0),
            selector="leader",
            metrics=Metrics(),
        )
        self.seconds = list(seconds)
        self.now = 0.0
        self.begun = 0

    def poll_once(self) -> None:
        """Take the next time."""
        self.begun += 1
        self.now += self.seconds.pop(0) if len(self.seconds) > 1 else self.seconds[0]


def _polls(watch: Paced, seconds: float, monkeypatch: pytest.MonkeyPatch) -> int:
    """The number of polls that begin within so many seconds."""
    monkeypatch.setattr(cluster_watch, "time", SimpleNamespace(monotonic=lambda: watch.now))
    while watch.now < seconds:
        pause = watch.turn()
        watch.now += pause
    return watch.begun


def test_one_slow_poll_does_not_blind_the_watch(monkeypatch: pytest.MonkeyPatch) -> None:
    """A poll that waits for a restarting broker, after quick ones, does not delay the next one."""
    watch = Paced(0.001, 0.001, 0.3, 0.001)
    assert _polls(watch, 1.5, monkeypatch) > 50  # the slow poll alone would have asked for three seconds of silence


def test_slow_polls_are_rare(monkeypatch: pytest.MonkeyPatch) -> None:
    """If every poll takes long, polls take a tenth of the time at most."""
    assert _polls(Paced(0.2), 21.0, monkeypatch) == 10


class Blind(Paced):
    """A watch whose polls all fail."""

    def poll_once(self) -> None:
        """Fail."""
        super().poll_once()
        raise AgentError("kafka: metadata: Timed out waiting for controller")


def test_a_failed_poll_is_followed_by_one_with_new_connections(started: list[Service]) -> None:
    """The client may keep asking a broker that is away, although others would answer."""
    watch = Blind(0.001)
    wire = watch._wire
    started.append(watch)
    watch.start()
    assert until(lambda: watch.begun > 2)
    assert isinstance(wire, ScriptedBrokerClient)
    assert wire.closed >= 2  # before the third poll began
