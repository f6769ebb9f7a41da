"""The worker's end of the socket to its supervisor: sends signs of life, and stops the worker without supervisor."""

from __future__ import annotations

import select
import socket
import threading
from collections.abc import Callable
from typing import Final

from samerack.agent.supervisor.protocol import (
    ALIVE,
    ChangedIds,
    MemberIdentity,
    SettingsInForce,
    encode,
    encode_auth_status,
    encode_settings,
)

BEAT_SECONDS: Final = 0.2
_MAX_HEARD: Final = 4096


class WatchdogSocket(threading.Thread):
    """Sends signs of life while the process is healthy, and stops it properly when the supervisor has ended.

    Only a closed socket proves that the supervisor has ended. If a slow or stopped supervisor lets the socket fill up,
    nothing is sent until it reads again; then it gets the state of that time.
    """

    def __init__(  # noqa: PLR0913 - each is asked on its own
        self,
        end: socket.socket,
        *,
        settings: Callable[[], SettingsInForce],
        member_ids: Callable[[], frozenset[MemberIdentity]],
        makes_progress: Callable[[], bool],
        auth_status: Callable[[], str | None],
        on_lost: Callable[[], None],
    ) -> None:
        """Prepare; `start` starts the thread.

        No sign of life is sent unless the process makes progress. `auth_status` returns whether brokers accept it, see
        `agent.supervisor.protocol`, None while that is not known; `on_lost` is called once, when the supervisor has
        ended.
        """
        super().__init__(name="watchdog socket", daemon=True)
        self._end = end
        self._settings = settings
        self._member_ids = member_ids
        self._makes_progress = makes_progress
        self._auth_status = auth_status
        self._on_lost = on_lost
        end.settimeout(0)
        self._unsent = b""
        self._last_sent_settings: SettingsInForce | None = None
        self._last_sent: frozenset[MemberIdentity] = frozenset()
        self._last_sent_auth_status: str | None = None
        self._lock = threading.Lock()

    def run(self) -> None:
        """Send until the other end closes."""
        heard = select.poll()
        heard.register(self._end, select.POLLIN)
        try:
            while True:
                if self._makes_progress():
                    self.send()
                if heard.poll(BEAT_SECONDS * 1000) and not self._end.recv(_MAX_HEARD):
                    return
        except OSError:
            return
        finally:
            self._on_lost()

    def send(self) -> None:
        """Send a sign of life or what is new, as far as the socket has space; any thread may call it.

        Raises:
            OSError: The supervisor has ended.
        """
        with self._lock:
            try:
                self._flush()
                self._unsent = self._news()  # only after everything before it is sent
                self._flush()
            except BlockingIOError:
                return

    def _flush(self) -> None:
        while self._unsent:
            self._unsent = self._unsent[self._end.send(self._unsent) :]

    def _news(self) -> bytes:
        news, settings, auth_status, member_ids = b"", self._settings(), self._auth_status(), self._member_ids()
        if settings is not self._last_sent_settings:
            self._last_sent_settings = settings
            news += encode_settings(settings)
        if auth_status is not None and auth_status != self._last_sent_auth_status:
            self._last_sent_auth_status = auth_status
            news += encode_auth_status(auth_status)
        if member_ids != self._last_sent:
            news += encode(ChangedIds.between(self._last_sent, member_ids))
            self._last_sent = member_ids
        return news or ALIVE
