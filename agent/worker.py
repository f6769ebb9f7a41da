"""A process that plans and may be killed: the solver, once it runs, heeds nobody (`agent.leading.deadline` rules it).

It reads questions from standard input and writes answers to standard output, as pickles of our own; it ends when its
input does.
"""

from __future__ import annotations

import pickle
import signal
import sys
import time
from typing import Any, BinaryIO

from assignors.consumer.registry import ASSIGNORS
from assignors.model import AssignmentError


def serve(questions: BinaryIO, answers: BinaryIO) -> None:
    """Answer (assignor, problem, options, seconds) with (owner, nanoseconds, "") or (None, 0, what failed)."""
    while True:
        try:
            name, problem, options, seconds = pickle.load(questions)  # noqa: S301 - from the process that started this
        except EOFError:
            return
        # should the master be gone, the kernel ends this process even while the solver runs
        signal.setitimer(signal.ITIMER_REAL, seconds + 1.0)
        answer: tuple[Any, int, str]
        try:
            start = time.perf_counter_ns()
            owner = ASSIGNORS[name].assign(problem, options)
            answer = (owner, time.perf_counter_ns() - start, "")
        except AssignmentError as error:
            answer = (None, 0, str(error))
        except Exception as error:  # noqa: BLE001 - the master has a fall-back, and wants to say why it was needed
            answer = (None, 0, f"{type(error).__name__}: {error}")
        signal.setitimer(signal.ITIMER_REAL, 0)
        pickle.dump(answer, answers, protocol=pickle.HIGHEST_PROTOCOL)
        answers.flush()


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the master's to act on
    serve(sys.stdin.buffer, sys.stdout.buffer)
