"""What the working process tells its supervisor: everything that is new in one go, else a sign of life."""

from __future__ import annotations

import socket

from agent.supervisor.lifeline import Lifeline
from agent.supervisor.line import ALIVE, Presence, encode, encode_reception

PLACE = Presence(group="orders", member_id="samerack-1", instance_id="samerack")


def test_news_are_told_at_once_and_together() -> None:
    """Whoever tells a place before a step that may hold a group up must not have it wait for another news."""
    present: frozenset[Presence] = frozenset()
    received: str | None = None
    ours, theirs = socket.socketpair()
    with ours, theirs:
        lifeline = Lifeline(
            theirs, present=lambda: present, well=lambda: True, received=lambda: received, lost=lambda: None
        )
        lifeline.tell()
        assert ours.recv(4096) == ALIVE
        present, received = frozenset({PLACE}), ""
        lifeline.tell()
        assert ours.recv(4096) == encode_reception("") + encode(present)
        lifeline.tell()
        assert ours.recv(4096) == ALIVE
