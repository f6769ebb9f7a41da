"""Supervises the worker: replaces it if it dies, hangs or grows too large, and leaves groups if it cannot start.

A replaced worker returns with the same instance ids, so that the groups keep its membership; a rebalance under way
continues with its plan. A worker that dies repeatedly only observes for a while. The supervisor itself stays small: it
reads no settings but passes on those of the last worker, and what it reports is written by a process of its own.
"""

from __future__ import annotations

import errno
import os
import signal
import socket
import sys
import time
from collections import deque
from dataclasses import replace
from functools import partial
from types import FrameType
from typing import Final, Protocol

from samerack.agent.supervisor.protocol import HAND_OVER_SECONDS, RENEWS, MemberIdentity, SettingsInForce, WorkerStart
from samerack.agent.supervisor.worker import Worker, fork
from samerack.common.attempts import RetryPauses
from samerack.common.errors import AgentError
from samerack.common.patterns import selects

HANG_SECONDS: Final = 1.0
"""After this time without a sign of life the worker is replaced: its groups' sessions last many times as long."""
MAX_RESTARTS: Final = 5
"""After this many restarts that still count the agent leaves its groups, and only observes them."""
_START_SECONDS: Final = 30.0
"""How long the first sign of life may take, on a busy machine too."""
_TURN_SECONDS: Final = 0.1
_LATE_SECONDS: Final = 0.3
"""If the supervisor itself did not run for this time, the worker may not have run either: no proof that it hangs."""
_STOP_SECONDS: Final = HAND_OVER_SECONDS + 3.0
_OVERDUE_SECONDS: Final = 2.5
"""A silent worker that was asked to stop and is in groups after this time is stuck: another process leaves them."""
_LEADS_SECONDS: Final = HAND_OVER_SECONDS + 1.0
"""The same for one that sends signs of life: until then it may lead for a successor."""
_DOUBLED_SECONDS: Final = 0.5
"""Programs such as timeout(1) send a signal to a process and to its group; one that comes later is another one."""
_LEAVE_SECONDS: Final = 10.0
_MEMORY_SECONDS: Final = 1.0
_TRY_AGAIN_SECONDS: Final = 30.0
RESTART_PAUSES: Final = RetryPauses(first=1.0, most=30.0, free=2)
_UNKNOWN: Final = SettingsInForce(
    content="", changed="", groups=(), memory_mib=sys.maxsize, restart_window_seconds=300.0
)
"""Before the first worker has sent its settings: it is in no group yet."""


class Processes(Protocol):
    """What the supervisor's processes do; each loads what it needs."""

    def work(self, start: WorkerStart, watchdog: socket.socket, /) -> None:
        """Run the worker, with its socket to the supervisor; raise SystemExit if something is wrong."""

    def leave(self, settings: str, members: frozenset[MemberIdentity], /) -> None:
        """Leave groups for a worker that cannot do it any more."""

    def report(self, settings: str, level: str, event: str, /, **fields: object) -> None:
        """Write an event to the log."""


