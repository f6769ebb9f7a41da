"""The site of the documentation is built without a warning, from nothing but this checkout."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.docs import ROOT, sources

_LOADED: Final = re.compile(r"<(?:script|img|iframe)[^>]*\ssrc=\"([^\"]+)\"|<link[^>]*\shref=\"([^\"]+)\"")

_PAGE: Final = re.compile(r"\bdocs/[a-z0-9-]+\.md\b")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site; no proxy or registry is at hand while it is built."""
    folder = tmp_path_factory.mktemp("site")
    nowhere = dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), "http://127.0.0.1:9")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, **nowhere, "NO_MKDOCS_2_WARNING": "1"},
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    return folder


def test_every_page_is_built_and_in_the_menu(site: Path) -> None:
    """The build with `--strict` has no warning: links and headings exist, and the menu has every page."""
    pages = {path.stem for path in (ROOT / "docs").glob("*.md")}
    assert {path.stem for path in site.glob("*.html")} == pages | {"404"}
    assert _named(yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]) == sorted(pages)


def test_a_reader_loads_nothing_from_elsewhere(site: Path) -> None:
    """No page loads a script, style, font or image from another host."""
    for page in site.glob("*.html"):
        loaded = [one or other for one, other in _LOADED.findall(page.read_text(encoding="utf-8"))]
        assert loaded
        assert [address for address in loaded if re.match(r"(https?:)?//", address)] == [], page.name


def test_runbooks_of_alerts_are_headings(site: Path) -> None:
    """Each alert's runbook is a heading of the page in the site, too."""
    file = ROOT / "helm" / "samerack" / "files" / "alerts.yaml"
    rules = yaml.safe_load(file.read_text(encoding="utf-8"))["groups"][0]["rules"]
    page = (site / "alerts.html").read_text(encoding="utf-8")
    for anchor in (rule["annotations"]["runbook"].partition("#")[2] for rule in rules):
        assert f'id="{anchor}"' in page


def test_every_page_that_the_program_names_exists() -> None:
    """A message, a help text or a docstring that sends a reader to a page names one that is there."""
    named = {
        f"{path.relative_to(ROOT)}: {page}"
        for path in sources()
        for page in _PAGE.findall(path.read_text(encoding="utf-8"))
        if not (ROOT / page).exists()
    }
    assert named == set()


def _named(menu: list[Any]) -> list[str]:
    """The pages of a menu, sorted."""
    found: list[str] = []
    for entry in menu:
        for value in entry.values():
            found += _named(value) if isinstance(value, list) else [value.removesuffix(".md")]
    return sorted(found)
