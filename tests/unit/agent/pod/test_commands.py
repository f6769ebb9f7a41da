"""`samerack rack` and `samerack health`: what they print and write, their exit codes, and what they load."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from samerack.agent.pod import sources
from samerack.agent.pod.own import property_line
from samerack.cli.main import app
from samerack.cli.start import is_healthy
from tests.unit.agent.serving import served


@pytest.fixture(autouse=True)
def _no_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine of the tests may be a pod."""
    monkeypatch.setattr(sources, "_LABEL_FILE", "/nowhere/labels")


def run(*arguments: str, **environment: str) -> Result:
    """Run the command in an environment without other variables for racks."""
    clean = dict.fromkeys([name for name in os.environ if name.startswith(("CLIENT_RACK", "POD_", "SAMERACK_"))])
    return CliRunner().invoke(app, list(arguments), env={**clean, **environment})  # type: ignore[return-value]  # typer's click


def test_the_rack_alone_is_on_standard_output() -> None:
    """Only the rack is on standard output, for scripts; its source is on standard error."""
    done = run("rack", "-s", "pod.zones={z: rack-a}", CLIENT_RACK="z")
    assert (done.exit_code, done.stdout) == (0, "rack-a\n")
    assert done.stderr == "samerack: rack rack-a from env: the variable CLIENT_RACK: z\n"


def test_it_is_written_where_applications_read_it(tmp_path: Path) -> None:
    """One command writes a plain file, an environment file and Java properties, which any user may read."""
    files = [tmp_path / name for name in ("rack", "env", "client.properties")]
    options = ["--write", str(files[0]), "--env-file", str(files[1]), "--properties-file", str(files[2])]
    assert run("rack", *options, CLIENT_RACK="rack-a").exit_code == 0
    assert [file.read_text() for file in files] == ["rack-a\n", "CLIENT_RACK=rack-a\n", "client.rack=rack-a\n"]
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o644}
    assert sorted(tmp_path.iterdir()) == sorted(files)
    more = ["--variable", "KAFKA_RACK", "--key", "spring.kafka.consumer.properties.client.rack"]
    assert run("rack", *options, *more, CLIENT_RACK="b").exit_code == 0
    assert files[1].read_text() == "KAFKA_RACK=b\n"
    assert files[2].read_text() == "spring.kafka.consumer.properties.client.rack=b\n"


def test_a_shell_reads_back_what_was_written(tmp_path: Path) -> None:
    """A shell reads back any name of a rack, and runs nothing of it."""
    file = tmp_path / "env"
    odd = "rack $(touch ran) 'a' \"b\" `c`; d"
    assert run("rack", "--env-file", str(file), CLIENT_RACK=odd).exit_code == 0
    line = ["sh", "-c", f'. {file}; printf %s "$CLIENT_RACK"']
    assert subprocess.run(line, capture_output=True, text=True, check=True, cwd=tmp_path).stdout == odd
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(("rack", "line"), [("a\\b", "k=a\\u005cb\n"), ("Zürich", "k=Z\\u00fcrich\n"), ("", "k=\n")])
def test_properties_are_written_as_java_reads_them(rack: str, line: str) -> None:
    """Backslashes and characters outside ASCII are escaped."""
    assert property_line("k", rack) == line


def test_nothing_found_ends_with_one_and_the_cure(tmp_path: Path) -> None:
    """Without a rack no file is written; with --or-empty an empty rack is, so that the application starts."""
    file = tmp_path / "env"
    done = run("rack", "--env-file", str(file))
    assert (done.exit_code, done.stdout, file.exists()) == (1, "", False)
    (line,) = done.stderr.splitlines()
    assert "set CLIENT_RACK, or add another source to pod.sources" in line
    done = run("rack", "--env-file", str(file), "--or-empty")
    assert (done.exit_code, done.stdout, file.read_text()) == (0, "\n", "CLIENT_RACK=\n")


