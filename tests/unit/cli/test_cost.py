"""`samerack cost` and `verify` on a served report, and without an agent to ask."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import replace

import pytest
from rich.console import Console
from typer.testing import CliRunner

from samerack.agent.web import api as web_api
from samerack.cli import asking, cost
from samerack.cli.cost import server_lines, view
from samerack.cli.main import app
from samerack.cluster.broker_configs import LINE, ServerAssignors
from samerack.common import words
from samerack.reporting.baseline import server_assignment
from samerack.reporting.report_service import ReportService
from samerack.settings.all_settings import Settings
from samerack.traffic.snapshot import BlindSpot, Gap
from samerack.traffic.watch import TrafficWatch
from tests.unit.agent import serving
from tests.unit.agent.measured import busy, reports, snapshot

SHOWN = reports(busy(), roles={"orders": "leading"})


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove settings of the user who runs the tests, and fix the width of the output."""
    monkeypatch.delenv("SAMERACK_CONFIG", raising=False)
    monkeypatch.delenv("SAMERACK_KAFKA__BOOTSTRAP_SERVERS", raising=False)
    monkeypatch.setenv("COLUMNS", "100")


def served(shown: ReportService) -> AbstractContextManager[int]:
    """The port of a server that answers like an agent with these reports."""
    return serving.served(*web_api.routes(shown))


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """The port of an agent that leads one of three groups."""
    with served(SHOWN) as number:
        yield number


def run(port: int, *arguments: str) -> tuple[int, str, str]:
    """Exit code, standard output and standard error."""
    result = CliRunner().invoke(app, [*arguments, "-s", f"web.port={port}"])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.stdout, result.stderr


def test_cost_shows_the_most_expensive_group_first(port: int) -> None:
    """The table has a row per group, the source of the figures, and the price table."""
    code, out, _ = run(port, "cost")
    assert code == 0
    rows = [line.split()[0] for line in out.splitlines() if line.strip().startswith(("billing", "orders", "reports"))]
    assert rows == ["billing-kip848", "reports", "orders"]  # of the second it is a guess
    flat = " ".join(out.split())
    assert f"measured by the agent at http://127.0.0.1:{port}; bytes on the wire in 60 s; AWS: 0.01 USD" in flat


def test_cost_names_groups_that_were_measured_too_briefly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their figures depend on where the window happens to begin; --window lengthens only that of the command itself."""
    groups = (replace(one, blind_spots=(BlindSpot.YOUNG,)) if one.group == "orders" else one for one in busy().groups)
    young = reports(replace(busy(), groups=tuple(groups)), roles={})
    with served(young) as port:
        _, out, _ = run(port, "cost")
    assert "far off: orders; ask again in a minute" in " ".join(out.split())
    monkeypatch.setattr(cost, "figures", lambda *_, **__: (young.report(), "measured by this command"))
    assert "far off: orders; measure longer with --window" in " ".join(run(0, "cost")[1].split())


@pytest.mark.parametrize("command", [("cost",), ("cost", "orders", "--json"), ("verify",)])
def test_settings_that_an_agent_does_not_count_by_are_named(port: int, command: tuple[str, ...]) -> None:
    """Prices of the command line changed nothing where an agent was asked, and nothing said so."""
    _, _, plain = run(port, *command, "-s", "log.level=warning")
    assert plain == ""
    _, _, error = run(port, *command, "-s", "money.prices=azure", "-s", "policy.min_saving=0.1")
    assert error == (
        f"samerack: money.prices, policy.min_saving: not used, because the agent at http://127.0.0.1:{port} uses its "
        "own settings; --measure uses those given here\n"
    )


def test_the_cluster_that_is_asked_for_is_used(capsys: pytest.CaptureFixture[str]) -> None:
    """Found: `-s cluster=east` chose a cluster of the agent's, and was called unused."""
    settings = Settings(kafka={"bootstrap.servers": "h:9092"})
    where = asking.AgentPlace(settings=settings, assigned=("cluster", "kafka.bootstrap.servers", "web.port"))
    assert asking._origin(where).startswith("measured by the agent at ")
    assert capsys.readouterr().err == ""


def test_verify_and_cost_have_the_same_total(port: int) -> None:
    """The last row of cost is the sum that verify ends with."""
    _, costs, _ = run(port, "cost")
    _, found, _ = run(port, "verify")
    total = words.money(SHOWN.report().totals.dollars_per_month)
    row = " ".join(costs.partition("all 3")[2].split()[:14])
    assert "at least" in row
    assert total in row
    assert f"read across racks: at least {total};" in " ".join(found.split())


