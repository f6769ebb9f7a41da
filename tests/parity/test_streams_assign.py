"""Whole Streams assignments compared with Kafka's: 2,000 random applications of ten families for each assignor.

Kafka's plans were recorded as digests, from `HighAvailabilityTaskAssignor`, `StickyTaskAssignor`,
`LegacyStickyTaskAssignor` and `FallbackPriorTaskAssignor` of Kafka 4.3.0, with clients in the order of their
process ids. A case follows from its seed, so only digests are stored, and no JVM is needed.

Plans without `compatible` are compared by what they cost, on 300 applications of another generator for each assignor.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from samerack.offline.streams import ASSIGN, answer_line
from tests.parity.streams_cases import deployed_case, digest, figures, random_case

RECORDED = Path(__file__).parents[1] / "data" / "golden"
KAFKAS: dict[str, str] = json.loads((RECORDED / "streams-assign-random.json").read_text(encoding="utf-8"))
KAFKAS_FIGURES: dict[str, list[list[int]]] = json.loads(
    (RECORDED / "streams-deployed.json").read_text(encoding="utf-8")
)
"""What `figures` makes of Kafka's plans of `deployed_case`, by seed."""

FEW = 80
"""The number of cases that run with the unit tests."""


def different(assignor: str, seeds: slice) -> list[int]:
    """Seeds of the cases in which any task, warm-up, flag or deadline differs from Kafka's."""
    recorded = dict(enumerate(KAFKAS[assignor].split()))
    found = []
    for seed in list(recorded)[seeds]:
        question = random_case(seed, assignor) | {"compatible": True}
        if digest(answer_line(json.dumps(question).encode(), ASSIGN), assignor) != recorded[seed]:
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


WORSE: dict[str, list[int]] = {"ha": [144, 153, 263], "sticky": [], "legacy-sticky": [125]}
"""Seeds of all deployed cases in which Kafka's plan is better; docs/streams-differences.md has their number."""


def worse(assignor: str, seeds: range) -> list[int]:
    """Seeds of the deployed cases in which our plan is worse than Kafka's: by balance and tags, then by cost and reads.

    Of `ha`, which does not count moves from the previous plan, by actives, tags and reads.
    """
    aims = (0, 1, 4) if assignor == "ha" else range(5)
    found = []
    for seed in seeds:
        case = deployed_case(seed, assignor)
        ours = figures(case, answer_line(json.dumps(case).encode(), ASSIGN))
        theirs = KAFKAS_FIGURES[assignor][seed]
        if [ours[aim] for aim in aims] > [theirs[aim] for aim in aims]:
            found.append(seed)
    return found


@pytest.mark.parametrize("assignor", sorted(KAFKAS_FIGURES))
def test_no_plan_is_worse_than_kafkas(assignor: str) -> None:
    """Without `compatible` a plan of the first cases is as good as Kafka's; stateless tasks at any price of others."""
    assert worse(assignor, range(FEW)) == []


@pytest.mark.parity
@pytest.mark.extended
@pytest.mark.parametrize("assignor", sorted(KAFKAS_FIGURES))
def test_the_plans_that_are_worse_than_kafkas_are_counted(assignor: str) -> None:
    """In all other cases ours are as good or better, and the page says in how many they are not."""
    assert worse(assignor, range(FEW, len(KAFKAS_FIGURES[assignor]))) == WORSE[assignor]


@pytest.mark.parametrize("assignor", sorted(KAFKAS_FIGURES))
def test_the_page_says_how_many_plans_are_worse(assignor: str) -> None:
    """It is read by people who compare."""
    page = (Path(__file__).parents[2] / "docs" / "streams-differences.md").read_text(encoding="utf-8")
    (row,) = re.findall(rf"^\| `{assignor}` \|(.*)\|$", page, re.MULTILINE)
    assert [int(cell) for cell in row.split("|")][1] == len(WORSE[assignor])
