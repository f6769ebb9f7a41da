"""Installs the wheel of this checkout into an environment of its own, beside the dependencies that are at hand."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from importlib.metadata import distributions
from pathlib import Path
from zipfile import ZipFile

from tests.docs import ROOT

TRAPS = ("agent", "assignors", "cli", "common", "kafka", "numpy", "pipeline", "protocol", "samerack")
"""Names of files in a user's folder that no program of ours may import."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """An environment with the wheel."""

    python: str  # its interpreter
    samerack: str  # the console script
    top_level: frozenset[str]  # names of all that the wheel installs, without its metadata


def install(folder: Path) -> Environment:
    """Build the wheel and installs it as its format says; needs no network, and neither pip nor compiled modules."""
    _run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder), cwd=ROOT)
    (wheel,) = folder.glob("*.whl")
    home = folder / "environment"
    _run(sys.executable, "-m", "venv", "--without-pip", str(home), cwd=folder)
    python, script = home / "bin" / "python", home / "bin" / "samerack"
    packages = Path(sysconfig.get_path("purelib", vars={"base": str(home)}))
    with ZipFile(wheel) as archive:
        archive.extractall(packages)
        names = {name.partition("/")[0] for name in archive.namelist()}
    # the dependencies of this checkout; links within them, such as to this checkout itself, are not followed
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    (installed,) = distributions(name="samerack", path=[str(packages)])
    (program,) = installed.entry_points.select(group="console_scripts", name="samerack")
    script.write_text(
        f"#!{python}\nimport sys\nfrom {program.module} import {program.attr}\nsys.exit({program.attr}())\n",
        encoding="utf-8",
    )
    script.chmod(0o755)
    return Environment(
        python=str(python),
        samerack=str(script),
        top_level=frozenset(name for name in names if not name.endswith(".dist-info")),
    )


def trapped(folder: Path) -> Path:
    """Make a working directory whose files have the names of modules and fail when they are imported."""
    folder.mkdir()
    for name in TRAPS:
        (folder / f"{name}.py").write_text(
            "raise SystemExit('imported from the working directory')\n", encoding="utf-8"
        )
    (folder / "agent").mkdir()
    (folder / "agent" / "__init__.py").write_text("raise SystemExit('imported from the working directory')\n")
    return folder


def _run(*line: str, cwd: Path) -> None:
    subprocess.run(line, cwd=cwd, capture_output=True, text=True, check=True)
