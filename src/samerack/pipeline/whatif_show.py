"""Shows the results of a what-if as tables on a terminal and as one JSON object."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich import box
from rich.console import Console, Group
from rich.table import Table

from samerack.common import words
from samerack.common.money import PriceTable
from samerack.pipeline.whatif_group import Questions
from samerack.pipeline.whatif_words import Change, cure, title, why


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """The present fleet: bytes a second and dollars a month; `possible_dollars` by leading and fetching near."""

    groups: int
    failed: int
    unmeasured: int
    read: float
    across: float
    unknown: float
    dollars: float
    possible_dollars: float


@dataclass(frozen=True, slots=True, kw_only=True)
class KindOfChange:
    """One kind of change over the fleet: number of places where it saves, groups concerned, dollars a month."""

    scenario: str
    places: int
    groups: int
    saves_dollars: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A group that could not be computed; the names are None where the record has none."""

    cluster: str | None
    group: str | None
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Everything that is shown: `ranking` and `failures` hold only the first ones, `totals` count all."""

    totals: Totals
    kinds: Sequence[KindOfChange]
    ranking: Sequence[Change]
    failures: Sequence[Failure]
    prices: PriceTable
    questions: Questions
    seconds: float


def to_json(answer: Answer) -> dict[str, Any]:
    """Return the answer as JSON values; each change with its reason and what to do."""
    return {
        "prices": answer.prices.title,
        "questions": asdict(answer.questions),
        "totals": asdict(answer.totals),
        "changes": [{**asdict(kind), "title": title(kind.scenario)} for kind in answer.kinds],
        "ranking": [
            {**asdict(change), "why": why(change), "do": cure(change, answer.questions)} for change in answer.ranking
        ],
        "failures": [asdict(failure) for failure in answer.failures],
        "seconds": round(answer.seconds, 3),
    }


def show(answer: Answer, console: Console) -> None:
    """Print the answer as two tables, with explanations."""
    console.print(_opening(answer), highlight=False, markup=False)
    if answer.kinds:
        console.print(Group(_kinds(answer), _ranking(answer)))
        console.print(
            "Leading, fetching near and other racks for members are alternatives of a group: their savings do not add "
            "up. Unequal shares come on top of leading; leading where all fetch near on top of fetching near, and "
            "copies on top of both.",
            highlight=False,
        )
    else:
        console.print("No change saves a cent a month.", highlight=False)
    for failure in answer.failures:
        name = words.plain(f"{failure.cluster or '?'}/{failure.group or '?'}")
        console.print(f"not worked out: {name}: {words.plain(failure.error)}", highlight=False, markup=False)


def _opening(answer: Answer) -> str:
    totals = answer.totals
    parts = [
        f"{totals.groups:,} groups read {words.rate(totals.read)}, {words.rate(totals.across)} of it across racks: "
        f"{words.money(totals.dollars)} a month ({answer.prices.title})"
    ]
    if totals.unknown:
        parts.append(
            f"the rack of {words.rate(totals.unknown)} is not known: where a change would make it known, what crosses "
            "now is taken to be 1 - 1/R of it"
        )
    if totals.unmeasured:
        parts.append(f"{totals.unmeasured} groups have no byte rates, so no price")
    if totals.failed:
        parts.append(f"{totals.failed} states could not be worked out")
    parts.append(
        f"leading and fetching near, whichever is better for a group or both, would save "
        f"{words.money(totals.possible_dollars)}"
    )
    return "\n".join(parts)


def _kinds(answer: Answer) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("change", overflow="fold")
    table.add_column("groups", justify="right")
    table.add_column("saves a month", justify="right", no_wrap=True)
    for kind in answer.kinds:
        table.add_row(title(kind.scenario), f"{kind.groups:,}", words.money(kind.saves_dollars))
    return table


def _ranking(answer: Answer) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("a month", justify="right", no_wrap=True)
    table.add_column("where", overflow="fold", min_width=12)
    table.add_column("why", overflow="fold", ratio=1)
    table.add_column("what to do", overflow="fold", ratio=1)
    for change in answer.ranking:
        table.add_row(
            words.money(change.saves_dollars),
            words.plain(f"{change.cluster}/{change.topic or change.group}"),
            words.plain(why(change)),
            words.plain(cure(change, answer.questions)),
        )
    return table
