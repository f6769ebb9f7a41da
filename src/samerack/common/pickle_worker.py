"""The program that `common.pickle_process` starts: calls functions that it reads from standard input, one at a time.

Calls and answers are pickles; it ends when its input ends. The arguments are folders in which modules are found.
"""

from __future__ import annotations

import gc
import importlib
import os
import pickle
import signal
import sys
from inspect import isgenerator
from typing import Any, BinaryIO

from samerack.common.errors import one_line


def serve(calls: BinaryIO, answers: BinaryIO) -> None:
    """Answer (module, function, arguments, seconds) with (what it returns, "") or (None, what failed).

    Of a generator it is the first value: what its variables hold, such as a plan of millions of values, is freed once
    the answer is sent.
    """
    answer: tuple[Any, str]
    found: Any = None
    while True:
        try:
            module, function, arguments, seconds = pickle.load(calls)  # noqa: S301 - from the process that started this
        except EOFError:
            return
        # if the parent process has ended, the kernel ends this process even while a solver runs
        signal.setitimer(signal.ITIMER_REAL, seconds + 1.0)
        gc.disable()  # a plan may be millions of values that all stay until it is sent: a third of its time
        try:
            found = getattr(importlib.import_module(module), function)(*arguments)
            answer = (next(found) if isgenerator(found) else found, "")
        except Exception as error:  # noqa: BLE001 - who calls has a fall-back, and reports why it was needed
            answer = (None, one_line(error))
        pickle.dump(answer, answers, protocol=pickle.HIGHEST_PROTOCOL)
        answers.flush()
        signal.setitimer(signal.ITIMER_REAL, 0)
        found = None
        gc.enable()


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent process handles Ctrl-C
    sys.path.extend(sys.argv[1:])
    given = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what a function prints is no answer
    serve(sys.stdin.buffer, given)
