"""The agent's first process, which supervises the one that works. `samerack run` becomes this program.

Everything that is imported here stays in the memory of every agent twice: in this process and in the worker, its fork,
which shares a page with it only until it counts a reference in it. So this process imports next to nothing; a worker
loads what it needs within half a second, well within the session that its memberships have.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import socket
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import partial
from importlib import import_module
from importlib.util import find_spec, module_from_spec
from pathlib import Path
from threading import RLock
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, NoReturn, cast

from samerack.agent.supervisor.protocol import MemberIdentity, WorkerStart

if TYPE_CHECKING:
    from samerack.agent.settings_source import SettingsSource

ENVIRONMENT: Final[Mapping[str, str]] = {
    "OPENBLAS_NUM_THREADS": "1",
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_MMAP_THRESHOLD_": "65536",
    "PYDANTIC_DISABLE_PLUGINS": "__all__",
}
"""Numpy starts no threads for matrices, which the agent has none of. One heap for all threads: Python lets one of them
run at a time, and each further heap keeps pages of its own. Tables of a poll's partitions lie outside of the heap, so
that their memory is given back: by itself the C library puts them on it once it has seen a few. Pydantic looks for no
plug-ins in all that is installed."""
_SWITCH_SECONDS: Final = 0.001
"""After this time a thread that computes gives way to another; Python's own interval is five milliseconds. With that
one the threads that serve the network and the supervisor wait too long behind others on a busy machine: a new group's
first rebalance would be over, and the supervisor would take the process for hung."""
_HANDLED: Final = (signal.SIGTERM, signal.SIGINT)
_ABSENT: Final = ("rich", "hypothesis")
"""What structlog imports for colours, and kio for tests, where they are installed."""
_LATER: Final = ("numpy", "sqlite3")
"""What takes memory and only an agent that leads or measures uses, or one that keeps its events in a file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """What `samerack run` was asked for; texts, as they are passed on to another program."""

    config: list[str] = field(default_factory=list)
    bootstrap: list[str] = field(default_factory=list)
    groups: list[str] | None = None
    assignments: list[str] | None = None
    observe: bool = False
    keep_trying: bool = False


