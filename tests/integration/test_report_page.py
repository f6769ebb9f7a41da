"""The report in a real Chromium: readable everywhere, from one file, without any request.

SAMERACK_SCREENSHOTS names a folder for screenshots.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from samerack.pipeline.report.page import page
from tests.integration.browser import Browser
from tests.unit.pipeline.reports import empty, report

_LOW_CONTRAST = (Path(__file__).parent / "contrast.js").read_text(encoding="utf-8")
_WIDTHS = {"wide": 1280, "narrow": 360}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One browser window for all tests of this file."""
    with Browser() as opened:
        yield opened


@pytest.fixture(params=["full", "empty"])
def file(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A full page, and one with almost no content."""
    path = tmp_path / f"{request.param}.html"
    path.write_text(page(report() if request.param == "full" else empty()), encoding="utf-8")
    return path


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("size", _WIDTHS)
def test_it_can_be_read_everywhere(browser: Browser, file: Path, size: str, dark: bool) -> None:  # noqa: FBT001 - a table
    """The page does not scroll sideways, has enough contrast (WCAG AA), and shows each plot once with legible text."""
    browser.set_view(width=_WIDTHS[size], dark=dark)
    browser.open(file.as_uri())
    if folder := os.environ.get("SAMERACK_SCREENSHOTS"):
        browser.screenshot(Path(folder) / f"report-{file.stem}-{size}-{'dark' if dark else 'light'}.png")
    assert browser.run("return document.documentElement.scrollWidth - innerWidth") <= 0
    assert browser.run(_LOW_CONTRAST) == []
    shown = browser.run(
        "return [...document.querySelectorAll('figure svg')].filter(s => s.getBoundingClientRect().width)"
        ".map(s => [s.getAttribute('class'), Math.min(...[...s.querySelectorAll('text')]"
        ".map(t => t.getBoundingClientRect().height))])"
    )
    assert len(shown) == browser.run("return document.querySelectorAll('figure').length")
    assert {kind for kind, _ in shown} == {size}
    assert all(height >= 11 for _, height in shown)
    ground = browser.run("return getComputedStyle(document.body).backgroundColor")
    assert (ground == "rgb(255, 255, 255)") is not dark
