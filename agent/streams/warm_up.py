"""A small question that a process plans before its first real one, which would take longer than the next ones."""

from __future__ import annotations

import json
from typing import Final

from samerack.agent.streams.question import VERSION

RUNS: Final = 2
"""Plans after which another one takes no less time."""
_TASKS: Final = 200
_CLIENTS: Final = 20
_RACKS: Final = 3
_END: Final = 50_000
"""The lag of a client without state: not caught up."""


def question() -> bytes:
    """Return an application with state, standbys, lags and racks, large enough for the solvers of large ones."""
    return json.dumps(
        {
            "version": VERSION,
            "application": "warm-up",
            "configs": {"num_standby_replicas": 1, "rack_aware_strategy": "min_traffic"},
            "topics": ["source", "changelog"],
            "racks": [f"rack-{number}" for number in range(_RACKS)],
            "tasks": [
                [f"0_{number}", 1, [[0, number, 1, [number % _RACKS]], [1, number, 2, [number % _RACKS]]]]
                for number in range(_TASKS)
            ],
            "lags": [[number, _END] for number in range(_TASKS)],
            "clients": [
                {
                    "process": f"{number:032x}",
                    "threads": 1,
                    "consumers": [f"warm-up-{number}"],
                    "active": list(range(number, _TASKS, _CLIENTS)),
                    "standby": [],
                    "lags": [[task, -2] for task in range(number, _TASKS, _CLIENTS)],
                    "rack": number % _RACKS,
                }
                for number in range(_CLIENTS)
            ],
        }
    ).encode()
