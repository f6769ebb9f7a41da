"""One language: no word that this project has replaced is in code, in its texts, in tests, in the lab or in the docs.

What is shipped is checked name by name, and has no two classes of one name. Tests and lab are checked too, but a name
that shipped code has is that code's affair: a test has to use it. Text is every line of a file: comments, docstrings,
messages and prose.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from io import IOBase
from pathlib import Path
from typing import Final

import pytest

from tests.docs import ROOT, pages, sources

_CLASSES: Final = re.compile(
    r"Births?|Book|Chronicle|Course|Floor|Judge|Judgement|Keeper|Letter|Looker|Look|Outlook|Painter|Presence|Round|Run"
    r"|Scene|Seat|Seen|Showing|Situation|Standing|Taking|Teller|Told|Wishes|Witness"
)
"""Replaced names of classes; a name with a further word, such as `TimeWindow`, is another."""
_WORDS: Final = re.compile(
    r"brake|bury|calm|chronicle|dearest|deaths|deputized|deputy|duties|duty|heeds?|keeper|knock|letter|look|looked|looker"
    r"|looking|looks|opinion|painter|presence|situation|standing|teller|told|tolerates|unfit|unseen|wishes|witness"
)
"""Replaced words in names of functions, variables, arguments and attributes."""
_MORE_WORDS: Final = re.compile(
    r"barred|births?|dear|heeded|judged?|judgement|judging|outlook|rivals?|said|sayable|scenes?|seats?|tells?|telling"
    r"|untold"
)
"""Further ones, in names that tests and lab make themselves."""
_TEXT: Final = re.compile(
    r"(?i:\b(?:bury|chronicle|dearest|deput(?:y|ies|ized)|heed(?:s|ed)?|judgement|looker|opinion|painter|sayable|situation"
    r"|tell(?:s|er)?|told|unfit|unseen|untold|witness)\b"
    r"|\bleave it away\b|\bleft away\b|\bstands twice\b|\bsays nothing with\b|\bfor pennies\b|\bcome to Amazon\b"
    r"|\bdo not bear\b|\bit is, but\b|\bfollowed before anybody\b|\bthe eye on\b|\bnobody has it\b|\bmistake of ours\b)"
)
"""Replaced words and turns in texts."""
_ELSEWHERE: Final = frozenset(
    {"_least_loaded", "least_loaded_node", "least_unequal", "least_unequal_loads", "most_common"}
)
"""Names of libraries, and names in which most and least are no bounds."""
_TEXT_ELSEWHERE: Final = re.compile(
    r"\b\w+\.tell\(\)|\btells_rack\b|\bcannot be told from classic ones\b|ids=\[\"unseen\""
    r"|\"mode\": \"tell\"|, \"tell\"\)"
)
"""What is Python's or shipped code's own, and a wrong value of a setting."""


def _names(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name):
                yield name
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.keyword(arg=str(name)):
                yield name


def _is_replaced(name: str, *, also: re.Pattern[str] | None = None) -> bool:
    """Whether a name has a replaced word; `also` has further words."""
    if name in _ELSEWHERE:
        return False
    words = name.strip("_").lower().replace("look_up", "lookup").replace("looked_up", "lookup").split("_")
    return (
        _CLASSES.fullmatch(name.strip("_")) is not None
        or any(map(_WORDS.fullmatch, words))
        or (also is not None and any(map(also.fullmatch, words)))
        or (len(words) > 1 and words[0] in {"most", "least"})
    )


def _replaced_names(paths: Iterable[Path], *, also: re.Pattern[str] | None = None) -> dict[Path, set[str]]:
    """The replaced names in modules; one whose text has none is not parsed.

    Raises:
        AssertionError: there are no modules.
    """
    found, count = dict[Path, set[str]](), 0
    for count, path in enumerate(paths, 1):  # noqa: B007 - counted below
        text = path.read_text(encoding="utf-8")
        if any(_is_replaced(word, also=also) for word in set(re.findall(r"\w+", text))):
            found[path] = {name for name in _names(ast.parse(text)) if _is_replaced(name, also=also)}
    assert count, "no module was read"
    return found


def _replaced_text(paths: Iterable[Path]) -> list[str]:
    """The lines with replaced words, with file and number.

    Raises:
        AssertionError: there are no files.
    """
    found, count = list[str](), 0
    for count, path in enumerate(paths, 1):  # noqa: B007 - counted below
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if match := _TEXT.search(_TEXT_ELSEWHERE.sub("", line)):
                found.append(f"{path}:{number}: {match[0]}")
    assert count, "no file was read"
    return found


@cache
def _shipped_names() -> frozenset[str]:
    """All names in what is shipped."""
    return frozenset(name for path in sources() for name in _names(ast.parse(path.read_text(encoding="utf-8"))))


def _modules(folder: Path) -> list[Path]:
    """The modules of a folder of tests or of the lab, without this one."""
    return [path for path in sorted(folder.rglob("*.py")) if path != Path(__file__)]


def _texts(folder: Path, *suffixes: str) -> list[Path]:
    return [path for path in sorted(folder.rglob("*")) if path.suffix in suffixes and "target" not in path.parts]


def test_no_replaced_name_is_used() -> None:
    """Each term has one name; a reader meets it in code, messages and docs alike."""
    found = _replaced_names(sources())
    assert sorted(f"{path.relative_to(ROOT)}: {name}" for path, names in found.items() for name in names) == []


def test_a_public_class_has_a_name_of_its_own() -> None:
    """Who meets the name of a class, or searches for it, finds one meaning; one name is given twice, by KIP-924."""
    made = defaultdict[str, list[str]](list)
    for path in sources():
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                made[node.name].append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert made
    assert {name: where for name, where in made.items() if len(where) > 1}.keys() == {"AssignmentError"}, made


@pytest.mark.parametrize("folder", ["tests", "lab"])
def test_tests_and_lab_have_the_same_names(folder: str) -> None:
    """A reader who comes from the code finds its terms."""
    found = _replaced_names(_modules(ROOT / folder), also=_MORE_WORDS)
    elsewhere = _shipped_names() | frozenset(dir(IOBase))
    made = ((path, name) for path, names in found.items() for name in names if name not in elsewhere)
    assert sorted(f"{path.relative_to(ROOT)}: {name}" for path, name in made) == []


_FOLDERS: Final[dict[str, Callable[[], list[Path]]]] = {
    "what is shipped": sources,
    "tests": lambda: _modules(ROOT / "tests"),
    "tests, in other languages": lambda: _texts(ROOT / "tests", ".java", ".go", ".mjs", ".md"),
    "lab": lambda: _modules(ROOT / "lab"),
    "lab, in other languages": lambda: _texts(ROOT / "lab", ".java", ".go", ".c", ".xml"),
    "docs": pages,
    "changes": lambda: [ROOT / "CHANGELOG.md", ROOT / "SECURITY.md"],
    "scripts": lambda: [path for path in sorted((ROOT / "scripts").iterdir()) if path.is_file()],
    "helm": lambda: _texts(ROOT / "helm", ".yaml", ".tpl", ".md", ".gotmpl"),
    "java": lambda: _texts(ROOT / "java", ".java", ".xml", ".md"),
}


@pytest.mark.parametrize("folder", _FOLDERS)
def test_no_replaced_word_is_in_a_text(folder: str) -> None:
    """Comments, docstrings, messages and prose are in plain words."""
    assert [line.removeprefix(f"{ROOT}/") for line in _replaced_text(_FOLDERS[folder]())] == []


_PLANTED: Final = '''
"""He was told."""

class Scene:
    def most_groups(self, look):  # leave it away
        return self._said
'''


def test_a_planted_word_is_found(tmp_path: Path) -> None:
    """Names, comments and docstrings are read, and no folder without files passes."""
    path = tmp_path / "planted.py"
    path.write_text(_PLANTED, encoding="utf-8")
    assert _replaced_names([path]) == {path: {"Scene", "most_groups", "look"}}
    assert _replaced_names([path], also=_MORE_WORDS) == {path: {"Scene", "most_groups", "look", "_said"}}
    assert _replaced_text([path]) == [f"{path}:2: told", f"{path}:5: leave it away"]
    with pytest.raises(AssertionError, match="no module was read"):
        _replaced_names([])
    with pytest.raises(AssertionError, match="no file was read"):
        _replaced_text([])
