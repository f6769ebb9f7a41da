"""Measures traffic without a running agent, while a command runs: the same cycle as the agent's. Joins no group."""

from __future__ import annotations

import time
from functools import cache, partial
from typing import Final, Self

from samerack.cluster.broker_configs import ask_configs, ask_selector, max_size_of
from samerack.cluster.server_assignors import assignors_of
from samerack.common.patterns import EVERY
from samerack.events import EventLog
from samerack.reporting.report_service import ReportService
from samerack.settings.all_settings import Settings
from samerack.settings.measuring import price_table
from samerack.traffic.board import TrafficBoard
from samerack.traffic.metrics import TrafficMetrics
from samerack.traffic.snapshot import TrafficSnapshot
from samerack.traffic.watch import RackAware, TrafficWatch

_MIN_TURNS: Final = 4
"""A window has at least so many polls: rates need two polls of the offsets, and one outlier must not decide."""
_MIN_POLLS: Final = 2
_END_SECONDS: Final = 5.0


class Measuring:
    """A measurement by a command; a context manager that closes its connections."""

    def __init__(self, settings: Settings, *, seconds: float, replication: bool = False) -> None:
        """Prepare without connecting; `seconds` is the length of the window.

        If the settings name no groups to observe, all are observed. `replication`: whether to measure replication and
        producers, too, unless the settings say not to.

        Raises:
            SettingsError: A client refuses a setting, or prices are not valid.
        """
        self._seconds = seconds
        self._settings = settings.model_copy(
            update={
                "traffic": settings.traffic.model_copy(
                    update={
                        "groups": settings.traffic.groups or (EVERY,),
                        "poll_seconds": min(settings.traffic.poll_seconds, seconds / _MIN_TURNS),
                        "window_seconds": seconds,
                        "replication": replication and settings.traffic.replication,
                    }
                )
            }
        )
        prices = price_table(settings.money)
        self._board = board = TrafficBoard()
        self._rack_aware: RackAware = lambda: None
        self._watch = TrafficWatch(
            self._settings,
            board=board,
            metrics=TrafficMetrics.silent(),
            rack_aware=lambda: self._rack_aware(),  # noqa: PLW0108 - what is asked is known when measuring starts
        )
        configs = cache(partial(ask_configs, settings))  # one question for both, when the first is needed
        self.reports = ReportService(
            board=board,
            roles=dict,
            events=EventLog(),
            prices=prices,
            leading=settings.leading,
            bootstrap=settings.kafka["bootstrap.servers"],
            server_assignors=cache(partial(assignors_of, configs)),
            max_group_size=cache(partial(max_size_of, configs)),
        )

    def measure(self) -> None:
        """Measure for one window, by two polls at least, however long one takes: offsets are compared.

        Raises:
            AgentError: No broker answers.
        """
        self._rack_aware = ask_selector(self._settings)
        self._watch.poll()
        end, polls = time.monotonic() + self._seconds, 1
        while (left := end - time.monotonic()) > 0 or polls < _MIN_POLLS:
            time.sleep(max(0.0, min(left, self._settings.traffic.poll_seconds)))
            self._watch.poll()
            polls += 1

    @property
    def snapshot(self) -> TrafficSnapshot:
        """What was measured last."""
        return self._board.latest()

    def start(self) -> None:
        """Measure on a thread until closed.

        Raises:
            AgentError: No broker answers at the start.
        """
        self._rack_aware = ask_selector(self._settings)
        self._watch.start()

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """End the thread and the connections."""
        if self._watch.is_alive():
            self._watch.stop()
            self._watch.join(_END_SECONDS)
        else:
            self._watch.close()
