"""The agent starts its own programs, whatever files are in the working directory."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

_ROOT = Path(__file__).parents[3]
_ROOMS = ("agent", "cli", "cluster", "common", "election", "offline", "planning", "traffic")
_STARTS = re.compile(r"sys\.executable,\s*(?P<options>(\"-\w+\",\s*)*)\"-m\"")


def test_programs_are_started_without_the_working_directory() -> None:
    """Each `python -m` of the agent has -P, without which Python looks for modules in the working directory first."""
    starts = {
        (path.name, "-P" in found["options"])
        for room in _ROOMS
        for path in (_ROOT / room).rglob("*.py")
        for found in _STARTS.finditer(path.read_text(encoding="utf-8"))
    }
    assert starts == {("pickle_process.py", True), ("process.py", True)}


def test_nothing_is_imported_from_the_working_directory(tmp_path: Path) -> None:
    """A file there with the name of a module is not run."""
    for name in ("pickle", "json", "samerack", "numpy"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'run')!r}, 'w')", encoding="utf-8")
    subprocess.run([sys.executable, "-P", "-m", "samerack.planning.worker"], input=b"", cwd=tmp_path, check=False)
    assert not (tmp_path / "run").exists()