def become(request: RunRequest) -> NoReturn:
    """Replace this program with the agent's first process.

    A signal meanwhile is not lost: it waits until that process can end.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, _HANDLED)
    line = [sys.executable, "-P", "-m", "samerack.agent.process", json.dumps(asdict(request))]
    os.execve(sys.executable, line, {**ENVIRONMENT, **os.environ})  # noqa: S606 - ourselves


def main(request: RunRequest) -> int:
    """Run the agent; return the exit code."""
    # nothing has begun that would have to be ended in order; process 1 of a container gets no signal without a handler
    for number in _HANDLED:
        signal.signal(number, lambda _number, _frame: sys.exit(0))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _HANDLED)
    sys.setswitchinterval(_SWITCH_SECONDS)
    from samerack.agent.supervisor.watchdog import Supervisor  # noqa: PLC0415 - not before signals are handled
    from samerack.common.errors import AgentError, report_error  # noqa: PLC0415 - see above

    try:
        return Supervisor(AgentProcesses(request), keeps_trying=request.keep_trying).run()
    except AgentError as error:
        return report_error(error)


class AgentProcesses:
    """What the processes of an agent do, see `agent.supervisor.watchdog`; each of them loads what it needs."""

    def __init__(self, request: RunRequest) -> None:
        self._request = request

    def work(self, start: WorkerStart, watchdog: socket.socket) -> None:
        """Run the worker; SystemExit has its exit code."""
        gc.disable()  # all that is loaded stays
        from samerack.common.errors import AgentError, SettingsError, report_error  # noqa: PLC0415 - see above

        try:
            source = self._source(start)
            from samerack.agent import log, program  # noqa: PLC0415 - see above
            from samerack.cluster.client import go_on_trying  # noqa: PLC0415 - see above

            log.configure(source.settings, is_agent=True)
            go_on_trying()
            program.get_ready(source.settings)
            gc.freeze()
            gc.enable()
            program.run(
                source,
                watchdog=watchdog,
                observing=self._request.observe or start.observing,
                keeps_trying=self._request.keep_trying,
                why=start.why,
            )
        except (SettingsError, AgentError) as error:
            sys.exit(report_error(error))

    def leave(self, settings: str, members: frozenset[MemberIdentity]) -> None:
        """Leave groups by member id, and log it."""
        source = self._source(WorkerStart(settings=settings))
        from samerack.agent.leading.leaving import leave_or_tell  # noqa: PLC0415 - see above

        _log(source, "info", "leaves-for-worker", groups=sorted({member.group for member in members}))
        leave_or_tell(source.settings.kafka, members)

    def report(self, settings: str, level: str, event: str, /, **fields: object) -> None:
        """Write an event of the supervisor to the log."""
        _log(self._source(WorkerStart(settings=settings)), level, event, **fields)

    def _source(self, start: WorkerStart) -> SettingsSource:
        """Return the settings in force, or those of all places if none are.

        Raises:
            SettingsError: They are wrong.
        """
        skip_unused_imports()
        from samerack.agent.settings_source import SettingsSource  # noqa: PLC0415 - see above
        from samerack.settings.flags import settings_from  # noqa: PLC0415 - see above
        from samerack.settings.sources import CONFIG_VARIABLE  # noqa: PLC0415 - see above

        request = self._request
        read = partial(
            settings_from,
            [Path(path) for path in request.config],
            request.bootstrap,
            request.assignments,
            groups=request.groups,
            several=True,
        )
        path = request.config[0] if request.config else os.environ.get(CONFIG_VARIABLE, "")
        return SettingsSource(read, path=Path(path) if path else None, start=start)


def _log(source: SettingsSource, level: str, event: str, /, **fields: object) -> None:
    """Write an event to the log as the settings have it, in a process that has not logged yet."""
    import structlog  # noqa: PLC0415 - it is loaded where it is needed

    from samerack.agent import log  # noqa: PLC0415 - see above

    log.configure(source.settings, is_agent=True)
    getattr(structlog.get_logger("supervisor"), level)(event, **fields)


def skip_unused_imports() -> None:
    """Leave out optional libraries and the unused parts of kafka-python and uvicorn, and load others when first used.

    It must run before these libraries are imported; commands and plug-ins get all. The package `kafka` imports its
    consumer, producer and admin client, with all of their messages; `uvicorn` its own command line. What the agent
    uses is in their modules, which need nothing of the packages but the names set here.
    """
    for name in _ABSENT:
        sys.modules.setdefault(name, cast("Any", None))  # as the import system says that there is none
    for name in _LATER:
        sys.modules.setdefault(name, LateModule(name))
    _package("kafka")
    uvicorn = _package("uvicorn")
    if uvicorn is not None:
        vars(uvicorn).update(
            Config=import_module("uvicorn.config").Config, Server=import_module("uvicorn.server").Server
        )


class LateModule(ModuleType):
    """Stands for a module that `import` finds, and loads it when its first attribute is asked for.

    Who has imported it keeps this object: it then has what the module has.
    """

    def __getattr__(self, name: str) -> Any:
        with _LOADING:
            if sys.modules.get(self.__name__) is self:
                del sys.modules[self.__name__]
            vars(self).update(vars(import_module(self.__name__)))
        return getattr(sys.modules[self.__name__], name)


_LOADING: Final = RLock()


def _package(name: str) -> ModuleType | None:
    """Return a package of which modules can be imported, without running its own code; None if it is loaded."""
    spec = find_spec(name) if name not in sys.modules else None
    if spec is None:
        return None
    sys.modules[name] = package = module_from_spec(spec)
    return package


if __name__ == "__main__":
    sys.exit(main(RunRequest(**json.loads(sys.argv[1]))))
