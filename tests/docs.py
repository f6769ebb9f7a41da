"""Reads the commands that the documentation tells people to type, so that tests can run them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent
_BLOCK: Final = re.compile(
    r"^(?:```.*\n(?P<fenced>(?:.*\n)*?)```|(?P<indented>(?: {4}\S.*\n(?: {4}.*\n)*)))", re.MULTILINE
)
_SPAN: Final = re.compile(r"`((?:samerack |scripts/)[^`\n]*)`")
_PROGRAMS: Final = ("samerack ", "scripts/")


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A command line and the page it stands on."""

    page: str
    words: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.page}: {shlex.join(self.words)}"


def pages() -> list[Path]:
    """Every page for users."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks() -> Iterator[Command]:
    """Commands in code blocks; a backslash at the end of a line goes on, a `#` begins a remark."""
    for page in pages():
        for match in _BLOCK.finditer(page.read_text(encoding="utf-8")):
            text = (match["fenced"] or match["indented"]).replace("\\\n", " ")
            for line in (line.strip().removeprefix("$ ") for line in text.splitlines()):
                if line.startswith(_PROGRAMS):
                    yield Command(page=page.name, words=tuple(shlex.split(line, comments=True)))


def spans() -> Iterator[Command]:
    """Commands in running text."""
    for page in pages():
        for match in _SPAN.finditer(page.read_text(encoding="utf-8")):
            yield Command(page=page.name, words=tuple(match[1].split()))


def yaml_of(page: str) -> str:
    """The first YAML block of a page in docs/."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    return text.partition("```yaml\n")[2].partition("```")[0]
