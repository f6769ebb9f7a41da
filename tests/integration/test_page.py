"""The agent's page and the fleet's report in a real Chromium: how they look, and that they load nothing from elsewhere.

tests/unit/agent/test_page_content.py has what the page says.

PAGE_SCREENSHOTS names a folder for screenshots.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import cycle, pairwise
from pathlib import Path
from urllib.parse import quote

import pytest

from lab.sandbox.admin import wait_until
from samerack.agent.web import api as web_api
from samerack.agent.web import page as web_page
from samerack.agent.web.tables import GROUPS_SHOWN
from samerack.pipeline.report.page import page
from samerack.reporting.report_service import ReportService
from tests.integration.browser import ENTER, TAB, Browser
from tests.unit.agent import serving
from tests.unit.agent.measured import busy, busy_events, busy_history, reports, snapshot
from tests.unit.pipeline.reports import empty, report

_TEXTS = """
return [...document.querySelectorAll("main *")].filter(e => e.childElementCount == 0 && e.textContent.trim())
  .map(e => e.textContent.trim())
"""
_LOW_CONTRAST, _NOT_ACCESSIBLE = (
    (Path(__file__).parent / name).read_text(encoding="utf-8") for name in ("contrast.js", "accessibility.js")
)
_SCROLLS_SIDEWAYS = "return document.documentElement.scrollWidth - innerWidth"
_CLIPPED = """
return [...document.querySelectorAll(".scroll")].filter(e => e.scrollWidth > e.clientWidth + 1)
  .map(e => e.getAttribute("aria-labelledby"))
"""
_UNFOLD = "document.querySelectorAll('details').forEach(one => one.open = true)"
_NAMES = "return [...document.querySelectorAll('.groups tbody th a')].map(a => a.textContent)"
_ASKED = "return document.readyState == 'complete' ? new URLSearchParams(location.search).get('%s') : null"
_WIDTHS = {"wide": 1280, "middle": 800, "narrow": 360}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One browser window for all tests of this file."""
    with Browser() as opened:
        yield opened


@pytest.fixture
def url() -> Iterator[str]:
    """The address of the pages of a cluster with three groups and three decisions."""
    with served(reports(busy(), roles={"orders": "leading"}, events=busy_events(), history=busy_history())) as address:
        yield address


@contextmanager
def served(shown: ReportService) -> Iterator[str]:
    """Serve an agent's pages within the context; return their address."""
    more = (*web_api.routes(shown), *web_page.routes(shown))
    with serving.served(*more) as port:
        yield f"http://127.0.0.1:{port}"


def draw(browser: Browser, name: str) -> None:
    """Save a screenshot if a folder is set."""
    if folder := os.environ.get("PAGE_SCREENSHOTS"):
        browser.screenshot(Path(folder) / f"{name}.png")


def find(browser: Browser, search: str) -> None:
    """Search for groups, and wait for the page with them: a form is sent some time after the key was pressed."""
    browser.run(f"const one = document.querySelector('#search'); one.value = '{search}'; one.focus()")
    browser.press(ENTER)
    wait_until(lambda: browser.run(_ASKED % "q") == search, f"the groups of {search} are shown")


@pytest.mark.parametrize("width", [1280, 640, 360])
def test_one_of_five_hundred_groups_is_found(browser: Browser, width: int) -> None:
    """A part of its name, Enter, and a heading for another order; the page keeps both, and scrolls sideways nowhere."""
    (group, *_) = busy().groups
    many = reports(snapshot(*(replace(group, group=f"payments-{number:03}") for number in range(500))))
    with served(many) as address:
        browser.set_view(width=width)
        browser.open(f"{address}/")
        assert browser.run("return document.querySelectorAll('.groups tbody tr').length") == GROUPS_SHOWN
        assert any("300 more groups are not shown" in text for text in browser.run(_TEXTS))
        assert browser.run(_SCROLLS_SIDEWAYS) <= 0
        find(browser, "-41")
        assert browser.run(_NAMES) == [f"payments-41{number}" for number in range(10)]
        assert any("10 of 500 groups match" in text for text in browser.run("return [document.body.innerText]"))
        browser.run("[...document.querySelectorAll('.groups thead a')].find(a => a.textContent == 'Group').click()")
        wait_until(lambda: browser.run(_ASKED % "sort") == "group", "the page in the other order is there")
        assert browser.run("return document.querySelector('[aria-sort]').innerText") == "Group"
        find(browser, "PAYMENTS-4?1")
        assert browser.run(_NAMES) == [f"payments-4{number}1" for number in range(10)]
        assert browser.run(_ASKED % "sort") == "group"
        assert browser.run(_LOW_CONTRAST) == []
        assert browser.complaints() == []
        draw(browser, f"search-{width}")


@pytest.mark.parametrize("count", [3, 300])
@pytest.mark.parametrize("size", _WIDTHS)
def test_few_and_many_groups_can_be_read(browser: Browser, size: str, count: int) -> None:
    """Long names, and more groups than are shown: nothing scrolls sideways, all can be read, and all has a name."""
    groups = [
        replace(group, group=f"payments-of-europe-west-reconciliation-{number:03}-{group.group}")
        for number, group in zip(range(count), cycle(busy().groups), strict=False)
    ]
    with served(reports(snapshot(*groups), events=busy_events())) as address:
        for path in ("/", f"/group?name={quote(groups[0].group)}"):
            browser.set_view(width=_WIDTHS[size])
            browser.open(address + path)
            draw(browser, f"{count}-groups-{size}-{'group' if 'name' in path else 'index'}")
            assert browser.run(_SCROLLS_SIDEWAYS) <= 0
            assert browser.run(_LOW_CONTRAST) == []
            assert browser.run(_NOT_ACCESSIBLE) == []


