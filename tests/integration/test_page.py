"""The page in a real Chromium: its content, readability and keyboard use, and that it loads nothing from elsewhere.

PAGE_SCREENSHOTS names a folder for screenshots.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from samerack.agent.metrics import Metrics
from samerack.agent.reporting.report_service import ReportService
from samerack.agent.web import api as web_api
from samerack.agent.web import page as web_page
from samerack.agent.web.server import WebServer, application
from tests.integration.browser import ENTER, TAB, Browser
from tests.unit.agent.measured import busy, busy_events, reports

_TEXTS = """
return [...document.querySelectorAll("main *")].filter(e => e.childElementCount == 0 && e.textContent.trim())
  .map(e => e.textContent.trim())
"""
_LOW_CONTRAST = (Path(__file__).parent / "contrast.js").read_text(encoding="utf-8")
_WIDTHS = {"wide": 1280, "narrow": 360}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One browser window for all tests of this file."""
    with Browser() as opened:
        yield opened


@pytest.fixture
def shown() -> ReportService:
    """Reports of a cluster with three groups and three decisions."""
    return reports(busy(), roles={"orders": "leading"}, events=busy_events())


@pytest.fixture
def url(shown: ReportService) -> Iterator[str]:
    """The page's address."""
    more = (*web_api.routes(shown), *web_page.routes(shown))
    server = WebServer(application(Metrics(), healthy=dict, ready=dict, more=more), host="127.0.0.1", port=0)
    server.start()
    yield f"http://127.0.0.1:{server.port}"
    server.stop()


def draw(browser: Browser, name: str) -> None:
    """Saves a screenshot if a folder is set."""
    if folder := os.environ.get("PAGE_SCREENSHOTS"):
        browser.screenshot(Path(folder) / f"{name}.png")


def test_the_page_shows_bytes_money_shares_and_decisions(browser: Browser, url: str) -> None:
    """The page shows the matrix, groups with three shares each, findings with cures, and decisions with reasons."""
    browser.look(width=1280)
    browser.open(url)
    texts = browser.run(_TEXTS)
    assert {"What crosses racks", "Rack by rack", "Groups", "What happened", "What is wrong"} <= set(texts)
    assert {"43 GB", "$0.093", "near", "no rack"} <= set(texts)  # the matrix
    assert {"billing-kip848", "leading", "69 %", "67 %"} <= set(texts)  # the groups
    assert {"asks to rebalance", "not followed", "plan sent", "below-least-saving", "racks-changed"} <= set(texts)
    assert "$1.51/day" in texts
    assert any("put samerack's broker jar on the class path" in text for text in texts)
    draw(browser, "wide")


def test_names_from_kafka_stay_text(browser: Browser, url: str) -> None:
    """A group name with markup is shown as text, in the page and on the group's page."""
    browser.open(url)
    assert browser.run("return document.querySelectorAll('main .groups b').length") == 0
    assert "reports <b>&amp;</b>" in browser.run(_TEXTS)
    browser.run("[...document.links].find(a => a.textContent.startsWith('reports')).click()")
    assert browser.run("return document.querySelector('h1').textContent") == "Group reports <b>&amp;</b>"


def test_a_group_has_a_page_of_its_own(browser: Browser, url: str) -> None:
    """A group's page shows its own assignor's share, the savings, its topics, and the limits of the figures."""
    browser.look(width=1280)
    browser.open(f"{url}/group?name=orders")
    texts = browser.run(_TEXTS)
    assert {"with range it would cross", "saved a month", "busiest member, against the mean", "audit", "clicks"} <= set(
        texts
    )
    assert any("no committed offset" in text for text in texts)
    assert browser.run("return document.title") == "orders - samerack"
    draw(browser, "group")


def test_a_group_shows_what_balance_costs(browser: Browser, url: str) -> None:
    """The curve of cross-rack reads against skew is a drawing and a table; without a gain it is one sentence."""
    browser.look(width=1280)
    browser.open(f"{url}/group?name=billing-kip848")
    draw(browser, "curve")
    cells = browser.run("return [...document.querySelectorAll('#curve ~ .scroll')][0].innerText").split()
    assert cells[cells.index("0") : cells.index("0") + 5] == ["0", "33", "%", "2", "2"]
    assert browser.run("return document.querySelectorAll('.curve circle').length") == 3
    browser.open(f"{url}/group?name=orders")
    assert any("More skew would save nothing" in text for text in browser.run(_TEXTS))


