"""Names in what is shipped are the field's terms: no module uses a word that this project has replaced."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.docs import ROOT, sources

_CLASSES = re.compile(
    r"Book|Chronicle|Course|Floor|Judge|Keeper|Letter|Looker|Look|Painter|Presence|Round|Run|Scene|Seat|Seen|Showing"
    r"|Situation|Standing|Taking|Teller|Told|Wishes|Witness"
)
"""Replaced names of classes; a name with a further word, such as `TimeWindow`, is another."""
_WORDS = re.compile(
    r"brake|bury|calm|chronicle|dearest|deaths|deputized|deputy|duties|duty|heeds?|keeper|knock|letter|looker|opinion"
    r"|painter|presence|situation|standing|teller|told|tolerates|unfit|wishes|witness"
)
"""Replaced words in names of functions, variables, arguments and attributes."""
_ELSEWHERE = frozenset({"_least_loaded", "least_loaded_node", "least_unequal", "least_unequal_loads", "most_common"})
"""Names of libraries, and names in which most and least are no bounds."""


def _names(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name):
                yield name
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.keyword(arg=str(name)):
                yield name


def _is_replaced(name: str) -> bool:
    if name in _ELSEWHERE:
        return False
    words = name.strip("_").lower().split("_")
    return (
        _CLASSES.fullmatch(name.strip("_")) is not None
        or any(map(_WORDS.fullmatch, words))
        or (len(words) > 1 and words[0] in {"most", "least"})
    )


def _suspects(path: Path) -> Iterator[str]:
    """Names in a module; none if no word of its text is replaced, for which it need not be parsed."""
    text = path.read_text(encoding="utf-8")
    if any(map(_is_replaced, set(re.findall(r"\w+", text)))):
        yield from _names(ast.parse(text))


def test_no_replaced_name_is_used() -> None:
    """Each term has one name; a reader meets it in code, messages and docs alike."""
    found = {
        f"{path.relative_to(ROOT)}: {name}" for path in sources() for name in _suspects(path) if _is_replaced(name)
    }
    assert sorted(found) == []
