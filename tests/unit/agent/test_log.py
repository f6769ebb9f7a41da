"""Logs in a process of their own: JSON lines where nobody looks, levels, and the Kafka libraries' lines in between."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from typing import Any

PROGRAM = """
import logging, sys, structlog
from agent import log
from common.settings import LogSettings
log.configure(LogSettings(level={level!r}, format={form!r}))
logger = structlog.get_logger("leader").bind(group="orders")
logger.debug("seen")
logger.info("decision", reason="racks-changed", before=0.25)
logging.getLogger("elsewhere").warning("from %s", "a library")
logging.getLogger("kafka").error("join failed")
password = "".join(["se", "cret"])
try:
    raise ValueError("broken")
except ValueError:
    logger.exception("failed")
"""


def run(level: str, form: str) -> tuple[str, str]:
    """Standard output and standard error of a program that logs."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(level=level, form=form)],
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    return done.stdout, done.stderr


def test_without_a_terminal_each_event_is_a_json_line() -> None:
    """`auto` writes JSON on standard error: time, level, event and its values; exceptions with their frames."""
    out, err = run("info", "auto")
    assert out == ""
    lines: list[dict[str, Any]] = [json.loads(line) for line in err.splitlines()]
    assert [(line["event"], line["level"]) for line in lines] == [
        ("decision", "info"),
        ("from a library", "warning"),
        ("failed", "error"),
    ]
    decision = lines[0]
    assert (decision["group"], decision["reason"], decision["before"]) == ("orders", "racks-changed", 0.25)
    assert decision["timestamp"].endswith("Z")
    assert lines[2]["exception"][0]["exc_value"] == "broken"
    assert "secret" not in err  # the frames' variables stay where they are


def test_levels_and_the_console() -> None:
    """`console` writes for people; a higher level hides the rest, and debug shows the Kafka library's own lines."""
    _, quiet = run("error", "console")
    assert "decision" not in quiet
    assert "from a library" not in quiet
    assert "ValueError: broken" in quiet
    _, loud = run("debug", "console")
    assert all(text in loud for text in ("seen", "decision", "reason=racks-changed", "join failed"))


def test_a_terminal_gets_colours() -> None:
    """`auto` on a terminal is for people."""
    master, terminal = pty.openpty()
    try:
        subprocess.run(
            [sys.executable, "-c", PROGRAM.format(level="info", form="auto")], stderr=terminal, timeout=30, check=True
        )
        shown = os.read(master, 10_000).decode()
    finally:
        os.close(master)
        os.close(terminal)
    assert "decision" in shown
    assert "\x1b[" in shown
    assert '{"' not in shown