@pytest.mark.parametrize("path", ["/", "/group?name=orders", "/group?name=billing-kip848"])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("size", _WIDTHS)
def test_it_can_be_read_everywhere(browser: Browser, url: str, size: str, dark: bool, path: str) -> None:  # noqa: FBT001 - a table
    """No page scrolls sideways, and each text has enough contrast (WCAG AA), wide or narrow, light or dark."""
    browser.look(width=_WIDTHS[size], dark=dark)
    browser.open(url + path)
    draw(browser, f"{size}-{'dark' if dark else 'light'}-{path.rpartition('=')[2].strip('/') or 'index'}")
    assert browser.run("return document.documentElement.scrollWidth - innerWidth") <= 0
    assert browser.run(_LOW_CONTRAST) == []
    ground = browser.run("return getComputedStyle(document.body).backgroundColor")
    assert (ground == "rgb(255, 255, 255)") is not dark


def test_it_works_without_a_mouse(browser: Browser, url: str) -> None:
    """Tab reaches the skip link first, then each link and each scrolling table, with a visible focus."""
    browser.look(width=1280)
    browser.open(url)
    reached = []
    for _ in range(40):
        browser.press(TAB)
        label, outline = browser.run(
            "const e = document.activeElement, s = getComputedStyle(e);"
            "return [e.id || e.getAttribute('aria-labelledby') || e.textContent.trim(), s.outlineStyle]"
        )
        if label in reached:
            break
        reached.append(label)
        assert outline != "none", label
    assert reached[0] == "Skip to the content"
    assert {"billing-kip848", "orders", "Metrics", "matrix", "groups", "events"} <= set(reached)
    browser.run("[...document.links].find(a => a.textContent == 'orders').focus()")
    browser.press(ENTER)
    assert browser.run("return document.querySelector('h1').textContent") == "Group orders"


def test_nothing_comes_from_outside(browser: Browser, url: str) -> None:
    """The page has no script, loads nothing from another origin, and violates no rule of its own policy."""
    browser.complaints()
    for path in ("/", "/group?name=orders", "/?refresh=on"):
        browser.open(url + path)
        names = browser.run("return performance.getEntriesByType('resource').map(entry => entry.name)")
        assert all(name.startswith((url, "data:")) for name in names)
        assert browser.run("return document.scripts.length") == 0
    assert browser.complaints() == []


def test_before_anything_is_measured(browser: Browser) -> None:
    """An agent without measurements says so, and reports no zeros."""
    fresh = reports()
    server = WebServer(
        application(Metrics(), healthy=dict, ready=dict, more=web_page.routes(fresh)), host="127.0.0.1", port=0
    )
    server.start()
    browser.open(f"http://127.0.0.1:{server.port}/")
    texts = browser.run(_TEXTS)
    server.stop()
    assert any(text.startswith("Nothing has been measured yet") for text in texts)
    assert "No group has been seen yet." in texts
    assert not [text for text in texts if "$0" in text]


def test_an_unknown_group_is_not_found(url: str) -> None:
    """An unknown group gives status 404, with the name escaped."""
    with pytest.raises(HTTPError) as caught:
        urlopen(f"{url}/group?name=%3Cscript%3E", timeout=30)  # noqa: S310 - a loopback address of our own
    with caught.value as error:
        body = error.read().decode()
        assert error.code == 404
    assert "&lt;script&gt;" in body
    assert "<script>" not in body


def test_headers_keep_the_page_to_itself(url: str) -> None:
    """The headers forbid framing, content sniffing, caching and scripts."""
    with urlopen(url, timeout=30) as answer:  # noqa: S310 - see above
        headers = answer.headers
    assert "default-src 'none'" in headers["content-security-policy"]
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cache-control"] == "no-store"
