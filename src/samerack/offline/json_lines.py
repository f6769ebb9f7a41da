"""What commands have in common that take JSON questions, one from a file or many as lines: errors, cases, times."""

from __future__ import annotations

import json
import statistics
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

import typer

from samerack.common.words import plain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

Answer: TypeAlias = dict[str, Any]


class QuestionError(Exception):
    """A question that cannot be answered; the message names the key and what belongs there."""


def answer_lines(answer: Callable[[bytes], Answer]) -> None:
    """Answer every line of standard input at once, for programs that wait for each answer."""
    for line in sys.stdin.buffer:
        if line.strip():
            sys.stdout.write(json.dumps(answer(line)) + "\n")
            sys.stdout.flush()


def answered(line: bytes, answer: Callable[[bytes], Answer], *kinds: type[Exception]) -> Answer:
    """Return the answer to one question, with its case; a wrong question and errors of these kinds are answers too.

    They become `{"error": ..., "message": ...}`.
    """
    expected: tuple[type[Exception], ...] = (QuestionError, *kinds)
    try:
        found = answer(line)
    except expected as error:
        found = {"error": type(error).__name__, "message": str(error)}
    return found | _case_in(line)


def _case_in(line: bytes) -> Answer:
    """Return the case that an answer repeats, also of a question that could not be read otherwise."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return {"case": value["case"]} if isinstance(value, dict) and "case" in value else {}


@contextmanager
def one_line_errors(command: str, *kinds: type[Exception]) -> Iterator[None]:
    """Turn a wrong question, a file that cannot be read, and errors of these kinds into one line and exit code 2."""
    expected: tuple[type[Exception], ...] = (QuestionError, OSError, *kinds)
    try:
        yield
    except expected as error:
        typer.echo(f"samerack {command}: {plain(str(error))}", err=True)
        raise typer.Exit(2) from None


def content_of(source: Path) -> bytes:
    """Return what a file holds; `-` is standard input.

    Raises:
        OSError: The file cannot be read.
    """
    return sys.stdin.buffer.read() if str(source) == "-" else source.read_bytes()


def typical(nanos: Sequence[int]) -> int:
    """Return the median of the later half of some times: the first runs load what they need."""
    return int(statistics.median(nanos[len(nanos) // 2 :]))
