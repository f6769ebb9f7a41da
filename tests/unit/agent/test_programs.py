"""Programs that the agent starts are its own, whatever lies in the working directory."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[3]
_STARTS = re.compile(r"sys\.executable,\s*(?P<options>(\"-\w+\",\s*)*)\"-m\"")


def test_programs_are_started_without_the_working_directory() -> None:
    """Each `python -m` of the agent has -P, without which Python looks for modules in the working directory first."""
    starts = {
        (path.name, "-P" in found["options"])
        for path in (_ROOT / "agent").rglob("*.py")
        for found in _STARTS.finditer(path.read_text(encoding="utf-8"))
    }
    assert starts == {("run.py", True), ("deadline.py", True), ("watchdog.py", True)}


@pytest.mark.parametrize("program", ["agent.worker", "agent.supervisor.leaving"])
def test_nothing_is_imported_from_the_working_directory(program: str, tmp_path: Path) -> None:
    """A file there with the name of a module is not run."""
    for name in ("pickle", "json", "agent", "numpy"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'run')!r}, 'w')", encoding="utf-8")
    given = b"" if program == "agent.worker" else b'{"kafka": {"bootstrap.servers": "127.0.0.1:1"}, "present": []}'
    subprocess.run([sys.executable, "-P", "-m", program], input=given, cwd=tmp_path, check=False, capture_output=True)
    assert not (tmp_path / "run").exists()