@pytest.mark.parametrize("width", [320, 360, 480, 500, 768, 800, 1280])
def test_the_history_can_be_read_at_any_width(browser: Browser, url: str, width: int) -> None:
    """Its labels are legible, whole and apart from each other, and its table open does not make the page scroll."""
    browser.set_view(width=width)
    browser.open(f"{url}/group?name=orders")
    browser.run("document.querySelector('details').open = true")
    assert browser.run(_SCROLLS_SIDEWAYS) <= 0
    box = "(e => { const r = e.getBoundingClientRect(); return [r.left, r.right, r.top, r.bottom] })"
    labels = browser.run(f"return [...document.querySelectorAll('.history text')].map({box})")
    left, right, top, bottom = browser.run(f"return {box}(document.querySelector('.history'))")
    assert all(left - 1 <= one[0] and one[1] <= right + 1 and top <= one[2] and one[3] <= bottom + 1 for one in labels)
    assert all(one[3] - one[2] >= 11 for one in labels)
    times = sorted(one for one in labels[2:])
    assert all(one[1] < following[0] for one, following in pairwise(times))


@pytest.mark.parametrize("path", ["/", "/group?name=orders", "/group?name=billing-kip848"])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("size", _WIDTHS)
def test_it_can_be_read_everywhere(browser: Browser, url: str, size: str, dark: bool, path: str) -> None:  # noqa: FBT001 - a table
    """Neither page nor table scrolls sideways, and all text has enough contrast (WCAG AA), at any width, light or dark.

    Readers of screens find names, headings, landmarks and headers of tables.
    """
    browser.set_view(width=_WIDTHS[size], dark=dark)
    browser.open(url + path)
    draw(browser, f"{size}-{'dark' if dark else 'light'}-{path.rpartition('=')[2].strip('/') or 'index'}")
    for script in ("", _UNFOLD):
        browser.run(script)
        assert browser.run(_SCROLLS_SIDEWAYS) <= 0
        assert browser.run(_CLIPPED) == []
        assert browser.run(_LOW_CONTRAST) == []
    assert browser.run(_NOT_ACCESSIBLE) == []
    ground = browser.run("return getComputedStyle(document.body).backgroundColor")
    assert (ground == "rgb(255, 255, 255)") is not dark


def test_it_works_without_a_mouse(browser: Browser, url: str) -> None:
    """Tab reaches the skip link first, then each link, each table that scrolls and each line that unfolds."""
    browser.set_view(width=1280)
    browser.open(url)
    reached = []
    for _ in range(40):
        browser.press(TAB)
        label, outline = browser.run(
            "const e = document.activeElement, s = getComputedStyle(e);"
            "const again = e == document.body || e.dataset.reached; e.dataset.reached = 1;"
            "return [e.id || e.getAttribute('aria-labelledby') || e.textContent.trim(), !again && s.outlineStyle]"
        )
        if outline is False:
            break
        reached.append(label)
        assert outline != "none", label
    assert reached[0] == "Skip to the content"
    assert {"billing-kip848", "orders", "Metrics", "matrix", "groups"} <= set(reached)
    assert any(label.startswith("plan sent") for label in reached)
    browser.run("document.querySelector('summary').focus()")
    browser.press(ENTER)
    assert browser.run("return document.querySelector('.events details').open")
    browser.run("[...document.links].find(a => a.textContent == 'orders').focus()")
    browser.press(ENTER)
    assert browser.run("return document.querySelector('h1').textContent") == "Group orders"


def test_nothing_comes_from_outside(browser: Browser, url: str) -> None:
    """The page has no script, loads nothing from another origin, and violates no rule of its own policy."""
    browser.complaints()
    for path in ("/", "/group?name=orders", "/group?name=orders&sort=age", "/?refresh=on"):
        browser.open(url + path)
        names = browser.run("return performance.getEntriesByType('resource').map(entry => entry.name)")
        assert all(name.startswith((url, "data:")) for name in names)
        assert browser.run("return document.scripts.length") == 0
    assert browser.complaints() == []


# the report of the fleet, which is one file


@pytest.fixture(params=["full", "empty"])
def file(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A full report, and one with almost no content."""
    path = tmp_path / f"{request.param}.html"
    path.write_text(page(report() if request.param == "full" else empty()), encoding="utf-8")
    return path


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("size", ["wide", "narrow"])
def test_the_report_can_be_read_everywhere(browser: Browser, file: Path, size: str, dark: bool) -> None:  # noqa: FBT001 - a table
    """It does not scroll sideways, has enough contrast (WCAG AA), and shows each plot once with legible text."""
    browser.set_view(width=_WIDTHS[size], dark=dark)
    browser.open(file.as_uri())
    draw(browser, f"report-{file.stem}-{size}-{'dark' if dark else 'light'}")
    assert browser.run(_SCROLLS_SIDEWAYS) <= 0
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
