"""What the pages say, as text; tests/integration/test_page.py has how they look and work in a browser."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import urlopen

import pytest

from samerack.agent.metrics import Metrics
from samerack.agent.web import page
from samerack.agent.web.server import WebServer, application
from samerack.reporting.report_service import ReportService
from tests.unit.agent.measured import busy, busy_events, busy_history, reports
from tests.unit.waiting import LONGEST_SECONDS

_MARKUP = "reports <b>&amp;</b>"
"""A group of `busy` whose name has markup."""


def _serve(shown: ReportService) -> Iterator[str]:
    """The address of an agent's pages."""
    routes = page.routes(shown)
    server = WebServer(application(Metrics(), healthy=dict, ready=dict, more=routes), host="127.0.0.1", port=0)
    server.start()
    yield f"http://127.0.0.1:{server.port}"
    server.stop()


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """Pages of a cluster with three groups and three decisions."""
    yield from _serve(reports(busy(), roles={"orders": "leading"}, events=busy_events(), history=busy_history()))


@pytest.fixture
def fresh() -> Iterator[str]:
    """Pages of an agent that has not measured yet."""
    yield from _serve(reports())


def _html(address: str) -> str:
    with urlopen(address, timeout=LONGEST_SECONDS) as answer:  # noqa: S310 - a loopback address of our own
        return str(answer.read().decode())


def _texts(address: str) -> set[str]:
    """The texts between tags, as a reader sees them."""
    parts = re.split(r"<[^>]*>", _html(address).partition("<main")[2])
    return {" ".join(unescape(part).split()) for part in parts} - {""}


def test_bytes_money_shares_and_decisions(url: str) -> None:
    """The page shows the matrix, groups with three shares each, findings with cures, and decisions with reasons."""
    texts = _texts(url)
    assert {"What crosses racks", "Rack by rack", "Groups", "What happened", "What is wrong"} <= texts
    assert {"43 GB", "$4,079", "near", "no rack"} <= texts  # the matrix, in dollars a month
    assert {"billing-kip848", "leading", "69 %", "67 %"} <= texts  # the groups
    assert {"asks to rebalance", "not followed", "plan sent", "below-least-saving", "racks-changed"} <= texts
    assert "$1.51/day" in texts
    assert any("put samerack's broker jar on the class path" in text for text in texts)


def test_a_group_has_a_page_of_its_own(url: str) -> None:
    """A group's page shows its own assignor's share, the savings, its topics, and the limits of the figures."""
    address = f"{url}/group?name=orders"
    texts = _texts(address)
    assert {
        "with range it would cross",
        "saved a month",
        "busiest member, against the mean",
        "audit",
        "clicks",
    } <= texts
    assert any("no committed offset" in text for text in texts)
    assert any("More skew would save nothing" in text for text in texts)
    assert "<title>orders - samerack</title>" in _html(address)


def test_a_group_shows_what_balance_costs(url: str) -> None:
    """The curve of cross-rack reads against skew is a drawing with a point for each step, and a table."""
    html = _html(f"{url}/group?name=billing-kip848")
    assert html.partition('class="curve"')[2].partition("</svg>")[0].count("<circle") == 3
    assert "Nothing was measured in this time." in html


@pytest.mark.parametrize(
    ("sort", "told"),
    [
        ("lag", ["records not read yet descending"] * 2),
        ("partition", ["records not read yet descending", "Partition ascending"]),
    ],
)
def test_members_and_partitions_tell_their_order(url: str, sort: str, told: list[str]) -> None:
    """The heading by which rows are sorted says so to a reader of screens; what one table lacks sorts it by lag."""
    html = _html(f"{url}/group?name={quote(_MARKUP)}&sort={sort}")
    found = re.findall(r'aria-sort="(\w+)"[^>]*><a [^>]*>([^<]*)', html)
    assert [f"{text} {order}" for order, text in found] == told


def test_names_from_kafka_stay_text(url: str) -> None:
    """A group name with markup is shown as text, on the page, on the group's page, and where it is not known."""
    for path in ("/", f"/group?name={quote(_MARKUP)}"):
        assert _MARKUP not in _html(url + path)
        assert any(_MARKUP in text for text in _texts(url + path))
    with pytest.raises(HTTPError) as caught:
        _html(f"{url}/group?name=%3Cscript%3E")
    with caught.value as error:
        body = error.read().decode()
        assert error.code == 404
    assert "&lt;script&gt;" in body
    assert "<script>" not in body


def test_headers_keep_the_page_to_itself(url: str) -> None:
    """The headers forbid framing, content sniffing, caching and scripts."""
    with urlopen(url, timeout=LONGEST_SECONDS) as answer:  # noqa: S310 - see above
        headers = answer.headers
    assert "default-src 'none'" in headers["content-security-policy"]
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cache-control"] == "no-store"


def test_before_anything_is_measured(fresh: str) -> None:
    """An agent without measurements says so, and reports no zeros."""
    texts = _texts(fresh)
    assert any(text.startswith("Nothing has been measured yet") for text in texts)
    assert "No group has been seen yet." in texts
    assert not [text for text in texts if "$0" in text]
