"""Reads the commands of the documentation, so that tests can run them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
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
    """A command line and its page."""

    page: str
    words: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.page}: {shlex.join(self.words)}"


def sources() -> list[Path]:
    """Return all files of Python that are shipped, where they lie."""
    rooms = [room.resolve() for room in (ROOT / "src" / "samerack").iterdir() if room.is_dir()]
    found = [path for room in rooms for path in sorted(room.rglob("*.py"))]
    assert found
    return found


def pages() -> list[Path]:
    """All pages for users, and that for developers."""
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks() -> Iterator[Command]:
    """Commands in code blocks; a backslash at the end continues a line, a `#` starts a comment."""
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


def named_tests(page: str) -> tuple[set[str], set[str]]:
    """The tests that a page names, and those of them that do not exist."""
    named = set(re.findall(r"`(test_\w+)`", page))
    return named, named - _tests()


@cache
def _tests() -> frozenset[str]:
    """The names of all tests."""
    files = (ROOT / "tests").rglob("test_*.py")
    texts = (path.read_text(encoding="utf-8") for path in files)
    return frozenset(name for text in texts for name in re.findall(r"^def (test_\w+)\(", text, re.MULTILINE))


def dead_links(page: Path) -> list[str]:
    """Links on a page to a missing file or heading; links to the web are not checked."""
    dead = []
    for address in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        path, _, anchor = address.partition("#")
        if path.startswith(("http://", "https://")):
            continue
        target = page.parent / path if path else page
        if not target.exists() or (anchor and anchor not in _headings(target)):
            dead.append(address)
    return dead


def _headings(page: Path) -> set[str]:
    """Anchors of a page's headings, as GitHub creates them."""
    texts = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-") for text in texts}
