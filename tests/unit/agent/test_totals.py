"""The figures of one moment side by side: `verify`, `cost`, page, `/metrics` and JSON agree, and lack the same."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final

import pytest
from prometheus_client.parser import text_string_to_metric_families
from typer.testing import CliRunner

from samerack.agent.program import Agent
from samerack.cli.main import app
from samerack.common import words
from samerack.common.money import SECONDS_PER_MONTH
from samerack.reporting.evidence import findings_from_json
from samerack.reporting.report import not_in_sums, sums_in_words
from samerack.settings.loading import load
from samerack.traffic.snapshot import GroupTraffic, Shares, TrafficSnapshot
from tests.unit.agent.measured import RANGE, WINDOW_SECONDS, A, B, C, flow, group, problem, publish, snapshot
from tests.unit.agent.serving import ask
from tests.unit.agent.test_verify import IN_EACH

MB: Final = 1_000_000
CENT: Final = 0.005


def bare() -> GroupTraffic:
    """A group of which no rack is known."""
    members = {"m1": None, "m2": None}
    made = problem(IN_EACH, members, RANGE)
    return group("bare", members=members, flows=[flow("", A, 20 * MB)], shares=Shares(random=2 / 3), made=made)


def mixed() -> TrafficSnapshot:
    """A group at random, one that reads near but for a member without rack, and one of which no rack is known."""
    random = Shares(present_bytes=2 / 3, present_partitions=2 / 3, optimal=0.0, optimal_by="bytes", random=2 / 3)
    return snapshot(
        group("random", flows=[flow(A, B, 7 * MB), flow(B, C, 7 * MB), flow(C, C, 7 * MB)], shares=random),
        group(
            "partly",
            members={"m1": A, "m2": None},
            flows=[flow(A, A, 9 * MB), flow("", B, 3 * MB)],
            made=problem(IN_EACH, {"m1": A, "m2": None}, RANGE),
        ),
        bare(),
    )


class Shown:
    """An agent that measured this, and what each of its readers shows."""

    def __init__(self, taken: TrafficSnapshot) -> None:
        """Serve it."""
        flags: dict[str, Any] = {
            "kafka": {"bootstrap.servers": "h:9092"},
            "web": {"port": 0},
            "events": {"path": "memory"},
        }
        flags["traffic"] = {"groups": ["*"]}
        self.agent = Agent(load(flags=flags, environment={}))
        (cluster,) = self.agent.clusters.values()
        publish(cluster.parts.traffic, taken)
        self.agent.web.start()

    def json(self, path: str) -> Any:
        """The JSON of an answer."""
        return json.loads(ask(self.agent.web.port, path)[1])

    def command(self, *arguments: str) -> str:
        """What a command prints, on one line."""
        done = CliRunner().invoke(app, [*arguments, "-s", f"web.port={self.agent.web.port}"])
        assert done.stdout, done.stderr
        return " ".join(done.stdout.split())

    def page(self, path: str = "/") -> str:
        """The text of a page."""
        return " ".join(re.sub(r"<[^>]*>", " ", ask(self.agent.web.port, path)[1]).split())

    def metrics(self) -> dict[str, dict[str, float]]:
        """Sum over all other labels by metric and group."""
        sums: dict[str, dict[str, float]] = {}
        for family in text_string_to_metric_families(ask(self.agent.web.port, "/metrics")[1]):
            for sample in family.samples:
                of = sums.setdefault(sample.name, {})
                name = sample.labels.get("group", "")
                of[name] = of.get(name, 0.0) + sample.value
        return sums


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove settings of the user who runs the tests, and fix the width of the output."""
    for name in ("SAMERACK_CONFIG", "SAMERACK_KAFKA__BOOTSTRAP_SERVERS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", "200")


@pytest.fixture
def shown(request: pytest.FixtureRequest) -> Iterator[Shown]:
    """An agent of this snapshot."""
    made = Shown(request.param)
    yield made
    made.agent.web.stop()


