"""`samerack events`: from an agent's HTTP port and from its file, as a table and as JSON; errors in one line."""

from __future__ import annotations

import json
import os
import re
import socket
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from samerack.agent.web import api as web_api
from samerack.cli.events import local, moment, table
from samerack.cli.main import app
from samerack.common.errors import SettingsError
from samerack.events import EventLog
from samerack.events.event import figures, happened, reason
from samerack.events.event_writer import path_of
from samerack.events.store import Store
from samerack.settings.all_settings import Settings
from tests.docs import Command, blocks
from tests.unit.agent.measured import busy, reports
from tests.unit.agent.serving import served
from tests.unit.cli.tables import lines_of

MADE = EventLog(rate=lambda _: 2e6, dollars=lambda count: count * 2e-11)
MADE.add(
    "rebalance",
    "orders",
    ago=7200.0,
    cause="member-left",
    left=("client-b",),
    generation=7,
    seconds=1.2,
    pause_seconds=0.9,
    members=2,
    partitions=6,
    moved=2,
    share_before=0.5,
    share_after=0.33,
    missed=1,
)
MADE.add("decision", "orders", action="rebalance", reason="racks-changed", share_before=0.5, share_after=0.0)
MADE.add("rebalance", "pay\x1b[2Jments", cause="leader")
MADE.add("worker", action="replaced", reason="exit code -9")


