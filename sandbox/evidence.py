"""How long runs show what they found: on a console, and in a folder that is kept where somebody will want to look."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console

from sandbox.demo import Story


def log_console(columns: int) -> Console:
    """Standard error; so many columns wide where it is no terminal, for one line to be one event."""
    console = Console(stderr=True)
    return console if console.is_terminal else Console(stderr=True, width=columns)


def complain(console: Console, complaints: Iterable[str]) -> None:
    """Say what is wrong, a line each."""
    for complaint in complaints:
        console.print(f"[red]{complaint}[/red]", highlight=False)


class Evidence:
    """One folder; `keep` may be set until its context ends."""

    def __init__(self, folder: Path, *, keep: bool) -> None:
        self.folder = folder
        self.keep = keep


@contextmanager
def evidence(story: Story, prefix: str, *, keep: bool) -> Iterator[Evidence]:
    """A new folder, which stays where that is asked for or the run failed; an interrupted run leaves nothing."""
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
