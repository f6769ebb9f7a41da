"""Output of long runs: a console, and a folder with histories and logs that is kept after a failure."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console

from sandbox.demo import Story


def log_console(columns: int) -> Console:
    """Returns a console on standard error; without a terminal it has `columns` columns, so that an event is a line."""
    console = Console(stderr=True)
    return console if console.is_terminal else Console(stderr=True, width=columns)


def complain(console: Console, complaints: Iterable[str]) -> None:
    """Prints what is wrong, a line each."""
    for complaint in complaints:
        console.print(f"[red]{complaint}[/red]", highlight=False)


class Evidence:
    """A folder; `keep` may be set until its context ends."""

    def __init__(self, folder: Path, *, keep: bool) -> None:
        self.folder = folder
        self.keep = keep


@contextmanager
def evidence(story: Story, prefix: str, *, keep: bool) -> Iterator[Evidence]:
    """Creates a folder, which is kept if asked for or if the run failed; an interrupted run removes it."""
    made = Evidence(Path(tempfile.mkdtemp(prefix=prefix)), keep=keep)
    kept = True
    try:
        yield made
        kept = made.keep
    except KeyboardInterrupt:
        kept = False
        raise
    finally:
        if kept:
            story.tell(f"histories and logs are kept in {made.folder}; python -m sandbox.history checks them")
        else:
            shutil.rmtree(made.folder, ignore_errors=True)