@pytest.fixture(autouse=True)
def _wide(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set a wide screen and one time zone."""
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """The address of an agent."""
    with served(*web_api.routes(reports(busy(), events=MADE))) as port:
        yield f"http://127.0.0.1:{port}"


def run(*arguments: str) -> tuple[int, str, str]:
    """Exit code, standard output and standard error."""
    result = CliRunner().invoke(app, ("events", *arguments))
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.stdout, result.stderr


@pytest.mark.parametrize("width", [60, 80, 160])
@pytest.mark.parametrize("with_group", [True, False])
def test_nothing_is_cut_at_any_width(width: int, *, with_group: bool) -> None:
    """Each word of what happened, why, and with what effect is there, and the whole name of the group."""
    name = "payments-authorised-by-card.v2"
    happenings = [replace(one, group=name) for one in MADE.latest(group="orders")]
    lines = lines_of(table(happenings, width=width, with_group=with_group), width)
    assert max(map(len, lines)) <= width
    found = set(" ".join(lines).split())
    for one in happenings:
        for text in (local(one.at), happened(one), reason(one), figures(one)):
            assert set(text.split()) <= found
    if with_group:
        head = next(line for line in lines if "group" in line)
        column = slice(head.index("group"), head.index("what"))
        assert name * len(happenings) in "".join(line[column].strip(" ─") for line in lines[lines.index(head) + 1 :])


def test_the_table_says_what_why_and_with_what_effect(url: str) -> None:
    """The newest event is last, and names are printed without control characters."""
    code, out, _ = run("--url", url)
    assert code == 0
    assert re.search(
        r"UTC +orders +rebalance 7 +a member left -client-b; 2 of 6 partitions moved; 2 members; 1 more", out
    )
    assert "took 1.2 s, pause 900 ms, across racks 50 % > 33 %, from $1.73 to $1.14 a day" in out
    assert "pay\ufffd[2Jments" in out
    assert out.index("member left") < out.index("racks-changed") < out.index("worker: replaced")


def test_of_one_group_of_a_kind_since_and_no_more_than(url: str) -> None:
    """Each option filters events; JSON has the newest first."""

    def kinds(*arguments: str) -> list[str]:
        """The kinds of the events in the answer."""
        code, out, _ = run("--url", url, "--json", *arguments)
        assert code == 0
        return [event["kind"] for event in json.loads(out)["events"]]

    assert kinds() == ["worker", "rebalance", "decision", "rebalance"]
    assert kinds("orders") == ["decision", "rebalance"]
    assert kinds("--kind", "rebalance", "-k", "worker") == ["worker", "rebalance", "rebalance"]
    assert kinds("--since", "1h") == ["worker", "rebalance", "decision"]
    assert kinds("--limit", "1") == ["worker"]
    assert kinds("nobody") == []
    assert "nothing happened to nobody since then" in run("nobody", "--since", "1h", "--url", url)[1]


def test_the_file_of_an_agent_that_is_gone_has_the_same(url: str, tmp_path: Path) -> None:
    """A file gives the same events as the agent, with the same filters."""
    with closing(Store(tmp_path / "events.db", max_events=9, days=1)) as store:
        store.add(reversed(MADE.latest()))
    for arguments in ((), ("orders",), ("-k", "decision"), ("--since", "1h"), ("-n", "1")):
        stored = run("--store", str(tmp_path / "events.db"), *arguments, "--json")
        assert stored == run("--url", url, *arguments, "--json")


@pytest.mark.parametrize("command", [one for one in blocks() if one.words[:2] == ("samerack", "events")], ids=str)
def test_the_commands_of_the_documentation_work(command: Command, url: str, tmp_path: Path) -> None:
    """The documented commands work, with this agent or this file in place of the one shown."""
    with closing(Store(tmp_path / "events.db", max_events=9, days=1)) as store:
        store.add(MADE.latest())
    words = list(command.words[2:])
    if "--store" in words:
        words[words.index("--store") + 1] = str(tmp_path / "events.db")
    else:
        words += ["--url", url]
    code, out, _ = run(*words)
    assert code == 0
    assert out


@pytest.mark.parametrize(
    ("arguments", "code", "part"),
    [
        (("--kind", "eclipse"), 2, "--kind eclipse: no such kind; kinds are rebalance, decision,"),
        (("--since", "yesterday"), 2, "--since yesterday: expected 90s, 15m, 3h, 2d, 1w or 2026-11-21T03:00"),
        (("--url", "localhost"), 2, "--url localhost: expected http://HOST:PORT"),
        (("--url", "http://u:pw@localhost:1"), 2, "--url: has a user or password; remove them"),
        (("--store", "/nonexistent", "--follow"), 2, "--store reads a file and asks no agent"),
        (("--store", "/nonexistent"), 1, "/nonexistent: is not a file; give the path that the agent logs"),
    ],
)
def test_what_is_wrong_is_one_line(arguments: tuple[str, ...], code: int, part: str) -> None:
    """Wrong input has exit code 2, a missing file exit code 1, and both print one line."""
    exit_code, out, err = run(*arguments)
    assert (exit_code, out, len(err.splitlines())) == (code, "", 1)
    assert part in err


def test_no_agent_is_exit_code_1() -> None:
    """Without an agent the exit code is 1, and the message says what to do."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        code, _, err = run("-s", f"web.port={taken.getsockname()[1]}")
    assert code == 1
    assert "no agent answers there; give --url or web.port, or read a former agent's file with --store" in err


def test_moments() -> None:
    """Times are lengths before now, or dates in the local time zone or a given one."""
    assert [moment(text, 1e6) for text in ("90s", "15m", "3h", "1.5d", "1w")] == [
        999_910.0,
        999_100.0,
        989_200.0,
        870_400.0,
        395_200.0,
    ]
    assert moment("1970-01-02", 0.0) == moment("1970-01-02T02:00+02:00", 0.0) == 86_400.0
    assert local(86_400.0) == "01-02 00:00:00 UTC"
    with pytest.raises(SettingsError):
        moment("9" * 400 + "-01-01", 0.0)


def test_events_in_words() -> None:
    """The text is short, and leaves out what is not known."""
    events = EventLog()
    bare = events.add("rebalance", "orders", cause="unknown")
    assert (happened(bare), reason(bare), figures(bare)) == ("rebalance", "not known", "")
    many = events.add("rebalance", "orders", cause="agent", reason="racks-changed", joined=tuple("abcde"))
    assert reason(many) == "the agent (racks-changed) +a, b, c and 2 more"
    plan = events.add("plan", "orders", action="range", failure="too late", seconds=0.004)
    assert (happened(plan), reason(plan), figures(plan)) == ("plan sent", "range; too late", "took 4 ms")
    proposed = events.add("decision", "orders", action="propose", reason="racks-changed")
    assert happened(proposed) == "would rebalance"


def test_each_agent_has_a_file_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """The file name differs between agents of one machine and is the same after a restart, unless it is set."""

    def path(state: str = "/state", **settings: object) -> str:
        made = Settings.model_validate({"kafka": {"bootstrap.servers": "h:1"}, "groups": ["orders"], **settings})
        return str(path_of(made, {"XDG_STATE_HOME": state}))

    assert re.fullmatch(r"/state/samerack/events-port-9464-[0-9a-f]{8}\.db", path())
    assert path() == path()
    others = [
        path(groups=["payments"]),
        path(web={"port": 1}),
        path(kafka={"bootstrap.servers": "h:2"}),
        path(election={"identity": "pod-1"}),
        path(groups=[], traffic={"groups": ["orders"]}),
    ]
    assert len({path(), *others}) == 6
    assert "/events-pod-1-" in others[3]
    assert path(state="relative").startswith(str(Path.home()))
    monkeypatch.delenv("HOME")
    monkeypatch.setattr(os, "getuid", lambda: 65_532)
    assert path(state="").startswith("/var/lib/samerack/events-")
    assert path(events={"path": "/var/lib/events.db"}) == "/var/lib/events.db"
    assert path(events={"path": "memory"}) == "None"
