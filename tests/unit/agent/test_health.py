"""What `/readyz` says of groups that the agent is not in."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

from samerack.agent.group_status import OBSERVING, GroupStatus
from samerack.agent.health import Health
from samerack.election.leadership_state import LeadershipState
from samerack.settings.all_settings import Settings


def _health(*, makes_room: bool, trouble: str) -> Health:
    """The health of an agent that observes its only group."""
    settings = Settings.model_validate({"kafka": {"bootstrap.servers": "h:1"}, "groups": ["orders"]})
    leader = SimpleNamespace(
        group="orders",
        name="group orders",
        makes_room=makes_room,
        reporter=SimpleNamespace(trouble=trouble),
        operators=SimpleNamespace(left=""),
        is_alive=lambda: True,
    )
    led = SimpleNamespace(values=lambda: [leader], unmatched=())
    status = GroupStatus(group="orders", role=OBSERVING, why=trouble)
    parts: Any = SimpleNamespace(
        settings=settings,
        led=led,
        writer=None,
        leadership=LeadershipState(),
        publisher=None,
        poller=SimpleNamespace(last_error=""),
        watch=SimpleNamespace(was_refused=False, last_poll_at=time.monotonic(), last_error=""),
        metrics=SimpleNamespace(board=SimpleNamespace(all=lambda: [status])),
    )
    return Health(parts, [])


def test_a_group_without_room_is_a_note() -> None:
    """An agent that stays out so that consumers have their places does what it should, and is ready."""
    health = _health(makes_room=True, trouble="no room")
    assert (health.unready(), health.notes()) == ({}, {"group orders": "no room"})


def test_another_trouble_is_no_note() -> None:
    """What else keeps the agent out is a part that does not work."""
    health = _health(makes_room=False, trouble="not allowed")
    assert (health.unready(), health.notes()) == ({"group orders": "observing: not allowed"}, {})