@pytest.mark.parametrize("columns", ["60", "80", "160"])
def test_cost_of_a_group_without_racks_is_a_guess(port: int, monkeypatch: pytest.MonkeyPatch, columns: str) -> None:
    """Its row has what it may come to, and so has what it is read about alone; the total is without it, and says so."""
    monkeypatch.setenv("COLUMNS", columns)
    (bare,) = (one for one in SHOWN.report().groups if one.group.startswith("reports"))
    guess = words.estimate(bare.guessed_dollars_per_month or 0, guessed=True)
    assert guess.startswith("up to about $")
    _, out, _ = run(port, "cost")
    assert max(len(line) for line in out.splitlines()) <= int(columns)
    assert guess.rpartition(" ")[2] in out.partition("all 3")[2].partition("costs:")[0]
    assert "billing-kip848 " in out, "names are whole"
    flat = " ".join(out.split())
    assert f"not in it: 250 MB/s read where a rack is unknown, {guess} a month" in flat
    assert f"), {guess} a month" in " ".join(run(port, "cost", bare.group)[1].split())


def test_cost_of_one_group_has_pairs_topics_and_savings(port: int) -> None:
    """The page of a group has its own assignor's share, pairs of racks, topics, and what the figures lack."""
    code, out, _ = run(port, "cost", "orders")
    flat = " ".join(out.split())
    assert code == 0
    assert "with range 67 % would cross; the agent saves $64,179 a month" in flat
    assert "rack-c rack-a 2 GB $1,632" in flat
    assert "not in these figures: some partitions have no committed offset" in flat


def test_cost_of_a_group_that_brokers_assign_shows_what_their_assignor_could_save(port: int) -> None:
    """The page names the assignor, what is not known of the brokers, what samerack's would save, and the line."""
    code, out, _ = run(port, "cost", "billing-kip848")
    flat = " ".join(out.split())
    assert code == 0
    assert "the brokers assign it (KIP-848) with uniform" in flat
    assert "the brokers' assignors are unknown: a broker does not return its assignors" in flat
    assert "with samerack's assignor in the brokers 33 % would cross racks; that saves $" in flat
    assert f"set {LINE} in every broker's configuration" in flat
    (shown,) = json.loads(run(port, "cost", "billing-kip848", "--json")[1])["groups"]
    assert (shown["server"]["assignor"], shown["server"]["installed"]) == ("uniform", None)
    assert shown["server"]["saves_dollars_per_month"] > 0


def test_what_is_not_known_of_the_brokers_assignors_is_no_zero() -> None:
    """Before a measurement the share and the saving are shown as unknown, and so is an assignor without a name."""
    offered = ServerAssignors(unknown="no answer")
    lines = server_lines(server_assignment("", offered, share=None))
    assert lines[:3] == [
        "the brokers assign it (KIP-848) with an unknown assignor",
        "the brokers' assignors are unknown: no answer",
        "with samerack's assignor in the brokers an unknown share would cross racks; what that saves is not known",
    ]
    assert server_lines(None) == []


@pytest.mark.parametrize("columns", ["60", "80", "160"])
def test_cost_ends_with_the_rest_of_the_bill(port: int, monkeypatch: pytest.MonkeyPatch, columns: str) -> None:
    """Beside what groups read there is what replication carries and what producers may, at any width."""
    monkeypatch.setenv("COLUMNS", columns)
    _, out, _ = run(port, "cost")
    assert max(len(line) for line in out.splitlines()) <= int(columns)
    for name, dollars in (
        ("consumers", words.money(SHOWN.report().totals.dollars_per_month)),
        ("replication", "$6,527"),
        ("producers, least", "$0"),
        ("producers, random", "$2,719"),
        ("producers, most", "$4,079"),
    ):
        assert any(name in line and dollars in line for line in out.splitlines()), out
    flat = " ".join(out.split())
    assert "7 of 120 partitions" in flat
    assert "1 GB that brokers without known racks copied or led" in flat
    assert "producers" not in run(port, "cost", "orders")[1]
    assert json.loads(run(port, "cost", "orders", "--json")[1])["bill"] is None


def test_cost_as_json_is_the_report(port: int) -> None:
    """The JSON is one object, with one group if one is named."""
    shown = json.loads(run(port, "cost", "--json")[1])
    assert len(shown["groups"]) == 3
    assert shown["bill"]["replication"]["cross_rack_bytes"] == 8_000_000_000
    assert shown["bill"]["producers"]["most"]["cross_rack_bytes"] == 5_000_000_000
    assert [group["group"] for group in json.loads(run(port, "cost", "orders", "--json")[1])["groups"]] == ["orders"]


def test_an_unknown_group_names_those_that_were_seen(port: int) -> None:
    """An unknown group gives exit code 1 with one line."""
    code, out, err = run(port, "cost", "nobody")
    assert (code, out) == (1, "")
    assert err.startswith("samerack: group nobody: not found; closest matches: billing-kip848, orders")


