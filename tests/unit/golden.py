"""Answers that Kafka 4.3's own classes gave, one JSON line per question and answer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest

GOLDEN: Final = Path(__file__).parents[1] / "data" / "golden"


def lines(name: str) -> list[dict[str, Any]]:
    """The lines of one kind, each with `in` and `out`."""
    return [json.loads(line) for line in (GOLDEN / f"{name}.jsonl").read_text("utf-8").splitlines()]


def golden(name: str) -> list[Any]:
    """The lines of one kind, as (question, answer) parameters."""
    return [pytest.param(line["in"], line["out"], id=str(number)) for number, line in enumerate(lines(name))]
