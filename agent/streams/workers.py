"""The processes that plan, one for each application; one that is late is killed, and another one starts."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from http import HTTPStatus
from typing import Any, Final

from samerack.agent.streams.context import MAX_TEXT, Caller, PlanContext
from samerack.agent.streams.figures import Summary
from samerack.common.pickle_process import FAILURES, PickleProcess

START_SECONDS: Final = 60.0
"""Time for a process to start on a machine that is starved of processor time."""


_PLANNING: Final = "another plan of this application is under way; its answer is the newer one"
_STARTING: Final = "the process that plans is still starting; the next rebalance finds it ready"


class NoPlanError(Exception):
    """There is no plan: the HTTP status of the answer, and the reason with a cure."""

    def __init__(self, status: HTTPStatus, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class PlanWorker:
    """The process of one application; for one thread at a time."""

    def __init__(self, folders: Sequence[str]) -> None:
        self._folders = tuple(folders)
        self._process: PickleProcess | None = None
        self._is_ready = False
        self.is_busy = False
        self.is_preparing = False

    def start(self) -> PickleProcess:
        """Start the process, unless it runs, and return it; it is ready when it has loaded what it needs.

        Raises:
            NoPlanError: The machine has no room for it.
        """
        if self._process is None or not self._process.is_running:
            self.end()
            try:
                self._process = PickleProcess("samerack.agent.streams.worker", *self._folders)
            except OSError as error:
                raise NoPlanError(
                    HTTPStatus.INTERNAL_SERVER_ERROR,
                    f"the process that plans cannot start: {error}; give the agent more memory or processes",
                ) from error
            self._is_ready = False
        return self._process

    def prepare(self) -> None:
        """Start the process, and return when it is ready.

        Raises:
            NoPlanError: It is not in time.
        """
        with self._deadline(START_SECONDS) as process:
            self._await_ready(process)

    def plan(self, body: bytes, context: Callable[[Caller], PlanContext], *, seconds: float) -> tuple[bytes, Summary]:
        """Return the answer to a question in JSON, and its figures; after so many seconds the process is killed.

        Raises:
            NoPlanError: There is no plan.
        """
        with self._deadline(seconds) as process:
            self._await_ready(process)
            caller = _ask(process, ("plan", body, seconds))[0]
            answer, figures = _ask(process, context(caller))
            return answer, figures

    def computed(self, plan: str, error: str, *, seconds: float) -> None:
        """Pass on what the application made of a plan.

        Raises:
            NoPlanError: The user's assignor failed, or did not return in time.
        """
        if self._process is not None and self._is_ready:  # a new process knows no plans
            with self._deadline(seconds) as process:
                _ask(process, ("computed", (plan, error), seconds))

    @contextmanager
    def _deadline(self, seconds: float) -> Iterator[PickleProcess]:
        """Yield the process, which is killed after so long."""
        process = self.start()
        end = time.monotonic() + seconds
        late = threading.Timer(seconds, process.kill)
        late.daemon = True
        late.start()
        try:
            yield process
        except FAILURES:
            self.end()
            if time.monotonic() < end:
                raise NoPlanError(
                    HTTPStatus.INTERNAL_SERVER_ERROR, "the process that plans has died; the agent's log may say why"
                ) from None
            with suppress(NoPlanError):
                self.start()  # it may have been late because it had to start
            raise NoPlanError(
                HTTPStatus.GATEWAY_TIMEOUT,
                f"no plan within {round(seconds, 1):g} s; raise streams.deadline_seconds, and the jar's own deadline",
            ) from None
        except NoPlanError:
            raise
        except BaseException:
            self.end()  # it waits for a message that does not come
            raise
        finally:
            late.cancel()

    def _await_ready(self, process: PickleProcess) -> None:
        if not self._is_ready:
            _received(process)
            self._is_ready = True

    def end(self) -> None:
        """Kill the process; it has no state but that of a user's assignor."""
        process, self._process = self._process, None
        if process is not None:
            process.end()


def _ask(process: PickleProcess, question: Any) -> Any:
    """Return the parts of a good answer."""
    process.send(question)
    return _received(process)


def _received(process: PickleProcess) -> Any:
    status, *parts = process.receive()
    if status != HTTPStatus.OK:
        raise NoPlanError(status, parts[0][:MAX_TEXT])
    return parts


class Workers:
    """The processes of all applications; the one that was idle for the longest time makes room for another."""

    def __init__(self, folders: Sequence[str], *, max_processes: int) -> None:
        """Prepare; a process starts with the first question of its application, and at most so many run at a time."""
        self._folders = folders
        self._max_processes = max_processes
        self._workers: OrderedDict[str, PlanWorker] = OrderedDict()
        self._lock = threading.Condition()

    @contextmanager
    def of(self, application: str, *, prepares: bool = False, patience: float = 0.0) -> Iterator[PlanWorker]:
        """Yield the worker of an application, for the caller alone, which only starts it if it `prepares`.

        Another caller that only starts it is waited for with `patience`, in seconds; none that plans is.

        Raises:
            NoPlanError: It is busy, or all are.
        """
        worker = self._take(application, prepares=prepares, patience=patience)
        try:
            yield worker
        finally:
            with self._lock:
                worker.is_busy = worker.is_preparing = False
                self._lock.notify_all()

    def _take(self, application: str, *, prepares: bool, patience: float) -> PlanWorker:
        evicted = None
        with self._lock:
            self._lock.wait_for(lambda: not self._is_preparing(application), patience)
            worker = self._workers.get(application)
            if worker is None:
                if len(self._workers) >= self._max_processes:
                    evicted = self._longest_idle()
                worker = self._workers[application] = PlanWorker(self._folders)
            if worker.is_busy:
                raise NoPlanError(HTTPStatus.SERVICE_UNAVAILABLE, _STARTING if worker.is_preparing else _PLANNING)
            worker.is_busy, worker.is_preparing = True, prepares
            self._workers.move_to_end(application)
        if evicted is not None:
            evicted.end()
        return worker

    def _is_preparing(self, application: str) -> bool:
        worker = self._workers.get(application)
        return worker is not None and worker.is_preparing

    def _longest_idle(self) -> PlanWorker:
        idle = next((name for name, worker in self._workers.items() if not worker.is_busy), None)
        if idle is None:
            raise NoPlanError(
                HTTPStatus.SERVICE_UNAVAILABLE,
                f"{self._max_processes} other applications are planned for; raise streams.max_processes",
            )
        return self._workers.pop(idle)

    def end(self) -> None:
        """Kill all processes; plans under way end without an answer."""
        with self._lock:
            workers, self._workers = list(self._workers.values()), OrderedDict()
        for worker in workers:
            worker.end()
