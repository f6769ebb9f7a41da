"""Commands in the running text of the documentation exist, with the options that are shown."""

from __future__ import annotations

import os
from functools import cache

import pytest
from typer.testing import CliRunner, Result

from samerack.cli.main import app
from tests.docs import ROOT, Command, spans


@cache
def _help(*words: str) -> Result:
    return CliRunner().invoke(app, [*words, "--help"])


@pytest.mark.parametrize("command", sorted(set(spans()), key=str), ids=str)
def test_a_command_in_the_text_exists(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """The help names every option; a script exists and is executable."""
    monkeypatch.setenv("COLUMNS", "300")
    monkeypatch.setenv("TERM", "dumb")
    program, *words = command.words
    if program != "samerack":
        assert os.access(ROOT / program, os.X_OK), f"{program} is no program"
        return
    path = [word for word in words if word.islower() and word.isalpha()][:2]
    answers = [_help(*path[:depth]) for depth in range(len(path), -1, -1)]
    shown = next(answer for answer in answers if answer.exit_code == 0)
    assert not path or shown is not answers[-1], f"no such command: {command}"
    for option in (word for word in words if word.startswith("--")):
        assert option.partition("=")[0] in shown.stdout
