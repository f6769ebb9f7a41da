"""The text of tests/promises.md: the promises that the gate proves, and the test of each.

A promise is the sentence of a mark `promise` at a test on real brokers or on Spark.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_TESTS: Final = Path(__file__).parent
PAGE: Final = _TESTS / "promises.md"
_ROOMS: Final = {"integration": "On real brokers", "spark": "On Spark"}
_HEAD: Final = """\
# What the gate proves on real systems

Made by `python -m tests.doc_tables`. Each line is a promise of the product and the test that proves it in every run of
`scripts/test`; all other tests on real brokers and on Spark run with `scripts/test --all`.
"""


def page() -> str:
    """Return the page."""
    parts = [_HEAD]
    for room, title in _ROOMS.items():
        parts.append(f"\n## {title}\n\n| promise | test |\n|---|---|\n")
        for file in sorted((_TESTS / room).glob("test_*.py")):
            parts += [f"| {text} | `{file.name}` `{test}` |\n" for text, test in _promises(file)]
    return "".join(parts)


def _promises(file: Path) -> Iterator[tuple[str, str]]:
    """Yield the promises of a file, each with its test's name; one that several tests share names the first."""
    for statement in ast.parse(file.read_text(encoding="utf-8")).body:
        name = statement.name if isinstance(statement, ast.FunctionDef) else "several"
        for node in ast.walk(statement):
            match node:
                case ast.Call(func=ast.Attribute(attr="promise"), args=[ast.Constant(value=str(text))]):
                    yield text, name
