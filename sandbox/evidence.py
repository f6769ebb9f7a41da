"""The folder with the histories and logs of a long run: kept where somebody will want to look, else gone."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sandbox.demo import Story


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
