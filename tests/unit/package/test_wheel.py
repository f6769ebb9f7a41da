"""The wheel has one top-level package, and its programs import nothing from the folder that they are called in."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from socketserver import BaseRequestHandler, ThreadingTCPServer
from threading import Thread

import pytest

from tests.docs import ROOT
from tests.wheel import Environment, install, trapped

_PYTHON = re.compile(r"```python\n(.*?)```\n(?:\n```text\n(.*?)```)?", re.DOTALL)


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """The wheel, installed."""
    return install(tmp_path_factory.mktemp("wheel"))


class _Stranger(BaseRequestHandler):
    """Answers one line of plain text to whatever it is sent."""

    def handle(self) -> None:
        """Read all of the greeting, so that the answer is not lost with the connection."""
        self.request.recv(65_536)
        self.request.sendall(b"no Kafka here\n")


@pytest.fixture
def stranger() -> Iterator[str]:
    """The address of a server that does not speak TLS: a client that wants it gives up at once."""
    with ThreadingTCPServer(("127.0.0.1", 0), _Stranger) as server:
        Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}).start()
        yield "{}:{}".format(*server.server_address)
        server.shutdown()


def test_no_later_major_version_of_kafka_python_is_installed(environment: Environment) -> None:
    """The agent uses public names of it, which only a major version may change."""
    code = "from importlib.metadata import requires; print(*requires('samerack'), sep='\\n')"
    done = subprocess.run([environment.python, "-c", code], capture_output=True, text=True, check=True)
    assert "kafka-python<4,>=3.0.12" in done.stdout.splitlines()


def test_one_top_level_package(environment: Environment) -> None:
    """The wheel installs `samerack` and nothing else, so it collides with no other package."""
    assert environment.top_level == {"samerack"}


@pytest.mark.parametrize(
    ("words", "ends"),
    [
        (("run", "-b", "STRANGER"), (2, "samerack: groups: is empty")),
        (("plan", "orders", "-s", "kafka.security.protocol=SSL", "-b", "STRANGER"), (1, "the server does not use TLS")),
    ],
)
def test_files_of_the_working_directory_are_not_imported(
    environment: Environment, tmp_path: Path, stranger: str, words: tuple[str, ...], ends: tuple[int, str]
) -> None:
    """Found: `samerack run` in a folder with `agent/` or `common.py` imported that, and ended."""
    folder = trapped(tmp_path / "trapped")
    line = [environment.samerack, *(word.replace("STRANGER", stranger) for word in words)]
    done = subprocess.run(line, cwd=folder, capture_output=True, text=True, check=False)
    code, message = ends
    assert (done.returncode, message in done.stdout + done.stderr) == (code, True), done.stderr


def test_a_shell_completes_its_commands(environment: Environment, tmp_path: Path) -> None:
    """`--install-completion` writes into the reader's home, and the shell then knows the commands."""
    script = """
        samerack --install-completion && . ~/.bash_completions/samerack.sh || exit
        COMP_WORDS=(samerack ver) COMP_CWORD=1
        _samerack_completion samerack
        echo "completes: ${COMPREPLY[*]}"
    """
    variables = {"HOME": str(tmp_path), "PATH": f"{Path(environment.samerack).parent}:/usr/bin:/bin"}
    done = subprocess.run(["bash", "-c", script], env=variables, capture_output=True, text=True, check=True)
    assert "completes: verify" in done.stdout.splitlines()


def test_the_example_of_the_library_page(environment: Environment, tmp_path: Path) -> None:
    """The example of docs/library.md prints what the page shows."""
    page = (ROOT / "docs" / "library.md").read_text(encoding="utf-8")
    code, printed = _PYTHON.findall(page)[0]
    done = subprocess.run([environment.python, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == (printed, "")


def test_a_checkout_without_links_builds_nothing(tmp_path: Path) -> None:
    """Where links are checked out as files, a wheel would lack the rooms behind them, and said nothing."""
    for name in ("pyproject.toml", "hatch_build.py", "README.md", "LICENSE"):
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    package = tmp_path / "src" / "samerack"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "agent").write_text("../../agent", encoding="utf-8")
    (package / "assignors").mkdir()
    line = [sys.executable, "-m", "hatchling", "build", "-t", "wheel"]
    done = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert done.stderr.splitlines()[-1].startswith(
        "RuntimeError: src/samerack/agent, src/samerack/protocol: no folder, but a link that was checked out as a "
        "file; run `git config core.symlinks true && "
    )
    assert not [*tmp_path.rglob("*.whl")]
