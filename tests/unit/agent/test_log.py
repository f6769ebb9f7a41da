"""Logs of a process of its own: JSON lines without a terminal, levels, and lines of the Kafka libraries."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest

PROGRAM = """
import logging, os, sys, structlog
from samerack.agent import log
from samerack.settings.all_settings import Settings
SECRETS = {"sasl.password": 'pass"word', "sasl.oauthbearer.client.secret": "client-proof"}
class SaslAuthenticateRequest: pass

def say(level, form):
    settings = Settings(kafka={"bootstrap.servers": "h:1", **SECRETS}, log={"level": level, "format": form})
    log.configure(settings, is_agent=level != "warning")
    logger = structlog.get_logger("leader").bind(group="orders")
    logger.debug("seen")
    logger.info("decision", reason="racks-changed", before=0.25)
    logging.getLogger("elsewhere").warning("from %s", "a library")
    logging.getLogger("kafka").error("join failed")
    logger.info("client", config=SECRETS)
    logging.getLogger("kafka.net.connection").debug("Request %d: %s", 1, SaslAuthenticateRequest())
    logging.getLogger("kafka.protocol.parser").debug("Send: %r", b"bytes as sent")
    password = "".join(["hid", "den"])
    try:
        raise ValueError("broken")
    except ValueError:
        logger.exception("failed")

folder, *cases = sys.argv[1:]
for case in cases:
    if (child := os.fork()) == 0:
        if folder:
            os.dup2(os.open(f"{folder}/{case}.out", os.O_CREAT | os.O_WRONLY), 1)
            os.dup2(os.open(f"{folder}/{case}.err", os.O_CREAT | os.O_WRONLY), 2)
        say(*case.split("-"))
        sys.stdout.flush()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
"""
"""Logs once for each `LEVEL-FORM`, in a fork with its standard output and error in files of this folder, if any."""
RunAgent: TypeAlias = Callable[[str, str], tuple[str, str]]
CASES = ("info-auto", "warning-auto", "debug-json", "debug-console", "error-console")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunAgent:
    """A function from level and form to standard output and standard error of a program that logs."""
    folder = tmp_path_factory.mktemp("logs")
    subprocess.run([sys.executable, "-c", PROGRAM, str(folder), *CASES], check=True)

    def output(level: str, form: str) -> tuple[str, str]:
        out, err = (folder / f"{level}-{form}.{end}" for end in ("out", "err"))
        return out.read_text(encoding="utf-8"), err.read_text(encoding="utf-8")

    return output


def test_without_a_terminal_each_event_is_a_json_line(run: RunAgent) -> None:
    """`auto` writes JSON to standard error: time, level, event and its values; exceptions with their frames."""
    out, err = run("info", "auto")
    assert out == ""
    lines: list[dict[str, Any]] = [json.loads(line) for line in err.splitlines()]
    assert [(line["event"], line["level"]) for line in lines] == [
        ("decision", "info"),
        ("from a library", "warning"),
        ("client", "info"),
        ("failed", "error"),
    ]
    decision = lines[0]
    assert list(decision) == ["timestamp", "level", "event", "group", "reason", "before"]
    assert (decision["group"], decision["reason"], decision["before"]) == ("orders", "racks-changed", 0.25)
    assert decision["timestamp"].endswith("Z")
    assert lines[3]["exception"][0]["exc_value"] == "broken"
    assert lines[2]["config"] == {"sasl.password": "***", "sasl.oauthbearer.client.secret": "***"}


def test_a_command_writes_text_for_people(run: RunAgent) -> None:
    """Also where no terminal shows it: the lines stand above the table that was asked for."""
    _, err = run("warning", "auto")
    assert "from a library" in err
    assert not any(line.startswith("{") for line in err.splitlines())
    assert "\x1b" not in err


@pytest.mark.parametrize("form", ["json", "console"])
def test_no_log_holds_a_secret(form: str, run: RunAgent) -> None:
    """At debug no log has values of the settings, of a traceback's frames, of SASL requests, or bytes as sent."""
    _, err = run("debug", form)
    assert "broken" in err
    held = ['pass"word', 'pass\\"word', "client-proof", "SaslAuthenticate", "bytes as sent", "hidden"]
    assert [text for text in held if text in err] == []


def test_levels_and_the_console(run: RunAgent) -> None:
    """`console` writes text; a level hides lower ones, and debug includes the lines of the Kafka library."""
    _, quiet = run("error", "console")
    assert "decision" not in quiet
    assert "from a library" not in quiet
    assert "ValueError: broken" in quiet
    _, loud = run("debug", "console")
    assert all(text in loud for text in ("seen", "decision", "reason=racks-changed", "join failed"))


UNREAD = """
import os, structlog, sys
from samerack.agent import log
from samerack.settings.all_settings import Settings
reading, writing = os.pipe()
os.close(reading)
os.dup2(writing, 2)
log.configure(Settings(kafka={"bootstrap.servers": "h:1"}, log={"format": sys.argv[1]}))
for number in range(2):
    structlog.get_logger("leader").info("said", number=number)
print("goes on", flush=True)
os._exit(0)
"""


@pytest.mark.parametrize("form", ["json", "console"])
def test_nobody_has_to_read_the_log(form: str) -> None:
    """Where its reader had ended, each line was an error of the part of the agent that wrote it."""
    done = subprocess.run([sys.executable, "-c", UNREAD, form], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "goes on\n")


FULL = """
import logging, os, structlog
from samerack.agent import log
from samerack.settings.all_settings import Settings
reading, writing = os.pipe()
os.dup2(writing, 2)
log.configure(Settings(kafka={"bootstrap.servers": "h:1"}, log={"format": "json"}))
own, library = structlog.get_logger("leader"), logging.getLogger("elsewhere")
for number in range(400):
    own.info("event", text="\u20ac" * 1000)
    library.warning("warning")
os.read(reading, 1 << 20)
own.info("last")
print(os.read(reading, 4096).decode(), flush=True)
os._exit(0)
"""


def test_a_log_that_nobody_reads_stops_nothing() -> None:
    """Where a pipe was full, each thread that logged waited for the program that collects logs, heartbeats too."""
    done = subprocess.run([sys.executable, "-c", FULL], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["event"] == "last"


THREADS = """
import logging, threading, structlog
from samerack.agent import log
from samerack.settings.all_settings import Settings
log.configure(Settings(kafka={"bootstrap.servers": "h:1"}, log={"level": "debug", "format": "json"}))
own, library = structlog.get_logger("leader"), logging.getLogger("kafka")
def say(write):
    for number in range(500):
        write(f"line {number}")
threads = [threading.Thread(target=say, args=(write,)) for write in (own.info, library.debug, own.info, library.debug)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""


def test_lines_of_several_threads_stay_lines_of_their_own(tmp_path: Path) -> None:
    """An agent's `started` was on one line with a line of a Kafka library, and readers of the log missed it."""
    with (tmp_path / "log").open("w", encoding="utf-8") as file:  # which is never full
        subprocess.run([sys.executable, "-c", THREADS], stderr=file, check=True)
    lines = (tmp_path / "log").read_text(encoding="utf-8").splitlines()
    assert len(lines) == 2000
    assert all(json.loads(line)["event"].startswith("line ") for line in lines)
