"""The command line: help, exit codes with one line each, and the settings reference in its three forms."""

from __future__ import annotations

import gc
import importlib.metadata
import json
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from samerack.agent import process
from samerack.agent.supervisor import watchdog
from samerack.agent.supervisor.protocol import WorkerStart
from samerack.agent.supervisor.watchdog import Processes
from samerack.cli.commands import COMMANDS
from samerack.cli.main import app
from samerack.cluster import client
from samerack.cluster.connections import Connections
from samerack.cluster.diagnosis import Diagnoses
from samerack.settings.all_settings import sections
from samerack.settings.loading import load
from tests import settings_page
from tests.unit.agent.leading.scripted import clear_away

_NO_TEXT = os.fsdecode(b"\xff")
DOCS = Path(__file__).parents[3] / "docs"


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove settings of the user who runs the tests, and fix the width of the help."""
    monkeypatch.delenv("SAMERACK_CONFIG", raising=False)
    monkeypatch.setenv("COLUMNS", "200")


def run(*arguments: str) -> tuple[int, str, str]:
    """Exit code, standard output and standard error."""
    result = CliRunner().invoke(app, arguments)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.stdout, result.stderr


def refused(*arguments: str) -> tuple[int, str]:
    """Exit code and the one line that a command prints; for `run`, of its worker process."""
    code, out, err = run(*arguments) if arguments[0] != "run" else _works(*arguments)
    assert out == ""
    (line,) = err.splitlines()
    return code, line


class _Here:
    """Replaces the supervisor: runs the worker in this process."""

    def __init__(self, processes: Processes, *, keeps_trying: bool) -> None:  # noqa: ARG002 - nothing is tried again
        self._processes = processes

    def run(self) -> int:
        """Run one worker; the exit code is 0."""
        ours, line = socket.socketpair()
        with ours, line:
            self._processes.work(WorkerStart(), line)
        return 0


def _works(*arguments: str) -> tuple[int, str, str]:
    """Output of `samerack run` before brokers are asked."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(watchdog, "Supervisor", _Here)
        patch.setattr(gc, "freeze", lambda: None)
        patch.setattr(signal, "signal", lambda _number, _handler: None)
        patch.setattr(process, "skip_unused_imports", lambda: None)
        patch.setattr(os, "execve", lambda _program, line, _environment: sys.exit(process.main(asked(line))))
        return run(*arguments)


def asked(line: list[str]) -> process.RunRequest:
    """What the command asks the agent's first process for."""
    return process.RunRequest(**json.loads(line[-1]))


