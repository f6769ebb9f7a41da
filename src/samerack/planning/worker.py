"""A process that plans and may be killed, as a running solver cannot be interrupted; see `planning.deadline`.

It reads questions from standard input and writes answers to standard output, both as pickles; it ends when its input
ends.
"""

from __future__ import annotations

import pickle
import signal
import sys
import time
from typing import Any, BinaryIO

from samerack.assignors.consumer.registry import ASSIGNORS
from samerack.assignors.problem import AssignmentError
from samerack.common.errors import one_line


def serve(questions: BinaryIO, answers: BinaryIO) -> None:
    """Answer (assignor, problem, options, seconds) with (owner, nanoseconds, "") or (None, 0, what failed)."""
    while True:
        try:
            name, problem, options, seconds = pickle.load(questions)  # noqa: S301 - from the process that started this
        except EOFError:
            return
        # if the parent process has ended, the kernel ends this process even while the solver runs
        signal.setitimer(signal.ITIMER_REAL, seconds + 1.0)
        answer: tuple[Any, int, str]
        try:
            start = time.perf_counter_ns()
            owner = ASSIGNORS[name].assign(problem, options)
            answer = (owner, time.perf_counter_ns() - start, "")
        except AssignmentError as error:
            answer = (None, 0, str(error))
        except Exception as error:  # noqa: BLE001 - the parent has a fall-back, and reports why it was needed
            answer = (None, 0, one_line(error))
        signal.setitimer(signal.ITIMER_REAL, 0)
        pickle.dump(answer, answers, protocol=pickle.HIGHEST_PROTOCOL)
        answers.flush()


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent process handles Ctrl-C
    serve(sys.stdin.buffer, sys.stdout.buffer)