@pytest.mark.parametrize("shown", [mixed()], indirect=True)
def test_every_total_is_the_same_to_the_cent(shown: Shown) -> None:
    """What crosses, what plans avoid of it, and what is not in it, wherever a total stands."""
    report, verdict, page = shown.json("/v1/traffic"), shown.json("/v1/findings"), shown.page()
    totals = report["totals"]
    per_month = SECONDS_PER_MONTH / WINDOW_SECONDS
    price = 0.02 / 2**30 * MB * per_month
    assert totals["dollars_per_month"] == pytest.approx(14 * price)
    assert totals["guessed_dollars_per_month"] == pytest.approx(23 * price * 2 / 3)
    for name in ("dollars_per_month", "avoidable_dollars_per_month", "guessed_dollars_per_month", "unknown_bytes"):
        assert verdict[name] == totals[name] is not None
        assert json.loads(shown.command("cost", "--json"))["totals"][name] == totals[name]
        assert json.loads(shown.command("verify", "--json"))[name] == totals[name]
        by_group = sum(one[name] for one in report["groups"] if one[name] is not None)
        assert by_group == pytest.approx(totals[name], abs=CENT)
    for guessed, total in ((False, "avoidable_dollars_per_month"), (True, "guessed_dollars_per_month")):
        priced = sum(one["dollars_per_month"] or 0 for one in verdict["findings"] if one["guessed"] is guessed)
        assert priced == pytest.approx(totals[total], abs=CENT)
    sums = findings_from_json(json.dumps(verdict))
    assert (sums.is_lower_bound, sums.unmeasured_groups) == (True, 0)
    for command in ("verify", "cost"):
        assert f"{sums_in_words(sums)} {not_in_sums(sums, WINDOW_SECONDS)}" in shown.command(command)
    across = words.money(totals["dollars_per_month"])
    guess = words.monthly(totals["guessed_dollars_per_month"], guessed=True)
    avoidable = words.money(totals["avoidable_dollars_per_month"])
    assert f"at least {across} a month across racks, {avoidable} of it avoidable" in page
    rate = f"at least {words.rate(report['totals']['cross_rack_bytes'] / WINDOW_SECONDS)}"
    assert f"across racks {rate} share" in page
    for place in (page, shown.command("cost")):
        assert f"consumers {rate} at least {across} " in place
    assert f"read where a rack is unknown {words.rate(totals['unknown_bytes'] / WINDOW_SECONDS)}, {guess}" in page
    spent = shown.metrics()["samerack_cross_rack_dollars_total"]
    assert sum(spent.values()) * per_month == pytest.approx(totals["dollars_per_month"], abs=CENT)


_PARTLY: Final = group(
    "orders",
    members={"m1": A, "m2": None},
    flows=[flow(A, B, MB), flow("", B, 9 * MB)],
    made=problem(IN_EACH, {"m1": A, "m2": None}, RANGE),
)
"""A group of which a tenth is known to cross racks, and the rest is not known."""


@pytest.mark.parametrize("shown", [snapshot(_PARTLY)], indirect=True)
def test_an_amount_beside_something_unknown_is_a_lower_bound_everywhere(shown: Shown) -> None:
    """A row of a group or topic showed it as the whole, beside a headline that says at least."""
    (one,) = shown.json("/v1/traffic")["groups"]
    least = f"at least {words.money(one['dollars_per_month'])}"
    index, page, cost = shown.page(), shown.page("/group?name=orders"), shown.command("cost", "orders")
    assert index.count(least) == 3, "headline, bill and row of the group"
    assert page.count(least) == 2, "headline and row of the topic"
    assert cost.count(least) == 2, "sentence and row of the topic"
    assert "at least 1 MB" in page
    assert "at least 1 MB" in cost


@pytest.mark.parametrize("shown", [snapshot(bare())], indirect=True)
def test_what_is_unknown_is_unknown_everywhere(shown: Shown) -> None:
    """Of a group without racks no total is 0; what it may cost is a guess, and named as one."""
    report, verdict, page, metrics = (
        shown.json("/v1/traffic"),
        shown.json("/v1/findings"),
        shown.page(),
        shown.metrics(),
    )
    (one,) = report["groups"]
    for name in ("dollars_per_month", "avoidable_dollars_per_month"):
        assert one[name] is report["totals"][name] is verdict[name] is None
    assert [one[name] for name in ("cross_rack_bytes", "share", "optimal_share")] == [None] * 3
    guess = words.monthly(one["guessed_dollars_per_month"], guessed=True)
    assert guess.startswith("up to about $")
    for command in ("verify", "cost"):
        text = shown.command(command)
        assert f"across racks: unknown, {guess.removesuffix(' a month')}; avoidable with better plans: unknown" in text
        assert "not in it: 333 kB/s read where a rack" in text
        assert f"is unknown, {guess}" in text
    assert guess.removesuffix(" a month") in shown.command("cost").partition("costs:")[0]
    assert f"[{guess}]" in shown.command("verify")
    assert guess in page
    assert "of it avoidable" not in page
    assert "333 kB/s read; what crosses racks is not known" in page
    metrics = shown.metrics()
    for name in ("samerack_cross_rack_dollars_total", "samerack_cross_rack_ratio", "samerack_optimal_ratio"):
        assert "bare" not in metrics.get(name, {})
