"""Commands for Spark without an installed PySpark, and the package for a Spark cluster."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from zipfile import ZipFile

import pytest
from typer.testing import CliRunner

from samerack.pipeline.cli import app, spark


@pytest.mark.parametrize("command", ["stream", "maintain"])
def test_without_pyspark_the_cure_is_reported(monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    """One line names the extra to install, with exit code 2, before anything starts."""
    monkeypatch.setattr(spark, "find_spec", lambda _: None)
    done = CliRunner().invoke(app, [command])
    assert done.exit_code == 2
    assert done.stderr == "samerack: pyspark is not installed: pip install 'samerack[pipeline]'\n"


def test_a_spark_that_is_too_old_is_refused_with_the_cure(monkeypatch: pytest.MonkeyPatch) -> None:
    """One line names its version, the oldest that works and how to get it, with exit code 2."""
    monkeypatch.setattr(spark, "find_spec", lambda name: name)
    monkeypatch.setitem(sys.modules, "pyspark", SimpleNamespace(__version__="3.5.9"))
    done = CliRunner().invoke(app, ["stream"])
    assert (done.exit_code, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line == (
        "samerack: Spark 3.5.9 is too old, 4.0 is the oldest: pip install 'samerack[pipeline]', or use spark-submit of "
        "a newer one"
    )


def test_the_package_holds_the_pipeline_and_what_it_stands_on(tmp_path: Path) -> None:
    """The zip contains code and data of the pipeline and of what it needs, nothing else; the program starts it."""
    folder = tmp_path / "new"
    done = CliRunner().invoke(app, ["package", str(folder), "--json"])
    files = json.loads(done.stdout)
    held = ZipFile(files["zip"]).namelist()
    assert {name.split("/")[1] for name in held} == {
        "__init__.py",
        "assignors",
        "auth",
        "common",
        "pipeline",
        "settings",
        "traffic",
    }
    assert {
        f"samerack/{name}" for name in ("pipeline/cli/__init__.py", "pipeline/jars/jars.lock", "common/prices/aws.yaml")
    } <= set(held)
    assert not [name for name in held if "__pycache__" in name]
    assert (folder / "samerack_pipeline.py").read_text().endswith("main()\n")
    assert len(files["jars"]) == 11
    # as spark-submit runs it: the installed package must not stand in for what the zip lacks
    program = str(folder / "samerack_pipeline.py")
    submitted = f"import runpy, sys; sys.path.insert(0, {files['zip']!r}); runpy.run_path({program!r})"
    ran = subprocess.run([sys.executable, "-c", submitted, "--help"], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert "maintain" in ran.stdout
