"""The worker's end of the socket to its supervisor: sends signs of life, and stops the worker without supervisor."""

from __future__ import annotations

import select
import socket
import threading
from collections.abc import Callable
from typing import Final

from samerack.agent.supervisor.line import ALIVE, MemberIdentity, encode, encode_reception

BEAT_SECONDS: Final = 0.2
_MOST_HEARD: Final = 4096


class Lifeline(threading.Thread):
    """Sends signs of life while the process is healthy, and stops it properly when the supervisor has ended.

    Only a closed socket proves that the supervisor has ended. If a slow or stopped supervisor lets the socket fill up,
    nothing is sent until it reads again; then it gets the state of that time.
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
        """Prepare; `start` starts the thread.

        Args:
            end: this process's end of the socket.
            present: the process's current member ids.
            well: whether it makes progress; if not, no sign of life is sent.
            received: whether brokers accept the process, see `agent.supervisor.line`; None while that is not known.
            lost: called once, when the supervisor has ended.
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
        """Sends until the other end closes."""
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
        """Sends a sign of life or what is new, as far as the socket has space; any thread may call it.

        Raises:
            OSError: The supervisor has ended.
        """
        with self._lock:
            try:
                self._send()
                self._unsent = self._news()  # only after everything before it is sent
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
