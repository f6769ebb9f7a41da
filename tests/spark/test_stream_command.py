"""`samerack pipeline stream` says what is missing before it starts anything."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.spark.stream_process import Source, arguments, command


def refused(words: list[str]) -> tuple[int, str]:
    """Exit code and the one line of a command that says nothing else."""
    done = subprocess.run(command(*words), capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    return done.returncode, line


def test_a_missing_topic_is_one_line(bootstrap: str, tmp_path: Path) -> None:
    """The topic and the settings that name it are told, and no table is made."""
    source = Source(bootstrap=bootstrap, traffic="nobody", states="nobody")
    code, line = refused(arguments(source, tmp_path / "tables"))
    assert code == 1
    assert f"topic nobody does not exist at {bootstrap}" in line
    assert "pipeline.states_topic" in line
    assert not (tmp_path / "tables").exists()


def test_a_wrong_setting_is_one_line(tmp_path: Path) -> None:
    """A setting that Spark's client has no counterpart for, and a value that is none, end with exit code 2."""
    for key, value, words in (
        ("kafka.ssl.crl.location", "x", "has no counterpart"),
        ("pipeline.lost_records", "perhaps", "pipeline.lost_records: "),
    ):
        source = Source(bootstrap="127.0.0.1:1", traffic="t", states="s")
        code, line = refused([*arguments(source, tmp_path), "-s", f"{key}={value}"])
        assert code == 2
        assert words in line