def test_who_waits_sees_for_how_long(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """At a terminal, on standard error: what follows may be JSON."""
    slept: list[float] = []
    monkeypatch.setattr(TrafficWatch, "poll", lambda _: busy())
    monkeypatch.setattr(asking, "ask_selector", lambda _: lambda: True)
    monkeypatch.setattr(time, "sleep", slept.append)
    monkeypatch.setattr(time, "monotonic", lambda: 7.0 * len(slept))
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    where = asking.AgentPlace(settings=Settings(kafka={"bootstrap.servers": "h:9092"}))
    asking.figures(where, window=20.0, measure=True, group="orders")
    assert slept
    assert capsys.readouterr().err == "measuring 20 s; Ctrl-C ends it\n"


def test_verify_has_findings_and_exit_code(port: int) -> None:
    """Findings have marks, causes and cures; the exit code is 1 because something costs money."""
    code, out, _ = run(port, "verify")
    flat = " ".join(out.split())
    assert code == 1
    assert flat.startswith(
        "First do this, and measure again: group billing-kip848: broker-assigned-without-racks ✗ group"
    )
    assert "✗ group billing-kip848: broker-assigned-without-racks [$10,606 a month]" in flat
    assert "2 findings that cost money, 0 other; 3 groups, 3 brokers" in flat
    assert {one["code"] for one in json.loads(run(port, "verify", "--json")[1])["findings"]} == {
        "broker-assigned-without-racks",
        "members-without-rack",
    }


@pytest.mark.parametrize("command", ["cost", "verify"])
def test_without_agent_and_cluster_both_cures_are_named(command: str) -> None:
    """The exit code is 2, and the message asks for an agent or for a cluster to measure."""
    code, _, err = run(1, command)
    assert code == 2
    assert "no agent answers at http://127.0.0.1:1, and there is no cluster to measure; give --bootstrap-servers" in err


@pytest.mark.parametrize(
    ("at", "command"),
    [
        (1, ("cost", "--measure")),
        (1, ("verify", "--measure")),
        (1, ("lag", "orders", "--measure")),
        (1, ("move", "orders")),
        (0, ("cost",)),
    ],
)
def test_an_agent_that_was_not_asked_is_not_called_silent(at: int, command: tuple[str, ...]) -> None:
    """Only a cluster is missing then."""
    code, _, err = run(at, *command)
    assert code == 2
    assert err.startswith("samerack: there is no cluster to measure; give --bootstrap-servers")


@pytest.mark.parametrize("command", ["cost", "verify"])
def test_wrong_servers_are_not_taken_for_none(command: str) -> None:
    """Wrong settings are reported as such; a message that no cluster is named would be wrong."""
    code, _, err = run(1, command, "-s", "kafka.bootstrap.servers=not a server")
    assert (code, "bootstrap.servers" in err, "no cluster to measure" in err) == (2, True, False)


@pytest.mark.parametrize(("more", "why"), [((), "--watch: needs a terminal"), (("orders",), "leave out GROUP")])
def test_watching_needs_a_terminal(port: int, more: tuple[str, ...], why: str) -> None:
    """Without a terminal, and for one group, `--watch` is refused."""
    code, _, err = run(port, "cost", "--watch", *more)
    assert (code, why in err) == (2, True)


def screen(shown: ReportService, order: str = "c", width: int = 100, height: int = 20) -> str:
    """What `--watch` shows on a screen of this size."""
    console = Console(width=width, height=height, record=True, force_terminal=False)
    with console.capture() as capture:
        console.print(view(shown.report(), "here", order, console.size))
    return capture.get()


@pytest.mark.parametrize(("order", "first"), [("c", "billing-kip848"), ("b", "orders"), ("s", "billing-kip848")])
def test_watching_orders_groups_and_keeps_to_its_screen(order: str, first: str) -> None:
    """Groups are sorted by cost, bytes or share; those that do not fit are counted."""
    lines = screen(SHOWN, order, height=9).splitlines()
    assert len(lines) <= 9
    assert any(line.strip().startswith(first) for line in lines[:6])
    assert "1 more" in "\n".join(lines)
    assert "; not in it: 250 MB/s read where a rack is unknown" in lines[0]


def test_watching_shows_more_where_there_is_room_and_says_when_nothing_is_measured_yet() -> None:
    """From 110 columns on there is the lag too."""
    assert ["lag" in screen(SHOWN, width=width) for width in (100, 120)] == [False, True]
    assert "measuring ..." in screen(reports())


def test_a_sound_verdict_is_exit_code_0_and_none_is_no_all_clear() -> None:
    """A verdict without findings has exit code 0; an agent that has seen no brokers gives none."""
    with served(reports(snapshot())) as port:
        code, out, _ = run(port, "verify")
    assert (code, out.startswith("0 findings that cost money, 0 other")) == (0, True)
    assert "across racks: unknown" in out


@pytest.mark.parametrize("command", [("verify",), ("cost",), ("cost", "orders")])
@pytest.mark.parametrize("gaps", [(), (Gap(what="leading", where="orders", refused=True, reason="", consequence=""),)])
def test_an_agent_that_measures_nothing_says_so(command: tuple[str, ...], gaps: tuple[Gap, ...]) -> None:
    """One that has just started, or stands by, said that there is no group, and showed a table without rows."""
    with served(reports(more_gaps=gaps)) as port:
        code, out, err = run(port, *command)
    assert out == ""
    assert code == (3 if command == ("verify",) else 1)
    assert "measures nothing now" in err
