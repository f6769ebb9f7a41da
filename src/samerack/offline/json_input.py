"""What `samerack assign` does with any JSON question: reads its file, and makes one line of what is wrong with it."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

import typer

from samerack.common.words import plain

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

Answer: TypeAlias = dict[str, Any]


class QuestionError(Exception):
    """A question that cannot be answered; the message names the key and what belongs there."""


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
