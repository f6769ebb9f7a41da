"""What the worker reports to its supervisor: everything that is new in one message, else a sign of life."""

from __future__ import annotations

import socket
import threading

from samerack.agent.supervisor.lifeline import Lifeline
from samerack.agent.supervisor.line import ALIVE, MemberIdentity, decode, encode, encode_reception
from tests.unit.waiting import LONGEST_SECONDS

PLACE = MemberIdentity(group="orders", member_id="samerack-1", instance_id="samerack")


def test_news_are_told_at_once_and_together() -> None:
    """A place reported before a step that may delay a group must not wait for another report."""
    present: frozenset[MemberIdentity] = frozenset()
    received: str | None = None
    ours, theirs = socket.socketpair()
    with ours, theirs:
        lifeline = Lifeline(
            theirs,
            member_ids=lambda: present,
            makes_progress=lambda: True,
            reception=lambda: received,
            on_lost=lambda: None,
        )
        lifeline.send()
        assert ours.recv(4096) == ALIVE
        present, received = frozenset({PLACE}), ""
        lifeline.send()
        assert ours.recv(4096) == encode_reception("") + encode(present)
        lifeline.send()
        assert ours.recv(4096) == ALIVE


def test_a_supervisor_that_is_slow_is_not_gone() -> None:
    """The socket fills up while the supervisor does not read; it gets whole lines when it reads again."""
    present: frozenset[MemberIdentity] = frozenset()
    lost = threading.Event()
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        lifeline = Lifeline(
            theirs, member_ids=lambda: present, makes_progress=lambda: True, reception=lambda: "", on_lost=lost.set
        )
        lifeline.start()
        for number in range(2000):
            present = frozenset({MemberIdentity(group="orders" * 20, member_id=f"samerack-{number}")})
            lifeline.send()
        assert not lost.wait(0.5)
        ours.settimeout(LONGEST_SECONDS)
        heard = b""
        while not heard.endswith(encode(present)):
            heard += ours.recv(65_536)
        assert all(decode(line) is None or decode(line) == "" or decode(line) for line in heard.split(b"\n"))
        assert lifeline.is_alive()
        ours.close()
        assert lost.wait(LONGEST_SECONDS)
        lifeline.join()