class Supervisor:
    """One supervisor; `run` returns when the worker has ended on request, or for good."""

    def __init__(self, processes: Processes, *, keeps_trying: bool = False) -> None:
        """Prepare; `run` starts the first worker.

        If it `keeps_trying`, it starts another one when the first cannot begin, and so never ends by itself.
        """
        self._processes = processes
        self._keeps_trying = keeps_trying
        self._settings = _UNKNOWN
        self._former: SettingsInForce | None = None
        self._rejected = self._why_rejected = ""
        self._restarts: deque[float] = deque()
        self._observing = False
        self._observing_until = 0.0
        self._signal = 0
        self._signalled_at = float("-inf")
        self._is_urgent = False
        """Whether another signal has followed: then nothing is handed over."""
        self._is_to_read = False
        self._known: frozenset[MemberIdentity] = frozenset()
        self._was_accepted = False

    def run(self) -> int:
        """Run until SIGTERM, SIGINT or wrong input; return the exit code.

        Raises:
            AgentError: Brokers refuse the worker, and never accepted it.
        """
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)
        signal.signal(signal.SIGHUP, self._on_hangup)
        why = ""
        while not self._signalled():
            start = WorkerStart(
                settings=self._settings.content,
                rejected=self._rejected,
                why_rejected=self._why_rejected,
                observing=self._observing,
                why=why,
            )
            worker = Worker(partial(self._processes.work, start), now=time.monotonic())
            try:
                reason = self._watch(worker)
                if self._signalled():
                    return self._stop(worker)
                if worker.auth_status and not self._was_accepted:
                    self._stop(worker)
                    raise AgentError(worker.auth_status)
                code = worker.process.exitcode
                if worker.member_ids is not None:
                    self._known = worker.member_ids  # else the groups still have the previous worker's member ids
                if code == RENEWS:
                    why = self._renew(worker.next_settings)
                    continue
                if code is not None and code > 0 and (retry := self._retry(worker, code)) is not None:
                    why = retry
                    continue
                if code is None:
                    worker.kill()
                elif code > 0 and not self._was_accepted:
                    return code  # it has reported why: wrong input, a port in use; a retry changes nothing
                if reason != _LEADS_AGAIN:
                    self._handle_worker_exit(reason)
                why = f"{reason}; only observes" if self._observing else reason
            finally:
                worker.close()
        self._leave(self._known, wait=True)
        return 0

    def _renew(self, settings: SettingsInForce | None) -> str:
        """Put the settings in force for which a worker has ended; return why the next one replaces it, for its events.

        None are there if the worker could not send them any more: the next one reads them.
        """
        if settings is None:
            settings = replace(self._settings, content="", changed="")
        self._former, self._settings = self._settings, settings
        self._rejected = self._why_rejected = ""
        self._leave_what_no_worker_continues()
        return f"settings changed: {self._settings.changed}"

    def _retry(self, worker: Worker, code: int) -> str | None:
        """Return why another worker replaces one that could not begin, empty for no reason; None if none does."""
        if worker.heartbeat_age.is_first and self._revert(code):
            return "the changed settings do not work"
        if self._keeps_trying and not self._was_accepted:
            sys.stderr.write(f"samerack: tries again in {_TRY_AGAIN_SECONDS:g} s\n")
            self._wait(_TRY_AGAIN_SECONDS, for_settings=True)
            self._is_to_read = False  # the next worker reads them
            return ""
        return None

    def _revert(self, code: int) -> bool:
        """Return to the former settings after a worker could not begin with the present ones, if there are any."""
        if self._former is None:
            return False
        self._rejected = self._settings.content
        self._why_rejected = f"a process with the new settings exited at once with code {code}; the log says why"
        self._settings, self._former = self._former, None
        self._report("error", "settings-reverted", exit_code=code, consequence="the former settings are in force again")
        return True

    def _signalled(self) -> bool:
        return self._signal != 0

    def _on_signal(self, number: int, _: FrameType | None) -> None:
        now = time.monotonic()
        if not self._signalled():
            self._signalled_at = now
        self._is_urgent = now > self._signalled_at + _DOUBLED_SECONDS
        self._signal = number

    def _on_hangup(self, number: int, _: FrameType | None) -> None:
        """Have the settings read again, or end when the terminal of this process has gone."""
        if _has_lost_its_terminal():
            self._on_signal(number, None)
        else:
            self._is_to_read = True

    def _watch(self, worker: Worker) -> str:
        """Watch the worker until it must be replaced or stopped; return why."""
        measured = time.monotonic()
        while not self._signalled():
            worker.wait(_TURN_SECONDS)
            now = time.monotonic()
            worker.listen()
            if worker.settings is not None:
                self._settings, self._former = worker.settings, None  # they work: no later failure is due to them
            if self._is_to_read and not worker.heartbeat_age.is_first:
                self._is_to_read = False
                worker.ask_for_settings()
            self._was_accepted = self._was_accepted or worker.was_accepted
            if worker.process.exitcode is not None:
                worker.listen()  # what it has sent at its end
                return f"exit code {worker.process.exitcode}"
            if worker.auth_status and not self._was_accepted:
                return worker.auth_status
            worker.heartbeat_age.measure(now, expected=_TURN_SECONDS + _LATE_SECONDS)
            if worker.heartbeat_age.is_first:
                if worker.heartbeat_age.seconds > _START_SECONDS:
                    return f"no heartbeat within {_START_SECONDS:g} s of its start"
            elif worker.heartbeat_age.seconds > HANG_SECONDS:
                return f"no heartbeat for {HANG_SECONDS:g} s"
            if now - measured > _MEMORY_SECONDS:
                measured = now
                if reason := worker.overgrown(self._settings.memory_mib):
                    return reason
            if self._observing and now > self._observing_until:
                return self._lead_again(worker)
        return ""

    def _lead_again(self, worker: Worker) -> str:
        self._report("info", "leads-again", after_seconds=self._settings.restart_window_seconds)
        worker.process.terminate()
        worker.process.join(_STOP_SECONDS)
        self._observing = False
        self._restarts.clear()
        return _LEADS_AGAIN

    def _handle_worker_exit(self, reason: str) -> None:
        """Release what delays groups after a worker has died, and decide how the next worker starts."""
        now = time.monotonic()
        self._restarts.append(now)
        while self._restarts and now - self._restarts[0] > self._settings.restart_window_seconds:
            self._restarts.popleft()
        count = len(self._restarts)
        groups = sorted({one.group for one in self._known})
        self._report("error", "worker-died", reason=reason, restarts=count, groups=groups)
        self._leave_what_no_worker_continues()
        if count >= MAX_RESTARTS and not self._observing:
            self._observing, self._observing_until = True, now + self._settings.restart_window_seconds
            self._report(
                "error",
                "only-observes",
                reason=f"the worker died {count} times in {self._settings.restart_window_seconds:g} s",
                seconds=self._settings.restart_window_seconds,
            )
        pause = RESTART_PAUSES.after(count)
        if pause or self._observing:
            # no worker will continue the membership before its session ends: the groups must not wait for it
            self._leave(self._known, wait=True)
            self._known = frozenset()
        self._wait(pause)

    def _wait(self, seconds: float, *, for_settings: bool = False) -> None:
        """Wait before the next worker; SIGHUP, which has settings read again, ends a wait `for_settings`."""
        until = time.monotonic() + seconds
        while time.monotonic() < until and not self._signalled() and not (for_settings and self._is_to_read):
            time.sleep(_TURN_SECONDS)

    def _leave_what_no_worker_continues(self) -> None:
        """Leave for members that the next worker does not take up: groups would wait for them until a session ends."""
        groups = self._settings.groups
        lost = frozenset(
            one for one in self._known if one.pending or one.instance_id is None or not selects(groups, one.group)
        )
        self._leave(lost, wait=False)
        self._known -= lost

    def _stop(self, worker: Worker) -> int:
        """Pass the signal on, and kill the worker if it does not stop; leave the groups that it has not left."""
        worker.process.terminate()
        began, asked = time.monotonic(), False
        while worker.process.exitcode is None and (now := time.monotonic()) < began + _STOP_SECONDS:
            worker.heartbeat_age.measure(now, expected=_TURN_SECONDS + _LATE_SECONDS)
            patience = _OVERDUE_SECONDS if worker.heartbeat_age.seconds > HANG_SECONDS else _LEADS_SECONDS
            if not asked and worker.member_ids and now > began + patience:
                asked = True
                self._leave(worker.member_ids, wait=False)
            if self._is_urgent:
                worker.hurry()
            time.sleep(_TURN_SECONDS / 2)
            worker.listen()
        if worker.process.exitcode is None:
            worker.kill()
            self._report("error", "killed", reason=f"still running {_STOP_SECONDS:g} s after the signal")
        worker.listen()  # its last message: which groups it is still in
        # a worker that has sent nothing was in no group yet: the previous worker may still be
        self._leave(self._known if worker.member_ids is None else worker.member_ids, wait=True)
        code = worker.process.exitcode or 0
        if code == RENEWS or (code == -signal.SIGTERM and worker.heartbeat_age.is_first):
            return 0  # its settings changed just before the signal, or it had not begun
        return code if code >= 0 else 1

    def _leave(self, present: frozenset[MemberIdentity], *, wait: bool) -> None:
        if not present:
            return
        leaving = fork(partial(self._processes.leave, self._settings.content, present))
        if wait:
            leaving.join(_LEAVE_SECONDS)

    def _report(self, level: str, event: str, **fields: object) -> None:
        """Have an event logged by a process of its own, which needs more memory than this one; nobody waits for it."""
        fork(partial(self._processes.report, self._settings.content, level, event, **fields))


def _has_lost_its_terminal() -> bool:
    """Return whether standard input is a terminal that was closed."""
    try:
        os.tcgetpgrp(0)
    except OSError as error:
        return error.errno == errno.EIO
    return False


_LEADS_AGAIN: Final = "leads again"
