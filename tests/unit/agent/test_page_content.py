"""What the pages say, as text; tests/integration/test_page.py has how they look and work in a browser."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from html import unescape
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import urlopen

import pytest

from samerack.agent.web import page
from samerack.common import words
from samerack.common.money import shipped
from samerack.events import EventLog
from samerack.reporting.report_service import ReportService
from samerack.traffic.snapshot import LowerBound, Pace
from tests.unit.agent.measured import A, B, busy, busy_events, busy_history, group, reports, snapshot
from tests.unit.agent.serving import served
from tests.unit.waiting import LONGEST_SECONDS

_MARKUP = "reports <b>&amp;</b>"
"""A group of `busy` whose name has markup."""


def _serve(shown: ReportService, notes: Mapping[str, str] | None = None) -> Iterator[str]:
    """The address of an agent's pages."""
    routes = page.routes(shown, notes=lambda: notes or {})
    with served(*routes) as port:
        yield f"http://127.0.0.1:{port}"


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


def test_a_group_that_is_waited_for_is_on_the_page() -> None:
    """A name that does not exist yet, and a pattern without a group, are named with the reason, and on its own page."""
    notes = {"group order": "it does not exist yet", "groups pay*": "the pattern matches no group"}
    for address in _serve(reports(busy()), notes):
        assert {"Waited for", "group order", ": it does not exist yet", "groups pay*"} <= _texts(address)
        with pytest.raises(HTTPError) as raised:
            _html(f"{address}/group?name=order")
        with raised.value as answer:
            assert "The last poll found no group order: it does not exist yet." in answer.read().decode()


def test_bytes_money_shares_and_decisions(url: str) -> None:
    """The page shows the matrix, groups with three shares each, findings with cures, and decisions with reasons."""
    texts = _texts(url)
    assert {"What crosses racks", "Rack by rack", "Groups", "What happened", "What is wrong"} <= texts
    assert {"43 GB", "$4,079", "near", "no rack"} <= texts  # the matrix, in dollars a month
    assert {"billing-kip848", "leading", "69 %", "67 %"} <= texts  # the groups
    assert {"asks to rebalance", "not followed", "plan sent", "below-min-saving", "racks-changed"} <= texts
    assert "across racks 47 % > 0 %, from $1.51 to $0 a day" in texts
    assert any("put samerack's broker jar on every broker's class path" in text for text in texts)


def test_the_number_that_matters_comes_first(url: str) -> None:
    """The cluster's dollars a month, with what is avoidable of them, and a group's; all else is a list below."""
    shown = reports(busy())
    verdict = shown.verdict()
    orders = next(one for one in shown.report().groups if one.group == "orders")
    figures = {"/": verdict.dollars_per_month, "/group?name=orders": orders.dollars_per_month}
    for path, dollars in figures.items():
        main = _html(url + path).partition("<main")[2]
        first = main.partition('<p class="headline">')[2].partition("</p>")[0]
        least = "at least " if path == "/" else ""  # a group there has no racks
        assert first.startswith(f"<b>{least}{words.money(dollars)}</b> a month across racks")
        assert main.count("<dl") == main.count('<dl class="facts"') == 1
        assert main.index('class="headline"') < main.index("<dl") < main.index("<h2")
    assert f"{words.money(verdict.avoidable_dollars_per_month)} of it avoidable" in _texts(f"{url}/")


@pytest.mark.parametrize(
    ("known", "shown"),
    [
        ({"dollars": 12.5, "share": 0.3}, ("$12.50", "a month across racks", None)),
        ({"dollars": 12.5, "avoidable": 0.004}, ("$12.50", "a month across racks", 0.004)),
        ({"dollars": None, "avoidable": 3.0, "share": 0.3}, ("30 %", "of bytes across racks", None)),
        ({"dollars": None, "share": 0.3, "share_by": "partitions"}, ("30 %", "of partitions across racks", None)),
        ({"dollars": None, "reads": 5e6}, ("5 MB/s", "read; what crosses racks is not known", None)),
    ],
)
def test_without_a_price_the_share_comes_first(known: dict[str, Any], shown: tuple[str, str, float | None]) -> None:
    """Of bytes or partitions, then what is read; where nothing is known nothing is shown large."""
    assert page.headline(dollars=None) is None
    found = page.headline(**known)
    assert found is not None
    assert (found.figure, found.what, found.avoidable) == shown


def test_nothing_avoidable_is_reported_so(url: str) -> None:
    """In words and without the colour of what is wrong."""
    first = _html(f"{url}/group?name=orders").partition('<p class="headline">')[2].partition("</p>")[0]
    assert first.endswith("a month across racks, none of it avoidable")


def test_prices_of_nothing_put_the_share_first() -> None:
    """Where bytes across racks are free, $0 says nothing."""
    for address in _serve(reports(busy(), prices=shipped("azure"))):
        assert re.search(r'class="headline"><b>\d+ %</b> of bytes across racks</p>', _html(address))