@pytest.mark.parametrize(
    ("wrong", "rack"), [("groups.x=1", "rack-a"), ("pod.colour=red", ""), ("pods.zones={z: rack-b}", "")]
)
def test_wrong_settings_keep_no_application_from_starting(tmp_path: Path, wrong: str, rack: str) -> None:
    """With --or-empty key and cure are printed; the rack is empty only if what is wrong may be a setting of `pod`."""
    file = tmp_path / "env"
    options = ["--env-file", str(file), "-s", "pod.zones={z: rack-a}", "-s", wrong]
    done = run("rack", *options, "--or-empty", CLIENT_RACK="z")
    assert (done.exit_code, file.read_text()) == (0, f"CLIENT_RACK={rack}\n")
    assert wrong.partition(".")[0] in done.stderr.splitlines()[0]
    assert run("rack", *options, CLIENT_RACK="z").exit_code == 2


def test_why_shows_every_source() -> None:
    """All sources are shown, also those after the one that counts; JSON has all their answers."""
    done = run("rack", "--why", CLIENT_RACK="rack-a", POD_ZONE="zone-1")
    assert done.stdout.splitlines() == [
        "env: rack-a (the variable CLIENT_RACK)",
        "file: - (pod.rack_file names no file)",
        "label: zone-1 (the variable POD_ZONE)",
    ]
    printed = json.loads(run("rack", "--why", "--json", CLIENT_RACK="rack-a", POD_ZONE="zone-1").stdout)
    assert (printed["rack"], printed["source"]) == ("rack-a", "env")
    assert [answer["rack"] for answer in printed["answers"]] == ["rack-a", None, "zone-1"]


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["--variable", "1-x"], 2, "--variable '1-x'"),
        (["--key", "a b"], 2, "--key 'a b'"),
        (["--write", "/nowhere/rack"], 1, "/nowhere/rack: cannot be written (No such file or directory); mount"),
        (["-s", "pod.sources=[wifi]"], 2, "pod.sources.0"),
    ],
)
def test_wrong_options_are_named(options: list[str], code: int, message: str) -> None:
    """Wrong options have exit code 2, errors of the machine exit code 1."""
    done = run("rack", *options, CLIENT_RACK="a")
    assert done.exit_code == code
    assert message in done.stderr


def test_health_is_what_the_agent_says(tmp_path: Path) -> None:
    """The exit code is 0 while the agent is well, and 1 with the parts that are not, or without an answer.

    The quick probe reads the address from file and environment, and leaves everything but a yes to the command.
    """
    wrong: dict[str, str] = {}
    file = tmp_path / "samerack.yaml"
    config = {"SAMERACK_CONFIG": str(file)}
    with served(ready=lambda: wrong) as port:
        file.write_text(f"web: {{port: {port}}}", encoding="utf-8")
        here = ["-s", f"web.port={port}", "-s", "web.host=0.0.0.0"]
        assert run("health", *here).stdout == "ok\n"
        assert run("health", "--ready", *here).exit_code == 0
        assert is_healthy([], config)
        assert is_healthy(["--ready"], config)
        assert is_healthy([], {"SAMERACK_WEB__PORT": str(port), "SAMERACK_WEB__HOST": "0.0.0.0"})  # noqa: S104 - as a server listens
        for arguments, environment in (
            *(([], {**config, "SAMERACK_WEB__PORT": port}) for port in ("x", "²", "9" * 5_000)),
            ([], {**config, "SAMERACK_WEB__COLOUR": "red"}),
            ([], {"SAMERACK_CONFIG": str(tmp_path)}),
            (["--help"], config),
        ):
            assert not is_healthy(arguments, environment)
        wrong["group orders"] = "outside"
        done = run("health", "--ready", *here)
        assert (done.exit_code, run("health", *here).exit_code) == (1, 0)
        assert done.stderr.endswith("/readyz answers 503: group orders: outside\n")
        assert not is_healthy(["--ready"], config)
        assert is_healthy([], config)
    done = run("health", *here)
    assert (done.exit_code, "no agent answers" in done.stderr) == (1, True)
    assert not is_healthy([], config)


def test_probes_load_next_to_nothing() -> None:
    """A probe, called every few seconds, loads a minimum; the command of an init container loads no clients."""
    program = (
        "import sys; from samerack.cli import start; start.is_healthy([], {'SAMERACK_WEB__PORT': '1'}); "
        "print([name for name in ('typer', 'pydantic', 'yaml') if name in sys.modules]); "
        "from typer.testing import CliRunner; from samerack.cli.main import app; CliRunner().invoke(app, ['rack']); "
        "print([name for name in ('numpy', 'ortools', 'confluent_kafka', 'kafka', 'rich') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n[]\n"
