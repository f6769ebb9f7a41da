"""The program from its first moment: Ctrl-C while it loads, and terminals that lack characters."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from samerack.cli.commands import COMMANDS
from samerack.cli.main import app

INTERRUPTED = """
import importlib.abc, os, signal, sys
WHEN = sys.argv[1]

class Interrupting(importlib.abc.MetaPathFinder):
    def find_spec(self, name, *_):
        if name == WHEN:
            os.kill(os.getpid(), signal.SIGINT)

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it from their start
sys.meta_path.insert(0, Interrupting())
"""
COMMAND = "from samerack.cli.start import main; sys.argv = ['samerack', 'cost', '-b', 'h:1']; main()"
AGENT = "from samerack.agent.process import RunRequest, main; sys.exit(main(RunRequest()))"


@pytest.mark.parametrize(
    ("program", "module", "code"),
    [
        (COMMAND, "samerack.cli.commands", -signal.SIGINT),
        (COMMAND, "samerack.cli.cost", -signal.SIGINT),
        (COMMAND, "kafka", -signal.SIGINT),
        (AGENT, "samerack.agent.supervisor.watchdog", 0),
    ],
)
def test_ctrl_c_while_the_program_loads_ends_it_without_a_word(program: str, module: str, code: int) -> None:
    """Whatever is imported at that moment."""
    line = [sys.executable, "-c", INTERRUPTED + program, module]
    done = subprocess.run(line, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (code, "", "")


def test_a_loaded_command_can_be_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may have something to end in order."""
    handlers = [signal.SIG_DFL]
    monkeypatch.setattr(signal, "getsignal", lambda _: handlers[-1])
    monkeypatch.setattr(signal, "signal", lambda _, handler: handlers.append(handler))
    group = get_command(app)
    group.get_command(None, "lag")  # type: ignore[attr-defined]  # it is a group
    group.get_command(None, "lag")  # type: ignore[attr-defined]  # see above
    assert handlers == [signal.SIG_DFL, signal.default_int_handler]


@pytest.mark.parametrize("width", [60, 80])
@pytest.mark.parametrize("arguments", [[], *([one] for one in COMMANDS), ["streams", "plan"]], ids=" ".join)
def test_help_is_whole_in_narrow_terminals(arguments: list[str], width: int) -> None:
    """No word, name of an option or summary is cut, and no line is longer than the terminal is wide."""
    done = CliRunner().invoke(app, [*arguments, "--help"], prog_name="samerack", terminal_width=width)
    assert done.exit_code == 0
    assert "\u2026" not in done.output
    assert not any(line.endswith("...") for line in done.output.split("Options:")[1].splitlines())
    assert max(map(len, map(str.rstrip, done.output.splitlines()))) <= width


def test_characters_that_the_terminal_lacks_do_not_end_a_command() -> None:
    """They are shown as question marks, and tables have lines of signs that it has."""
    program = """
import sys
from samerack.cli import start
from samerack.common.console import Column, Console, table_of
def shown(*_):
    Console().print(table_of([Column(title="Client", cells=["z\u00fcrich \u2192"])], width=80))
    return True
start.is_healthy = shown
sys.argv = ["samerack", "health"]
start.main()
"""
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "LC_ALL": "C"}
    line = [sys.executable, "-c", program]
    done = subprocess.run(line, capture_output=True, text=True, check=False, timeout=60, env=environment)
    assert (done.returncode, done.stderr) == (0, "")
    assert "z?rich ?" in done.stdout
