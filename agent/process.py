"""The agent's first process: loads what workers need, once, and supervises them. `samerack run` becomes this program.

Workers are forks of this process: they share its memory, and a successor is there at once. Threads and connections do
not survive a fork, so this process has none: it imports, and starts nothing. Everything that it imports stays in the
memory of every agent, so it does without the command line's library, and without what the agent has no use for.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import socket
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from functools import partial
from importlib import import_module
from importlib.util import find_spec, module_from_spec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, NoReturn, cast

if TYPE_CHECKING:
    from samerack.agent.settings_source import SettingsSource
    from samerack.settings.all_settings import Settings

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
"""After so long a thread that computes gives way to another one; Python's own interval is five milliseconds. With that
one the threads that serve the network and the supervisor wait too long behind others on a busy machine: a new group's
first rebalance would be over, and the supervisor would take the process for hung."""
_HANDLED: Final = (signal.SIGTERM, signal.SIGINT)
_ABSENT: Final = ("rich", "hypothesis")
"""What structlog imports for colours, and kio for tests, where they are installed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """What `samerack run` was asked for; texts, as they are passed on to another program."""

    config: list[str] = field(default_factory=list)
    bootstrap: list[str] = field(default_factory=list)
    groups: list[str] | None = None
    assignments: list[str] | None = None
    observe: bool = False


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
    gc.disable()  # all that is loaded stays
    from samerack.common.errors import (  # noqa: PLC0415 - not before signals are handled
        AgentError,
        SettingsError,
        report_error,
    )
    from samerack.settings.flags import settings_from  # noqa: PLC0415 - see above
    from samerack.settings.sources import CONFIG_VARIABLE  # noqa: PLC0415 - see above

    read = partial(
        settings_from,
        [Path(path) for path in request.config],
        request.bootstrap,
        request.assignments,
        groups=request.groups,
        several=True,
    )
    path = request.config[0] if request.config else os.environ.get(CONFIG_VARIABLE, "")
    try:
        return _supervise(read, Path(path) if path else None, observe=request.observe)
    except (SettingsError, AgentError) as error:
        return report_error(error)


def skip_unused_imports() -> None:
    """Leave out optional libraries, and the parts of kafka-python and uvicorn that the agent has no use for.

    It must run before these libraries are imported; commands and plug-ins get all. The package `kafka` imports its
    consumer, producer and admin client, with all of their messages; `uvicorn` its own command line. What the agent
    uses is in their modules, which need nothing of the packages but the names set here.
    """
    for name in _ABSENT:
        sys.modules.setdefault(name, cast("Any", None))  # as the import system says that there is none
    _package("kafka")
    uvicorn = _package("uvicorn")
    if uvicorn is not None:
        vars(uvicorn).update(
            Config=import_module("uvicorn.config").Config, Server=import_module("uvicorn.server").Server
        )


def _package(name: str) -> ModuleType | None:
    """Return a package of which modules can be imported, without running its own code; None if it is loaded."""
    spec = find_spec(name) if name not in sys.modules else None
    if spec is None:
        return None
    sys.modules[name] = package = module_from_spec(spec)
    return package


def _supervise(read: Callable[[], Settings], path: Path | None, *, observe: bool) -> int:
    settings = read()
    skip_unused_imports()  # not before errors in settings are reported
    from samerack.agent import log, program  # noqa: PLC0415 - see above
    from samerack.agent.leading.leaving import leave_or_tell  # noqa: PLC0415 - see above
    from samerack.agent.settings_source import SettingsSource  # noqa: PLC0415 - see above
    from samerack.agent.supervisor.line import MemberIdentity  # noqa: PLC0415 - see above
    from samerack.agent.supervisor.watchdog import Supervisor  # noqa: PLC0415 - see above
    from samerack.cluster.client import go_on_trying  # noqa: PLC0415 - see above

    log.configure(settings, is_agent=True)
    go_on_trying()
    program.get_ready(settings)
    source = SettingsSource(settings, read, path=path)
    gc.freeze()  # a worker that looks for garbage would write to every page that it shares
    gc.enable()

    def leave(members: frozenset[MemberIdentity]) -> None:
        leave_or_tell(source.settings.kafka, members)

    return Supervisor(source, work=partial(_work, source, observe), leave=leave).run()


def _work(source: SettingsSource, observe: bool, line: socket.socket, /, *, observing: bool, why: str) -> None:  # noqa: FBT001 - a part of `_supervise`
    """Run the process that works, by the settings in force when it begins; see `agent.supervisor.watchdog.Work`."""
    from samerack.agent import log, program  # noqa: PLC0415 - loaded already
    from samerack.common.errors import (  # noqa: PLC0415 - see above
        AgentError,
        SettingsError,
        report_error,
    )

    try:
        log.configure(source.settings, is_agent=True)
        program.run(source, line=line, observing=observe or observing, why=why)
    except (SettingsError, AgentError) as error:
        sys.exit(report_error(error))


if __name__ == "__main__":
    sys.exit(main(RunRequest(**json.loads(sys.argv[1]))))
