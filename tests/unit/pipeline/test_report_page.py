"""The report's page as text: complete, self-contained, escaped, and explicit about what is unknown."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from html.parser import HTMLParser

import pytest

from samerack.pipeline.report.fleet_report import Moment, Pair, to_json
from samerack.pipeline.report.page import _stairs, cost_over_time, heat_map, page
from tests.unit.pipeline.reports import empty, report, unjudged

_VOID = {"meta", "link", "br"}


class _Balanced(HTMLParser):
    """Collects closing tags that do not match the last open tag."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.wrong: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:  # noqa: ARG002 - the parser's
        if tag not in _VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.wrong.append(tag)


@pytest.fixture(scope="module")
def text() -> str:
    """The page of a full report."""
    return page(report())


def test_the_headline_comes_first(text: str) -> None:
    """Bytes across racks, dollars a month, saved and possible, stand before any table."""
    places = [text.index(shown) for shown in ("41 TB", "$1,659", "$890.34", "$1,234", "<table")]
    assert places == sorted(places)


def test_nothing_comes_from_elsewhere(text: str) -> None:
    """The page has no script, and nothing that a browser would fetch."""
    assert "<script" not in text
    fetched = re.findall(r'(?:src|href)="([^"]*)"', text) + re.findall(r"url\(([^)]*)\)", text)
    assert all(target.startswith(("#", "data:")) for target in fetched)


def test_names_from_records_stay_text(text: str) -> None:
    """A group name with markup and TeX characters is shown as it is, in tables and in plots."""
    assert "<b>&amp;</b>" not in text
    assert text.count("reports &lt;b&gt;&amp;amp;&lt;/b&gt; $HOME $PATH") >= 3


def test_owners_are_shown_where_there_are_any(text: str) -> None:
    """Names of owners come from settings, and stay text; without owners nothing speaks of them."""
    assert "team &lt;b&gt;orders&lt;/b&gt;" in text
    assert "<i>no owner</i>" in text
    assert "owner" not in page(report(owners=()))


def test_the_markup_is_sound(text: str) -> None:
    """Every tag is closed, ids are unique, and every link within the page has its target."""
    parser = _Balanced()
    parser.feed(text)
    assert (parser.wrong, parser.open) == ([], [])
    ids = re.findall(r'\bid="([^"]+)"', text)
    assert len(ids) == len(set(ids))
    assert {link for link in re.findall(r'href="#([^"]+)"', text) if link} <= set(ids)


def test_drawings_are_in_the_colours_of_the_page(text: str) -> None:
    """Every plot exists in two widths, has a text for screen readers, and no colour of its own."""
    drawings = re.findall(r"<svg.*?</svg>", text, re.DOTALL)
    assert len(drawings) == 6
    assert not re.search(r"#[0-9a-f]{6}", "".join(drawings))
    assert len(re.findall(r'<figure role="img" aria-label="[^"]{40,}', text)) == 3


def test_prices_and_blind_spots_are_reported(text: str) -> None:
    """The page states the source and date of prices, what is estimated, and what no figure includes."""
    for part in (
        "as of 2026-11-21",
        "https://aws.amazon.com",
        "20 % of them were counted by clients",
        "do not commit",
    ):
        assert part in text


def test_what_is_unknown_is_no_zero() -> None:
    """A minute without racks and states shows dashes and sentences instead of zeros."""
    text = page(empty())
    assert "None in this period" in text
    assert "No agent leads any of these groups" in text
    assert '<dd class="">-</dd>' in text
    assert "None," not in text
    assert "no states of these groups were published" in page(unjudged())


def test_the_heat_map_shows_the_racks_that_read_most() -> None:
    """At most twelve racks are shown, sorted by name, the unknown rack last."""
    pairs = [Pair(client_rack=f"r{n:02}", replica_rack=f"r{n:02}", bytes=n, dollars=0.0) for n in range(1, 16)]
    made = heat_map([*pairs, Pair(client_rack="", replica_rack="r15", bytes=3, dollars=0.0)], 1.0)
    assert made.columns == tuple(f"r{n:02}" for n in range(4, 16))
    assert [name for name, _ in made.rows] == [*made.columns, ""]
    assert made.left_out == 3


def test_json_has_all_of_it() -> None:
    """The JSON contains the figures of the page."""
    assert b'"saved":890.34' in to_json(report())


@pytest.mark.parametrize("dollars", [[0.001, 0.002], [0.0, 0.0], [0.1, 0.05], [3.0, 9.0], [15_000.0]])
def test_no_two_labels_of_the_costs_are_alike(dollars: list[float]) -> None:
    """The axis has a label for a cent and more, also where all amounts are less."""
    timeline = [
        Moment(at=datetime(2026, 11, 1, hour, tzinfo=UTC), bytes=0, crossing_bytes=0, dollars_per_month=amount)
        for hour, amount in enumerate(dollars)
    ]
    labels = re.findall(r">([^<>]*\$[^<>]*)</text>", cost_over_time(timeline, "hour", None).wide)
    assert len(set(labels)) == len(labels) > 2
    assert "<$0.01" not in labels


def test_days_that_were_not_measured_have_no_cost() -> None:
    """The stairs stop after the last day before a gap, and go on after it."""
    heights, edges = _stairs([1.0, 2.0, 3.0], [1.0, 2.0, 9.0], 1.0)
    assert edges == [1.0, 2.0, 3.0, 9.0, 10.0]
    assert [str(height) for height in heights] == ["1.0", "2.0", "nan", "3.0"]