@pytest.fixture
def closed_port() -> str:
    """A loopback address on which no process listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{taken.getsockname()[1]}"


def test_help_names_every_command() -> None:
    """`samerack --help` lists all commands and says what the program is for."""
    code, out, _ = run("--help")
    assert code == 0
    assert "availability zone" in out
    listed = re.findall(r"^. ([a-z]+)  ", out, re.MULTILINE)
    assert listed == list(COMMANDS)
    assert listed[:2] == ["verify", "cost"]
    for first in ("verify", "cost", "run --observe"):
        assert f"`samerack {first} -b HOST:PORT`" in " ".join(out.split())


_HELP = "from samerack.cli.start import main; sys.argv = ['samerack', '--help']\ntry: main()\nexcept SystemExit: pass\n"


@pytest.mark.parametrize(
    "code", [_HELP, "from samerack.cli import main, run\n"], ids=["the list of commands", "the supervisor"]
)
def test_what_must_start_soon_loads_little(code: str) -> None:
    """Neither imports settings, clients or what a command needs: the first worker starts before settings are read."""
    shown = "print([name for name in ('pydantic', 'yaml', 'structlog', 'kafka', 'numpy') if name in sys.modules])"
    line = [sys.executable, "-c", f"import sys; {code}{shown}"]
    done = subprocess.run(line, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("module", ["offline.assign", "offline.codec", "offline.streams", "pipeline.whatif"])
def test_what_reads_no_settings_does_not_load_their_library(module: str) -> None:
    """Commands without brokers, and Spark's workers, which need not even have it."""
    code = f"import sys, samerack.{module}; print('pydantic_settings' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_has_help(command: str) -> None:
    """Every command has help with its usage and options, which begins with its summary in the list of commands."""
    code, out, _ = run(command, "--help")
    assert code == 0
    assert COMMANDS[command].summary in " ".join(out.split())
    assert re.search(rf"Usage: samerack {command} ", out)
    assert "--help" in out


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["run", "-b", "127.0.0.1:1"], "groups: is empty; set the groups to lead with --group"),
        (["run", "-g", "orders"], "kafka: is missing; give kafka: {bootstrap.servers: HOST:PORT}"),
        (["run", "-g", "o", "-b", "127.0.0.1:1", "-s", "kafka.clientid=x"], "did you mean kafka.client.id?"),
        (["run", "-b", "127.0.0.1:1", "-s", "group=[orders]"], "group (from the command line): no such setting; did"),
        (["run", "-b", "127.0.0.1:1", "-s", "traffic.groups=[*]"], "--set traffic.groups: looks like a list"),
        (["run", "-g", "o", "-c", "/a.yaml", "-c", "/b.yaml"], "--config: was given 2 times; use one file"),
        (["plan", "orders", "-b", "127.0.0.1:1", "-b", "127.0.0.1:2"], "--bootstrap-servers: was given 2 times; list"),
        (["plan", "orders"], "kafka: is missing"),
        (["plan", "orders", "-b", "127.0.0.1:1", "-c", "/nonexistent.yaml"], "/nonexistent.yaml: cannot be read"),
        (["plan", "orders", "-b", "127.0.0.1:1", "-s", "kafka.security.protocol=TLS"], "security.protocol"),
    ],
)
def test_wrong_settings_are_one_line_and_exit_code_2(arguments: list[str], part: str) -> None:
    """Wrong settings give one line with key and cure before anything is started."""
    code, line = refused(*arguments)
    assert code == 2
    assert line.startswith("samerack: ")
    assert part in line


@pytest.mark.parametrize(
    ("arguments", "number"),
    [
        (["lag", _NO_TEXT], 2),
        (["events", _NO_TEXT], 2),
        (["cost", "-s", f"kafka.sasl.password={_NO_TEXT}"], 3),
        (["cost", "-b", _NO_TEXT], 3),
        ([_NO_TEXT], 1),
    ],
)
def test_arguments_that_are_no_text_are_exit_code_2(arguments: list[str], number: int) -> None:
    """Bytes that are not UTF-8 are refused before anything is done with them, and are not shown."""
    line = f"samerack: argument {number}: contains bytes that are not UTF-8; expected text\n"
    assert run(*arguments) == (2, "", line)


@pytest.mark.parametrize(
    "arguments",
    [
        ["plan"],
        ["plan", "g", "--nonsense"],
        ["settings", "-f", "toml"],
        ["nonsense"],
        *(["cost", "--watch", "-i", seconds] for seconds in ("inf", "nan", "1e10", "0")),
    ],
)
def test_wrong_usage_is_exit_code_2(arguments: list[str]) -> None:
    """A wrong argument prints the usage and exits with 2."""
    code, _, err = run(*arguments)
    assert code == 2
    assert "Usage" in err


@pytest.mark.parametrize(
    ("name", "meant"), [("verfy", "verify"), ("assing", "assign"), ("setting", "settings"), ("Verify", "verify")]
)
def test_an_unknown_command_names_the_nearest(name: str, meant: str) -> None:
    """Of all commands, none of which is loaded yet."""
    code, _, err = run(name)
    assert code == 2
    assert f"No such command '{name}'. Did you mean '{meant}'" in " ".join(err.replace("│", " ").split())


def test_there_are_23_commands() -> None:
    """A command more is an option less of another one, or a reason to change this number."""
    leaves = list(COMMANDS)
    for name in ("streams", "pipeline"):
        leaves.remove(name)
        _, out, _ = run(name, "--help")
        leaves += re.findall(r"^  ([a-z]+)  ", out.partition("Commands:")[2], re.MULTILINE)
    assert len(leaves) == 23, leaves


