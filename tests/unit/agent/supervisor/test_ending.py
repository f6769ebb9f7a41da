"""A supervisor that is told to end leaves groups also for a worker that died shortly before."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from agent.supervisor.line import Presence
from agent.supervisor.watchdog import Supervisor
from common.settings import SupervisorSettings

DEAD = frozenset({Presence(group="orders", member_id="samerack-1", instance_id="samerack")})
ALIVE = frozenset({Presence(group="orders", member_id="samerack-2", instance_id="samerack")})


def _worker(present: frozenset[Presence] | None, code: int) -> Any:
    """One that has ended."""
    return SimpleNamespace(present=present, process=SimpleNamespace(poll=lambda: code, returncode=code))


@pytest.mark.parametrize(
    ("present", "code", "left"),
    [(None, 0, DEAD), (None, -9, DEAD), (ALIVE, 0, None), (ALIVE, -9, ALIVE)],
    ids=["had not joined", "died before it joined", "left by itself", "died"],
)
def test_nobody_is_left_behind(
    monkeypatch: pytest.MonkeyPatch, present: frozenset[Presence] | None, code: int, left: frozenset[Presence] | None
) -> None:
    """A successor that was in no group yet has not taken the place of the dead one up: that place is left, too."""
    supervisor = Supervisor(SupervisorSettings(), kafka={}, command=(), observing=())
    supervisor._known = DEAD
    asked: list[frozenset[Presence]] = []
    monkeypatch.setattr(supervisor, "_leave", lambda gone, **_: asked.append(gone))
    supervisor._stop(_worker(present, code))
    assert asked == ([] if left is None else [left])
