"""The commands of docs/pipeline.md in order: a simulated fleet becomes tables, a report and a what-if."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Final

import pytest

from lab.sandbox.admin import Admin
from lab.sandbox.demo_pipeline import STATES_TOPIC, TRAFFIC_TOPIC
from tests.docs import blocks
from tests.spark.conftest import Typed

SMALLER: Final = ("--groups", "6", "--step", "3600")
"""The last of two equal options counts."""


def test_the_commands_of_the_page_work_one_after_the_other(
    typed: Typed, bootstrap: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every command succeeds, with this broker's address, this test's folder and a smaller fleet than the page's."""
    monkeypatch.chdir(tmp_path)
    with Admin(bootstrap) as admin:
        for topic in (TRAFFIC_TOPIC, STATES_TOPIC):
            admin.create_topic(topic, [[1], [1], [1]])
    for command in blocks():
        if command.page != "pipeline.md" or command.words[0] != "samerack":
            continue
        words = [word.replace("127.0.0.1:9092", bootstrap).replace("/srv", str(tmp_path)) for word in command.words]
        smaller = SMALLER if "simulate" in words else ()
        done = typed(*words[1:], *smaller)
        assert done.exit_code == 0, f"{shlex.join(words)}\n{done.stderr}"
    assert (tmp_path / "week.html").is_file()
    assert (tmp_path / "all" / "traffic_by_day.parquet").is_file()
