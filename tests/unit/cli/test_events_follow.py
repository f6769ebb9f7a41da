"""`samerack events --follow` and `samerack cost --watch`, without an agent."""

from __future__ import annotations

import json
import os
import pty
import sys
import time
from urllib.parse import parse_qs, urlsplit

import pytest
from typer.testing import CliRunner, Result

from samerack.cli import cost, events
from samerack.cli.main import app
from samerack.events import EventLog
from samerack.events.event import EVENT_LIST, EventList

_AGES = (600.0, 40.0, 20.0, 10.0)
"""Seconds since each event before the command."""


@pytest.mark.parametrize("asked", [("-n", "1"), ("--since", "15s")])
def test_what_was_left_out_is_not_shown_as_new(monkeypatch: pytest.MonkeyPatch, asked: tuple[str, ...]) -> None:
    """Events may be recorded late, so that the last minute is asked for again; what is old in it stays hidden."""
    log, pauses = EventLog(), [None, None]
    for age in _AGES:
        log.add("role", "orders", ago=age, action=f"{age:.0f}")

    def ask(_base: str, path: str) -> bytes:
        query = parse_qs(urlsplit(path).query)
        found = log.latest(int(query["most"][0]), since=float(query.get("since", ["-inf"])[0]))
        return EVENT_LIST.to_json(EventList(events=tuple(found)))

    def sleep(_seconds: float) -> None:
        if not pauses:
            raise KeyboardInterrupt
        pauses.pop()
        log.add("role", "orders", action=f"new-{len(pauses)}")

    monkeypatch.setattr(events, "ask", ask)
    monkeypatch.setattr(time, "sleep", sleep)
    result = CliRunner().invoke(app, ["events", "orders", "--follow", "--json", *asked])
    assert result.exit_code == 0, result.output
    assert [json.loads(line)["action"] for line in result.stdout.splitlines()] == ["10", "new-1", "new-0"]


def _followed(monkeypatch: pytest.MonkeyPatch, *answers: bytes | None) -> Result:
    """The command's end when an agent answers so, one after the other, and then somebody presses Ctrl-C."""
    following = iter(answers)

    def ask(_base: str, _path: str) -> bytes | None:
        try:
            return next(following)
        except StopIteration:
            raise KeyboardInterrupt from None

    monkeypatch.setattr(events, "ask", ask)
    monkeypatch.setattr(time, "sleep", lambda _seconds: None)
    return CliRunner().invoke(app, ["events", "orders", "--follow", "--json"])


def test_following_goes_on_while_the_worker_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody listens for a second or so then; an agent that does not come back is an error."""
    log = EventLog()
    log.add("role", "orders", action="new")
    none, one = (EVENT_LIST.to_json(EventList(events=found)) for found in ((), log.latest()))
    result = _followed(monkeypatch, none, none, None, one)
    assert result.exit_code == 0, result.output
    assert [json.loads(line)["action"] for line in result.stdout.splitlines()] == ["new"]
    monkeypatch.setattr(events, "LOST_SECONDS", -1.0)
    assert _followed(monkeypatch, none, none, None, one).exit_code == 1


def test_keys_that_are_pressed_at_once_are_all_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is buffered is not ready to be read."""
    terminal, keyboard = pty.openpty()
    with open(keyboard, encoding="utf-8") as stdin:  # noqa: PTH123 - a descriptor
        monkeypatch.setattr(sys, "stdin", stdin)
        with cost._keys() as key:
            os.write(terminal, b"Cq")
            assert [key(5.0), key(5.0), key(0.0)] == ["c", "q", ""]
    os.close(terminal)
