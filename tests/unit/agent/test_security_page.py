"""SECURITY.md claims only what tests check: every claim in a table names its tests; test_pages looks for those."""

from __future__ import annotations

import re

from tests.docs import ROOT

_PAGE = (ROOT / "SECURITY.md").read_text(encoding="utf-8")


def test_every_row_names_its_test() -> None:
    """A row without a test has a dash, and claims nothing that a test could check."""
    tables = re.findall(r"^\|[^\n]*\| held by \|\n\|[-| ]+\|\n((?:\|.*\n)+)", _PAGE, re.MULTILINE)
    assert len(tables) == len(re.findall(r"^\|[-| ]+\|$", _PAGE, re.MULTILINE))
    for row in (row for table in tables for row in table.splitlines()):
        assert re.search(r"\| (`test_\w+`(, `test_\w+`)*|-) \|$", row), row
