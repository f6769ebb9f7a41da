"""What every page of the documentation must have, and the rows of the page on the documents."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import pytest

from samerack.assignors.consumer.registry import ASSIGNORS
from samerack.cluster.racks import SOURCES, Source
from tests import doc_tables
from tests.docs import ROOT, dead_links, named_tests, pages

_CONFORMANCE = (ROOT / "docs" / "conformance.md").read_text(encoding="utf-8")
_KIPS = ROOT / "tests" / "kips.md"
_DOCUMENTS = _KIPS.read_text(encoding="utf-8")
_ROW = re.compile(r"^\| (?P<section>[^|]+) \| (?P<claim>[^|]+) \| `(?P<place>[^`|]+)` \| (?P<held>[^|]+) \|$")
_HELD = re.compile(r"(?:Differs: (?P<instead>.+); told in \[[^]]+\]\((?P<page>[^)]+)\)\. )?`test_\w+`")


@pytest.mark.parametrize(
    "page", [*pages(), ROOT / "SECURITY.md", ROOT / "CHANGELOG.md", _KIPS], ids=lambda page: page.name
)
def test_links_lead_somewhere(page: Path) -> None:
    """Each link leads to a file that exists, and to a heading in it."""
    assert dead_links(page) == []


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_tables_are_generated(page: Path) -> None:
    """Tables that list what a registry has are those of the registry."""
    text = page.read_text(encoding="utf-8")
    assert text == doc_tables.replaced(text), "run: python -m tests.doc_tables"


def test_the_page_of_the_plug_ins_lists_all_assignors() -> None:
    """Each assignor that members may agree on has a row, and the page says what `optimal` is."""
    page = (ROOT / "docs" / "plugins.md").read_text(encoding="utf-8")
    offered = [assignor.name for assignor in ASSIGNORS.values() if assignor.for_members]
    assert re.findall(r"^\| `([^`]+)`", page, re.MULTILINE) == offered
    assert f"`optimal` stands for {ASSIGNORS['optimal'].about}." in page


def test_each_source_of_racks_is_in_the_table() -> None:
    """Each name of a source has its function and its text."""
    assert [*SOURCES, "none"] == list(get_args(Source))


def _rows_on_the_documents() -> list[str]:
    tables = re.findall(r"^\| section .*\n\|[-| ]+\|\n((?:\|.*\n)+)", _DOCUMENTS, re.MULTILINE)
    assert len(tables) == _DOCUMENTS.count("## KIP-") == 5
    return [row for table in tables for row in table.splitlines()]


def test_every_row_on_the_documents_has_its_place_and_its_test() -> None:
    """A row that differs names the difference, and the page on which a user reads of it."""
    rows = _rows_on_the_documents()
    assert len(rows) > 80
    for row in rows:
        found = _ROW.match(row)
        assert found, row
        assert (ROOT / found["place"]).exists(), row
        assert _HELD.fullmatch(found["held"]), row


def test_the_page_on_conformance_counts_the_differences() -> None:
    """The page has each document with its numbers of rows and differences, and the pages that tell of these."""
    for section in _DOCUMENTS.split("\n## ")[1:]:
        rows = [found for line in section.splitlines() if (found := _ROW.match(line)) and "`" in found["held"]]
        held = [found for row in rows if (found := _HELD.fullmatch(row["held"])) and found["instead"]]
        pages = sorted({found["page"].removeprefix("../docs/").partition("#")[0] for found in held})
        told = ", ".join(f"[{page.removesuffix('.md')}]({page})" for page in pages)
        assert f"| {section.partition(chr(10))[0]} | {len(rows)} | {len(held)} | {told} |\n" in _CONFORMANCE


@pytest.mark.parametrize("page", [*pages(), ROOT / "SECURITY.md", _KIPS], ids=lambda page: page.name)
def test_every_named_test_exists(page: Path) -> None:
    """Each test that a page names is in a file of the tests."""
    assert named_tests(page.read_text(encoding="utf-8"))[1] == set()