def test_each_member_has_its_id() -> None:
    """The end of a long id distinguishes members, and its title is the whole id."""
    ids = [f"consumer-orders-1-5f3c{number}f22-07a1-4b6e-9d0c-91d3a6c2{number}b0e" for number in (1, 2)]
    members = group("orders", members={ids[0]: A, ids[1]: B})
    for address in _serve(reports(snapshot(members))):
        html = _html(f"{address}/group?name=orders").partition('id="members"')[2]
        for one in ids:
            assert f'<small title="{one}">…{one[-8:]}</small>' in html


def test_lag_is_shown_by_rack_and_member() -> None:
    """With the members that fall behind; those without a known rack are one row."""
    slow = replace(
        group("orders", members={"m1": A, "m2": None}),
        paces={"m1": Pace(lag_seconds=300.0, grows=True, share=0.5)},
    )
    for address in _serve(reports(snapshot(slow))):
        html = _html(f"{address}/group?name=orders").partition('id="racks"')[2]
        racks, _, members = html.partition('id="members"')
        rows = [re.findall(r"<t[hd][^>]*>([^<]*)", row) for row in racks.split("<tr>")[2:]]
        assert rows == [
            [A, "1", "1", "120", "12 s"],
            ["-", "1", "0", "0", "0 s"],
        ]
        assert "<small>falls behind</small>" in members
        assert "<small>keeps up</small>" in members


def test_a_takeover_is_one_line_that_unfolds() -> None:
    """Its steps are inside the line; what belongs to no rebalance is a line that does not unfold."""
    events = EventLog()
    events.add("takeover", "orders", action="begin", reason="47 % across racks, 0 % possible")
    events.add("takeover", "orders", action="evict", seconds=0.1)
    known = {"members": 3, "partitions": 6, "moved": 2, "share_before": 0.47, "share_after": 0.0}
    events.add("rebalance", "orders", cause="agent", generation=7, pause_seconds=0.4, **known)
    events.add("takeover", "orders", action="leads", seconds=0.4)
    events.add("worker", action="replaced", reason="it died")
    for address in _serve(reports(busy(), events=events)):
        shown = _html(address).partition('<ol class="events of-groups">')[2]
        line = shown.partition("<summary>")[2].partition("</summary>")[0]
        assert "took over the lead</span> 47 % across racks, 0 % possible" in line
        assert "across racks 47 % &gt; 0 %, 2 of 6 partitions moved, pause 400 ms" in line
        assert shown.count("<details") == 1
        assert "worker: replaced</span> it died" in shown.partition("<details")[0]
        inside = shown.partition("</summary>")[2].partition("</details>")[0]
        assert [text in inside for text in ("takeover: begin", "takeover: evict", "rebalance 7")] == [True] * 3


def test_a_group_has_a_page_of_its_own(url: str) -> None:
    """A group's page shows its own assignor's share, the savings, its topics, and the limits of the figures."""
    address = f"{url}/group?name=orders"
    texts = _texts(address)
    assert {
        "with range it would cross",
        "saved a month",
        "audit",
        "clicks",
    } <= texts
    assert any("no committed offset" in text for text in texts)
    best = "In the best balanced plan (2 to 2 partitions a member) 0 % of what is known crosses racks; now: 1.7 %."
    assert f"{best} More skew would save nothing." in texts
    assert "<title>orders - samerack</title>" in _html(address)


def test_a_lag_shows_what_it_lacks() -> None:
    """What is known of the group and of a topic is a lower bound, and says in how many partitions it is not known."""
    known = LowerBound(value=11_000_000, unknown=1)
    behind = replace(group(), lag={"clicks": known}, lag_seconds={"clicks": LowerBound(unknown=2)})
    for url in _serve(reports(snapshot(behind))):
        texts = _texts(f"{url}/group?name={behind.group}")
    assert {"at least 11000000 records (1 partition unknown)", "11000000 (1 unknown)"} <= texts
    assert {"not known (2 partitions unknown)", "- (2 unknown)"} <= texts


def test_a_group_shows_what_balance_costs(url: str) -> None:
    """The curve of cross-rack reads against skew is a drawing with a point for each step, and a table."""
    html = _html(f"{url}/group?name=billing-kip848")
    assert html.partition('class="curve"')[2].partition("</svg>")[0].count("<circle") == 3
    assert "Nothing was measured in this time." in html


@pytest.mark.parametrize(
    ("sort", "expected"),
    [
        ("lag", ["records not read yet descending"] * 2),
        ("partition", ["records not read yet descending", "Partition ascending"]),
    ],
)
def test_members_and_partitions_show_their_order(url: str, sort: str, expected: list[str]) -> None:
    """The heading by which rows are sorted says so to a reader of screens; what one table lacks sorts it by lag."""
    html = _html(f"{url}/group?name={quote(_MARKUP)}&sort={sort}")
    found = re.findall(r'aria-sort="(\w+)"[^>]*><a [^>]*>([^<]*)', html)
    assert [f"{text} {order}" for order, text in found] == expected


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
    assert "No groups found yet." in texts
    assert not [text for text in texts if "$0" in text]
