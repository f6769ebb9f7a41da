"""When the agent measures: as long as it is elected to."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import pytest
from prometheus_client import CollectorRegistry

from samerack.common.errors import AgentError
from samerack.election.leadership_state import EVERYTHING, NOTHING, LeadershipState, Tenures
from samerack.settings.loading import load
from samerack.settings.measuring import ClientEndpoint
from samerack.traffic import watch as watch_module
from samerack.traffic.board import TrafficBoard
from samerack.traffic.gaps import HAND_OVER, failed, handed_over
from samerack.traffic.metrics import TrafficMetrics
from samerack.traffic.snapshot import Family, TrafficSnapshot
from samerack.traffic.statistics import Counters, MeasuredElsewhereError, StatisticsError
from samerack.traffic.watch import TrafficWatch


class _Elected(LeadershipState):
    """An agent whose tenures a test sets."""

    def __init__(self) -> None:
        super().__init__()
        self.now = NOTHING

    @property
    def tenures(self) -> Tenures:
        """Returns what the test has set."""
        return self.now


def test_a_standby_measures_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """It polls once it is elected, and shows nothing and takes no reports when it stands by again."""
    settings = load(flags={"kafka": {"bootstrap.servers": "127.0.0.1:1"}, "groups": ["g"]}, environment={})
    leadership, board = _Elected(), TrafficBoard()
    watch = TrafficWatch(
        settings, board=board, metrics=TrafficMetrics.silent(), rack_aware=lambda: True, leadership=leadership
    )
    polls: list[TrafficSnapshot] = []

    def poll() -> TrafficSnapshot:
        polls.append(TrafficSnapshot(cycle=len(polls) + 1))
        board.publish(polls[-1], [])
        return polls[-1]

    monkeypatch.setattr(watch, "poll", poll)
    assert watch.turn() == threading.TIMEOUT_MAX
    assert polls == []
    leadership.now = EVERYTHING
    watch.turn()
    assert board.latest().cycle == 1
    leadership.now = NOTHING
    watch.turn()
    assert len(polls) == 1
    assert board.latest().cycle == 0
    with pytest.raises(MeasuredElsewhereError, match="does not measure group 'g'"):
        watch.post("g", b"{}")
    watch.close()


def test_an_agent_that_plans_by_bytes_has_weights_while_another_one_measures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any agent beside an instance may be asked for a plan; only the elected one had weights. It counts nothing."""
    settings = load(
        flags={
            "kafka": {"bootstrap.servers": "127.0.0.1:1"},
            "traffic": {"groups": ["g"]},
            "streams": {"weights": "bytes"},
        },
        environment={},
    )
    leadership, polls = _Elected(), list[float]()
    watch = TrafficWatch(
        settings, board=TrafficBoard(), metrics=TrafficMetrics.silent(), rack_aware=lambda: True, leadership=leadership
    )
    monkeypatch.setattr(watch, "poll", lambda: polls.append(0.0))
    assert watch.turn() < threading.TIMEOUT_MAX
    assert len(polls) == 1
    with pytest.raises(MeasuredElsewhereError, match="does not measure group 'g'"):
        watch.post("g", b"{}")
    watch.close()


