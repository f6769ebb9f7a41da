"""The page in a real Chromium: its content, readability and keyboard use, and that it loads nothing from elsewhere.

PAGE_SCREENSHOTS names a folder for screenshots.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from samerack.agent.metrics import Metrics
from samerack.agent.web import api as web_api
from samerack.agent.web import page as web_page
from samerack.agent.web.groups_table import GROUPS_SHOWN
from samerack.agent.web.server import WebServer, application
from samerack.reporting.report_service import ReportService
from sandbox.admin import wait_until
from tests.integration.browser import ENTER, TAB, Browser
from tests.unit.agent.measured import busy, busy_events, busy_history, reports, snapshot

_TEXTS = """
return [...document.querySelectorAll("main *")].filter(e => e.childElementCount == 0 && e.textContent.trim())
  .map(e => e.textContent.trim())
"""
_LOW_CONTRAST = (Path(__file__).parent / "contrast.js").read_text(encoding="utf-8")
_NAMES = "return [...document.querySelectorAll('.groups tbody th a')].map(a => a.textContent)"
_ASKED = "return document.readyState == 'complete' ? new URLSearchParams(location.search).get('%s') : null"
_WIDTHS = {"wide": 1280, "narrow": 360}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One browser window for all tests of this file."""
    with Browser() as opened:
        yield opened


@pytest.fixture
def shown() -> ReportService:
    """Reports of a cluster with three groups and three decisions."""
    return reports(busy(), roles={"orders": "leading"}, events=busy_events(), history=busy_history())


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


def test_members_and_partitions_are_sorted_without_a_script(browser: Browser, url: str) -> None:
    """A click on a heading gives the other order; a reader of screens is told which one it is, and refreshing stays."""
    browser.look(width=1280)
    browser.open(f"{url}/group?name=reports%20%3Cb%3E%26amp%3B%3C%2Fb%3E&refresh=on")
    cells = "return [...document.querySelectorAll('#partitions + .scroll tbody th')].map(cell => cell.textContent)"
    order = "return [...document.querySelectorAll('[aria-sort]')].map(e => e.textContent + ' ' + e.ariaSort)"
    assert browser.run(order) == ["records not read yet descending"] * 2
    assert browser.run(cells) == [f"clicks-{number}" for number in range(6)]
    members = browser.run("return document.querySelector('#members + .scroll tbody').innerText").split("\n")
    assert [member.split("\t") for member in members] == [
        ["client-m1", "no rack", "6", "6 kB/s", "120", "12 s"],
        ["client-m2", "no rack", "0", "0 B/s", "0", "0 s"],
        ["client-m3", "no rack", "0", "0 B/s", "0", "0 s"],
    ]
    browser.run("[...document.querySelectorAll('#partitions + .scroll a')][0].focus()")
    browser.press(ENTER)
    assert browser.run(order) == ["records not read yet descending", "Partition ascending"]
    assert browser.run("return location.hash + new URLSearchParams(location.search).get('refresh')") == "#partitionson"
    draw(browser, "sorted")


def find(browser: Browser, search: str) -> None:
    """Searches for groups, and waits for the page with them: a form is sent some time after the key was pressed."""
    browser.run(f"const one = document.querySelector('#search'); one.value = '{search}'; one.focus()")
    browser.press(ENTER)
    wait_until(lambda: browser.run(_ASKED % "q") == search, f"the groups of {search} are shown")


@pytest.mark.parametrize("width", [1280, 640, 360])
def test_one_of_five_hundred_groups_is_found(browser: Browser, width: int) -> None:
    """A part of its name, Enter, and a heading for another order; the page keeps both, and scrolls sideways nowhere."""
    (group, *_) = busy().groups
    many = reports(snapshot(*(replace(group, group=f"payments-{number:03}") for number in range(500))))
    server = WebServer(
        application(Metrics(), healthy=dict, ready=dict, more=web_page.routes(many)), host="127.0.0.1", port=0
    )
    server.start()
    try:
        browser.look(width=width)
        browser.open(f"http://127.0.0.1:{server.port}/")
        assert browser.run("return document.querySelectorAll('.groups tbody tr').length") == GROUPS_SHOWN
        assert any("300 more groups are not shown" in text for text in browser.run(_TEXTS))
        assert browser.run("return document.documentElement.scrollWidth - innerWidth") <= 0
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
    finally:
        server.stop()


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


def test_a_group_shows_its_last_day(browser: Browser, url: str) -> None:
    """Two lines with a gap and a mark for the plan, a description for readers of screens, and the same as a table."""
    browser.look(width=1280)
    browser.open(f"{url}/group?name=orders")
    paths = "return [...document.querySelectorAll('.history path.%s:not(.area)')].map(e => e.getAttribute('d'))"
    for name in ("read", "crossed"):
        assert [path.count("M") for path in browser.run(paths % name)] == [2]
    assert browser.run("return [...document.querySelectorAll('.history .plan')].length") == 1
    described = "return document.querySelector('.history').ariaDescribedByElements.map(e => e.textContent)"
    assert ["plans of the agent: 1" in text for text in browser.run(described)] == [True]
    cells = "return document.querySelector('details tbody').innerText"
    assert browser.run(cells) == ""
    browser.run("document.querySelector('summary').focus()")
    browser.press(ENTER)
    rows = [row.split("\t") for row in browser.run(cells).splitlines()]
    assert rows[0] == ["2027-01-15 08:00:00", "2 MB/s", "1.6 %", "0", "1"]
    assert ["-", "-"] in [row[1:3] for row in rows]
    browser.open(f"{url}/group?name=billing-kip848")
    assert "Nothing was measured in this time." in browser.run(_TEXTS)


@pytest.mark.parametrize("width", [320, 360, 480, 500, 768, 800, 1280])
def test_the_history_can_be_read_at_any_width(browser: Browser, url: str, width: int) -> None:
    """Its labels are legible, whole and apart from each other, and its table open does not make the page scroll."""
    browser.look(width=width)
    browser.open(f"{url}/group?name=orders")
    browser.run("document.querySelector('details').open = true")
    assert browser.run("return document.documentElement.scrollWidth - innerWidth") <= 0
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
    for path in ("/", "/group?name=orders", "/group?name=orders&sort=age", "/?refresh=on"):
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
