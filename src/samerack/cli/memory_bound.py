"""Bounds the memory of commands that run once, perhaps beside an agent in its container, so that they never cost it.

When a container's memory is used up, the kernel ends whoever holds most of it, or all of it: the agent. So a command
takes no more than what is left, less a reserve for the agent, and says so where that is not enough. It runs in a
process of its own: libraries that get no memory abort, and the parent process says why.
"""

from __future__ import annotations

import ctypes
import errno
import os
import resource
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from samerack.agent.supervisor.memory import Limit, limits
from samerack.common.errors import AgentError

_RESERVE_BYTES: Final = 32 << 20
_MIN_BYTES: Final = 32 << 20
"""Less than this is not even enough to load a command."""
_STACK_BYTES: Final = 1 << 20
"""Of a thread: all of it counts, however little is used, and clients start a dozen of them."""
_NO_THREAD_DATA: Final = 127
"""The exit code of a process whose C library finds no memory for a thread."""
_MIB: Final = 1 << 20


def bounded(command: Callable[[], None]) -> None:
    """Run a command within what its container has left; without a limit as it is.

    Where there is a limit, only the process that runs the command returns; the other ends with its exit code.

    Raises:
        AgentError: That is not enough memory.
    """
    tightest = min(limits(), key=lambda limit: limit.left_bytes, default=None)
    if tightest is None:
        command()
        return
    room = tightest.left_bytes - _RESERVE_BYTES
    if room < _MIN_BYTES:
        raise _not_enough(tightest)
    sys.stdout.flush()
    if child := os.fork():
        _end_as(child, tightest)
    _bind(room)
    try:
        command()
    except Exception as error:
        if not _is_for_memory(error):
            raise
        raise _not_enough(tightest) from None


def _end_as(child: int, limit: Limit) -> None:
    """Wait for the process that runs the command, and end as it does.

    Raises:
        AgentError: It was aborted for want of memory.
        SystemExit: Otherwise.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to both
    signal.signal(signal.SIGTERM, lambda number, _: os.kill(child, number))
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code in (-signal.SIGABRT, -signal.SIGSEGV, -signal.SIGKILL, -signal.SIGBUS, _NO_THREAD_DATA):
        raise _not_enough(limit, f" (it ended by {'exit code' if code > 0 else 'signal'} {abs(code)})")
    sys.exit(code if code >= 0 else 128 - code)


def _bind(room: int) -> None:
    """Cap the memory of this process, in bytes, and make it the first that the kernel ends."""
    data = resource.getrlimit(resource.RLIMIT_DATA)
    most = _data_bytes() + room
    if data[0] == resource.RLIM_INFINITY or most < data[0]:
        resource.setrlimit(resource.RLIMIT_DATA, (most, data[1]))
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # each would have buffers of its own
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")
    with suppress(OSError, AttributeError):  # glibc alone has these, and needs them
        library, attributes = ctypes.CDLL(None), ctypes.create_string_buffer(256)
        if not library.pthread_getattr_default_np(attributes):
            library.pthread_attr_setstacksize(attributes, ctypes.c_size_t(_STACK_BYTES))
            library.pthread_setattr_default_np(attributes)


def _data_bytes() -> int:
    """Return what counts against the limit by now."""
    with suppress(OSError, ValueError, IndexError):
        for line in Path("/proc/self/status").read_text(encoding="ascii", errors="replace").splitlines():
            if line.startswith("VmData:"):
                return int(line.split()[1]) * 1024
    return 0


def _is_for_memory(error: Exception) -> bool:
    if isinstance(error, MemoryError | SystemError) or (isinstance(error, OSError) and error.errno == errno.ENOMEM):
        return True
    return any(words in str(error) for words in ("annot allocate memory", "can't start new thread"))


def _not_enough(limit: Limit, how: str = "") -> AgentError:
    left, whole, reserve = (size // _MIB for size in (limit.left_bytes, limit.limit_bytes, _RESERVE_BYTES))
    return AgentError(
        f"not enough memory left in this container: {left} MiB of {whole} MiB, of which {reserve} MiB are reserved for "
        f"the agent; run the command elsewhere, or raise the limit{how}"
    )
