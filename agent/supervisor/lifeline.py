"""The working process's end of the line to its supervisor: signs of life, and the end if nobody listens."""

from __future__ import annotations

import select
import socket
import threading
from collections.abc import Callable
from typing import Final

from agent.supervisor.line import ALIVE, MemberIdentity, encode, encode_reception

BEAT_SECONDS: Final = 0.2
_MOST_HEARD: Final = 4096


class Lifeline(threading.Thread):
    """Beats while the process is healthy, and ends it properly when nobody listens any more.

    Only the end of the line proves that the supervisor is gone. One that is slow, or stopped, and lets the line fill
    up is waited for: nothing is sent then until it reads on, and it hears what is true at that time.
    """

    def __init__(
        self,
        end: socket.socket,
        *,
        present: Callable[[], frozenset[MemberIdentity]],
        well: Callable[[], bool],
        received: Callable[[], str | None],
        lost: Callable[[], None],
    ) -> None:
        """Prepare; `start` begins.

        Args:
            end: this process's end of the line.
            present: what brokers know the process by at the moment.
            well: whether it gets on with its work; without that there is no sign of life.
            received: how brokers received the process, see `agent.supervisor.line`; None while that is not known.
            lost: called once, when the supervisor is gone.
        """
        super().__init__(name="lifeline", daemon=True)
        self._end = end
        self._present = present
        self._well = well
        self._received = received
        self._lost = lost
        end.settimeout(0)
        self._unsent = b""
        self._last_sent: frozenset[MemberIdentity] = frozenset()
        self._told_reception: str | None = None
        self._lock = threading.Lock()

    def run(self) -> None:
        """Until the other end closes."""
        heard = select.poll()
        heard.register(self._end, select.POLLIN)
        try:
            while True:
                if self._well():
                    self.tell()
                if heard.poll(BEAT_SECONDS * 1000) and not self._end.recv(_MOST_HEARD):
                    return
        except OSError:
            return
        finally:
            self._lost()

    def tell(self) -> None:
        """A sign of life, with what is new, as far as the line takes it; any thread may have it sent at once.

        Raises:
            OSError: The supervisor is gone.
        """
        with self._lock:
            try:
                self._send()
                self._unsent = self._news()  # only once the line has taken what was said before
                self._send()
            except BlockingIOError:
                return

    def _send(self) -> None:
        while self._unsent:
            self._unsent = self._unsent[self._end.send(self._unsent) :]

    def _news(self) -> bytes:
        news, reception, present = b"", self._received(), self._present()
        if reception is not None and reception != self._told_reception:
            self._told_reception = reception
            news += encode_reception(reception)
        if present != self._last_sent:
            self._last_sent = present
            news += encode(present)
        return news or ALIVE