def test_a_taken_port_is_exit_code_1() -> None:
    """A web port that another program uses gives exit code 1 and the setting to change."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        code, line = refused("run", "-g", "o", "-b", "127.0.0.1:1", "-s", f"web.port={port}")
    assert code == 1
    assert "Address already in use; set web.port" in line


@pytest.mark.parametrize(
    ("command", "expected"), [(["plan", "orders"], 1), (["verify"], 3), (["cost"], 1), (["lag", "orders"], 1)]
)
def test_an_unreachable_broker_is_a_failure_after_one_attempt(
    command: list[str], expected: int, closed_port: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command ends with its first attempt to connect, as soon as its cause is known, and names what to check.

    The exit code is 1; of `verify`, where 1 says that something costs money, 3.
    """
    attempts: list[float] = []
    begin = Connections.begin

    def begun(connections: Connections, seconds: float) -> object:
        attempts.append(seconds)
        return begin(connections, 600.0)

    monkeypatch.setattr(Connections, "begin", begun)
    monkeypatch.setattr(client, "_DIAGNOSES", Diagnoses())
    code, message = refused(*command, "--bootstrap-servers", closed_port, "-s", "web.port=0")
    clear_away()
    assert code == expected
    assert message.startswith(f"samerack: kafka {closed_port}: connection refused; check host and port")
    assert "bootstrap.servers" in message
    assert attempts == [10.0]


def test_the_yaml_reference_is_a_settings_file(tmp_path: Path) -> None:
    """The output of `settings` loads as a settings file, and gives the defaults."""
    code, out, _ = run("settings")
    assert code == 0
    path = tmp_path / "samerack.yaml"
    path.write_text(out)
    assert load(path=path, environment={}) == load(
        flags={"kafka": {"bootstrap.servers": "127.0.0.1:9092"}}, environment={}
    )


def test_the_yaml_reference_loads_with_every_comment_taken_away(tmp_path: Path) -> None:
    """Every commented key can be uncommented, several in one section included, and is valid."""
    _, out, _ = run("settings", "--format", "yaml")
    text = re.sub(r"^( *)# (\w+: )", r"\1\2", out, flags=re.MULTILINE)
    path = tmp_path / "samerack.yaml"
    content = yaml.safe_load(text)
    for place, model in sections().items():
        wanted = set(model.model_fields)
        assert set(content[place] if place else content) == wanted
    path.write_text(re.sub("^(groups|cluster): .*", "", text, flags=re.MULTILINE))  # they exclude each other
    assert set(load(path=path, environment={}, several=True).clusters) == {"east"}
    path.write_text(re.sub("^clusters: .*", "", text, flags=re.MULTILINE))
    found = load(path=path, environment={})
    assert found.groups == ("orders", "payments-*", "!payments-test-*")
    without_examples = found.policy.model_copy(update={"windows": (), "groups": {}})
    assert without_examples == load(flags={"kafka": {"bootstrap.servers": "x"}}, environment={}).policy


def test_the_configuration_page_is_generated() -> None:
    """docs/configuration.md is what `python -m tests.settings_page` writes."""
    assert (DOCS / "configuration.md").read_text(encoding="utf-8") == settings_page.page()


def test_the_version_is_the_packages() -> None:
    """Of the installed package, without loading anything else."""
    assert run("--version") == (0, f"{importlib.metadata.version('samerack')}\n", "")


def test_h_is_help() -> None:
    """Of the program and of each command."""
    assert run("-h") == run("--help")
    assert run("verify", "-h") == run("verify", "--help")


def test_a_shell_completes_commands() -> None:
    """As typer's script for bash asks for them."""
    words = {"_SAMERACK_COMPLETE": "complete_bash", "COMP_WORDS": "samerack ve", "COMP_CWORD": "1"}
    line = [str(Path(sys.executable).with_name("samerack"))]
    done = subprocess.run(line, env={**os.environ, **words}, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["verify"]


def test_a_command_that_is_left_out_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """The agent's image is without the pipeline."""
    for name in [name for name in sys.modules if name.startswith("samerack.pipeline")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "samerack.pipeline", None)
    code, line = refused("pipeline", "report")
    assert (code, line) == (
        2,
        "samerack: pipeline: not in the agent's image; run it where `samerack[pipeline]` is installed",
    )