def test_what_was_measured_is_not_shown_for_ever_when_no_broker_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """For half a minute it may be a broker's restart; then lag and cost were those of two hours ago, as if current."""
    settings = load(flags={"kafka": {"bootstrap.servers": "127.0.0.1:1"}, "groups": ["g"]}, environment={})
    board = TrafficBoard()
    watch = TrafficWatch(settings, board=board, metrics=TrafficMetrics.silent(), rack_aware=lambda: True)
    clock = [0.0]
    monkeypatch.setattr(watch_module, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    monkeypatch.setattr(watch, "poll", lambda: board.publish(TrafficSnapshot(cycle=1), []))
    watch.failed(AgentError("no broker answers"))
    watch.turn()
    cycles = []
    for clock[0] in (10.0, 29.0, 31.0):
        watch.failed(AgentError("no broker answers"))
        cycles.append(board.latest().cycle)
    assert cycles == [1, 1, 0]
    watch.turn()
    assert board.latest().cycle == 1
    watch.close()


def test_elections_hasten_polls_no_more_than_their_length_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each new group of a pattern is a tenure: during a hundred births the agent polled all groups twice a second."""
    settings = load(flags={"kafka": {"bootstrap.servers": "127.0.0.1:1"}, "groups": ["g"]}, environment={})
    leadership = _Elected()
    leadership.now = EVERYTHING
    watch = TrafficWatch(
        settings, board=TrafficBoard(), metrics=TrafficMetrics.silent(), rack_aware=lambda: True, leadership=leadership
    )
    clock, waited = [0.0], list[float]()
    monkeypatch.setattr(watch_module, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    monkeypatch.setattr(watch, "_stopping", SimpleNamespace(wait=waited.append))

    def poll() -> None:
        clock[0] += 0.02

    monkeypatch.setattr(watch, "poll", poll)
    pause = watch.turn()
    watch.wake()
    watch.rest(pause)
    assert waited == pytest.approx([9 * 0.02])
    assert waited[0] < pause
    watch.close()


@pytest.mark.parametrize(("took", "pause"), [(1.0, 4.0), (10.0, 20.0), (50.0, 58.0), (107.0, 1.0), (150.0, 300.0)])
def test_a_pause_ends_in_time_for_rates(took: float, pause: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """After polls of 40 seconds and more, twice their time was so long that no rate was ever known."""
    settings = load(flags={"kafka": {"bootstrap.servers": "127.0.0.1:1"}, "groups": ["g"]}, environment={})
    watch = TrafficWatch(settings, board=TrafficBoard(), metrics=TrafficMetrics.silent(), rack_aware=lambda: True)
    clock = iter([0.0, took, took])
    monkeypatch.setattr(watch_module, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    monkeypatch.setattr(watch, "poll", lambda: None)
    assert watch.turn() == pytest.approx(pause)
    watch.close()


def test_a_hand_over_counts_once_and_a_failure_at_each_poll(monkeypatch: pytest.MonkeyPatch) -> None:
    """The report has both gaps all the time: the one is an event, and the other one a state."""
    settings = load(flags={"kafka": {"bootstrap.servers": "127.0.0.1:1"}, "groups": ["g"]}, environment={})
    registry = CollectorRegistry()
    watch = TrafficWatch(settings, board=TrafficBoard(), metrics=TrafficMetrics(registry), rack_aware=lambda: True)
    gaps = (handed_over(["g"], at=0.0), failed(Family.PROBE, "t", "timed out"))
    monkeypatch.setattr(watch._cycle, "turn", lambda **_: TrafficSnapshot(gaps=gaps))
    for _ in range(3):
        watch.poll()
    counted = {
        what: registry.get_sample_value("samerack_traffic_errors_total", {"family": what})
        for what in (HAND_OVER, Family.PROBE, Family.SAMPLE)
    }
    assert counted == {HAND_OVER: 1, Family.PROBE: 3, Family.SAMPLE: 0}
    watch.close()


def test_pods_that_do_not_answer_are_waited_for_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """One after the other, 21 of them made polls so long that no rate, age of lag or number of members was known."""
    endpoints = [{"url": f"http://10.0.0.{number}:9404/", "group": "g"} for number in range(21)]
    flags = {"kafka": {"bootstrap.servers": "127.0.0.1:1"}, "groups": ["g"], "traffic": {"client_endpoints": endpoints}}
    watch = TrafficWatch(
        load(flags=flags, environment={}),
        board=TrafficBoard(),
        metrics=TrafficMetrics.silent(),
        rack_aware=lambda: True,
    )
    waiting = threading.Barrier(len(endpoints), timeout=30.0)

    def black_hole(endpoint: ClientEndpoint) -> Counters:
        waiting.wait()
        raise StatisticsError(f"{endpoint.url}: no answer within 2 s")

    monkeypatch.setattr(watch_module, "counters_at", black_hole)
    monkeypatch.setattr(watch._cycle, "turn", lambda *, elsewhere, **_: TrafficSnapshot(gaps=elsewhere))
    assert [gap.where for gap in watch.poll().gaps] == [one["url"] for one in endpoints]
    watch.close()
