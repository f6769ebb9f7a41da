"""Whole Streams assignments compared with Kafka's: 2,000 random applications of ten families for each assignor.

Kafka's plans were recorded as digests, from `HighAvailabilityTaskAssignor`, `StickyTaskAssignor`,
`LegacyStickyTaskAssignor` and `FallbackPriorTaskAssignor` of Kafka 4.3.0, with clients in the order of their
process ids. A case follows from its seed, so only digests are stored, and no JVM is needed.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from samerack.offline.streams_answers import ASSIGN, answer_line
from tests.parity.streams_cases import digest, random_case

RECORDED = Path(__file__).parents[1] / "data" / "golden" / "streams-assign-random.json"
KAFKAS: dict[str, str] = json.loads(RECORDED.read_text(encoding="utf-8"))

FEW = 80
"""The number of cases that run with the unit tests."""


def different(assignor: str, seeds: slice) -> list[int]:
    """Seeds of the cases in which any task, warm-up, flag or deadline differs from Kafka's."""
    recorded = dict(enumerate(KAFKAS[assignor].split()))
    found = []
    for seed in list(recorded)[seeds]:
        question = random_case(seed, assignor) | {"compatible": True}
        if digest(answer_line(json.dumps(question).encode(), (ASSIGN,)), assignor) != recorded[seed]:
            found.append(seed)
    return found


@pytest.mark.parametrize("assignor", sorted(KAFKAS))
def test_plans_are_kafkas_task_by_task(assignor: str) -> None:
    """With `compatible` the first cases are decided exactly as by Kafka."""
    assert different(assignor, slice(FEW)) == []


@pytest.mark.parity
@pytest.mark.extended
@pytest.mark.parametrize("assignor", sorted(KAFKAS))
def test_all_plans_are_kafkas_task_by_task(assignor: str) -> None:
    """With `compatible` all 2,000 cases, the first ones in the test above, are decided exactly as by Kafka."""
    assert len(KAFKAS[assignor].split()) == 2_000
    assert different(assignor, slice(FEW, None)) == []
