"""The wheel has one top-level package, and its programs import nothing from the folder that they are called in."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.docs import ROOT
from tests.wheel import Environment, install, trapped

_PYTHON = re.compile(r"```python\n(.*?)```\n(?:\n```text\n(.*?)```)?", re.DOTALL)


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """The wheel, installed."""
    return install(tmp_path_factory.mktemp("wheel"))


def test_one_top_level_package(environment: Environment) -> None:
    """The wheel installs `samerack` and nothing else, so it collides with no other package."""
    assert environment.top_level == {"samerack"}


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("--help",), 0, "Keeps Kafka consumer traffic"),
        (("run", "-b", "127.0.0.1:1"), 2, "samerack: groups: is empty"),
        (("plan", "orders", "-b", "127.0.0.1:1"), 1, "samerack: kafka 127.0.0.1:1: "),
    ],
)
def test_files_of_the_working_directory_are_not_imported(
    environment: Environment, tmp_path: Path, words: tuple[str, ...], code: int, says: str
) -> None:
    """Found: `samerack run` in a folder with `agent/` or `common.py` imported that, and ended."""
    folder = trapped(tmp_path / "trapped")
    done = subprocess.run(
        [environment.samerack, *words], cwd=folder, capture_output=True, text=True, timeout=50, check=False
    )
    assert (done.returncode, says in done.stdout + done.stderr) == (code, True), done.stderr


def test_the_example_of_the_library_page(environment: Environment, tmp_path: Path) -> None:
    """The example of docs/library.md prints what the page shows."""
    page = (ROOT / "docs" / "library.md").read_text(encoding="utf-8")
    code, printed = _PYTHON.findall(page)[0]
    done = subprocess.run([environment.python, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == (printed, "")
