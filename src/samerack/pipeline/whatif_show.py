"""Shows the results of a what-if as tables and as one JSON object: each change, why it saves and what to do."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from rich import box
from rich.table import Table

from samerack.common import words
from samerack.common.console import Console
from samerack.common.money import PriceTable
from samerack.pipeline.whatif_group import (
    COPIES,
    ELECT,
    LEAD,
    MOVE,
    NEAR,
    NEAR_LEAD,
    RACK,
    SKEW,
    STRATEGY,
    Questions,
)
from samerack.settings.cures import command
from samerack.settings.protocols import unsound

_BROKERS: Final = "HOST:PORT"
_SELECTOR: Final = "replica.selector.class=org.apache.kafka.common.replica.RackAwareReplicaSelector"


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIfChange:
    """One change of one group, or of one topic that several groups read.

    Attributes:
        group: its group; for copies of a topic, one of the groups.
        topic: the topic that gets copies, or "".
        reference: the scenario that it comes on top of.
        groups: how many groups it concerns.
        saves_dollars: a month, after its own cost.
        copying_dollars: that cost.
        rack_aware_fetch: whether brokers serve from the reader's rack.
        members_without_rack: members that fetch without a rack.
        share: cross-rack share of the reads after the change.
        moves: partitions that change their owner.
        placed: members by rack, where they are to run in other racks, or "".
    """

    scenario: str
    cluster: str
    group: str
    topic: str
    reference: str
    groups: int
    saves_dollars: float
    copying_dollars: float
    kind: str
    assignor: str
    rack_aware_fetch: bool | None
    members: int
    members_without_rack: int
    share: float
    moves: int
    placed: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Texts:
    """A kind of change in words.

    Attributes:
        title: the change, the same for all groups.
        why: returns why it saves.
        cure: returns what to do.
    """

    title: str
    why: Callable[[WhatIfChange], str]
    cure: Callable[[WhatIfChange, Questions], str]


def _left(change: WhatIfChange) -> str:
    return f"{words.percent(change.share)} would cross racks then"


def _lead_why(change: WhatIfChange) -> str:
    if change.kind == "consumer":
        return f"brokers assign it (KIP-848) without regard to racks; {_left(change)}"
    return f"{change.assignor or 'its assignor'} knows neither bytes nor leaders' racks; {_left(change)}"


def _lead_cure(change: WhatIfChange, _questions: Questions) -> str:
    show = command("plan", group=change.group, bootstrap=_BROKERS)
    lead = f"name {change.group} in the agent's groups ({show} with brokers of {change.cluster} shows it first)"
    if change.kind == "consumer":
        return f"group.protocol=classic in its members, then {lead}"
    return f"{lead}; then stop all its consumers and start them again" if unsound(change.assignor) else lead


def _strategy_why(change: WhatIfChange) -> str:
    return f"its strategy leaves tasks in other racks than their data; {_left(change)}"


def _strategy_cure(change: WhatIfChange, _questions: Questions) -> str:
    show = command("streams plan", "--group", change.group, bootstrap=_BROKERS)
    return (
        f"client.rack and rack.aware.assignment.strategy=min_traffic in its instances ({show} with brokers of "
        f"{change.cluster} shows it first)"
    )


def _skew_cure(change: WhatIfChange, questions: Questions) -> str:
    uneven = f"leading.max_skew={questions.max_skew}"
    return f"leading.keep_copartitioned=never and {uneven}" if change.assignor == "range" else uneven


def _near_why(change: WhatIfChange) -> str:
    reasons = []
    if change.members_without_rack:
        reasons.append(f"{change.members_without_rack} of {change.members} members fetch without a rack")
    if not change.rack_aware_fetch:
        reasons.append("brokers serve from leaders only")
    return f"{' and '.join(reasons)}; {_left(change)}"


def _near_cure(change: WhatIfChange, _questions: Questions) -> str:
    steps = []
    if change.members_without_rack:
        steps.append("client.rack in its members")
    if not change.rack_aware_fetch:
        steps.append(f"{_SELECTOR} on the brokers of {change.cluster}")
    return " and ".join(steps)


def _copies_why(change: WhatIfChange) -> str:
    readers = f"{change.groups} groups read it" if change.groups > 1 else "its readers are far from it"
    return f"{readers}; fetching the copies costs {words.money(change.copying_dollars)}, taken off"


def _move_cure(change: WhatIfChange, _questions: Questions) -> str:
    return f"run the members of {change.group} in {change.placed}"


TEXTS: Final[Mapping[str, Texts]] = {
    LEAD: Texts(title="let the agent lead", why=_lead_why, cure=_lead_cure),
    STRATEGY: Texts(title="place Streams tasks by racks", why=_strategy_why, cure=_strategy_cure),
    SKEW: Texts(
        title="let members have unequal shares",
        why=lambda change: f"an even deal cannot be near for all; {_left(change)}",
        cure=_skew_cure,
    ),
    NEAR: Texts(title="fetch from the nearest replica", why=_near_why, cure=_near_cure),
    NEAR_LEAD: Texts(title="let the agent lead, where all fetch near", why=_lead_why, cure=_lead_cure),
    COPIES: Texts(
        title="keep copies in more racks",
        why=_copies_why,
        cure=lambda change, questions: (
            f"raise {change.topic} to replicas in {questions.copies} racks, where all read near"
        ),
    ),
    MOVE: Texts(
        title="run members in other racks",
        why=lambda change: f"there are too few members where the data is; {_left(change)}",
        cure=_move_cure,
    ),
    ELECT: Texts(
        title="spread leaders evenly over racks",
        why=lambda change: f"members read from leaders, and some racks lead more than others; {_left(change)}",
        cure=lambda change, _questions: (
            f"reorder the replicas of its topics on brokers of {change.cluster} so that each rack leads as many "
            "partitions, then elect preferred leaders"
        ),
    ),
    RACK: Texts(
        title="add a rack",
        why=lambda change: f"replicas and members are spread over one rack more; {_left(change)}",
        cure=lambda change, _questions: f"run the members of {change.group} in {change.placed}",
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIfTotals:
    """The present fleet: bytes a second and dollars a month; `possible_dollars` by leading and fetching near.

    `left_out` are groups whose states are too old.
    """

    groups: int
    failed: int
    unmeasured: int
    read: float
    across: float
    unknown: float
    dollars: float
    possible_dollars: float
    left_out: int


@dataclass(frozen=True, slots=True, kw_only=True)
class KindOfChange:
    """One kind of change over the fleet: places where it saves, groups concerned, dollars a month.

    Of a new rack and other leaders, places and groups where it costs more count too.
    """

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
class WhatIf:
    """Everything that is shown: `ranking` and `failures` hold only the first ones, `totals` count all."""

    totals: WhatIfTotals
    kinds: Sequence[KindOfChange]
    ranking: Sequence[WhatIfChange]
    failures: Sequence[Failure]
    prices: PriceTable
    questions: Questions
    seconds: float


def _explained(change: WhatIfChange, questions: Questions) -> dict[str, str]:
    """Return why a change saves, and what to do: first what it comes on top of."""
    texts, first = TEXTS[change.scenario], TEXTS.get(change.reference)
    steps = [first.cure(change, questions)] if first and change.scenario != COPIES else []
    return {"why": texts.why(change), "do": "; then ".join([*steps, texts.cure(change, questions)])}


def to_json(answer: WhatIf) -> dict[str, Any]:
    """Return the answer as JSON values; each change with its reason and what to do."""
    return {
        "prices": answer.prices.title,
        "questions": asdict(answer.questions),
        "totals": asdict(answer.totals),
        "changes": [{**asdict(kind), "title": TEXTS[kind.scenario].title} for kind in answer.kinds],
        "ranking": [asdict(change) | _explained(change, answer.questions) for change in answer.ranking],
        "failures": [asdict(failure) for failure in answer.failures],
        "seconds": round(answer.seconds, 3),
    }


def show(answer: WhatIf, console: Console) -> None:
    """Print the answer as two tables, with explanations."""
    console.print(_opening(answer))
    if answer.kinds:
        console.print(_kinds(answer))
    if answer.ranking:
        console.print(_ranking(answer))
        console.print(
            "Leading and fetching near are alternatives of a group, and so are unequal shares, other racks for members "
            "or leaders, and a new rack: their savings do not add up. What has to be done first is named first, and "
            "its own saving is not in the figure."
        )
    else:
        console.print("No change saves a cent a month.")
    for failure in answer.failures:
        name = words.plain(f"{failure.cluster or '?'}/{failure.group or '?'}")
        console.print(f"not worked out: {name}: {words.plain(failure.error)}")


def _opening(answer: WhatIf) -> str:
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
    if totals.left_out:
        parts.append(f"{totals.left_out} groups are left out: their last state is too old (--since)")
    if totals.failed:
        parts.append(f"{totals.failed} states could not be worked out")
    parts.append(
        f"leading and fetching near, whichever is better for a group or both, would save "
        f"{words.money(totals.possible_dollars)}"
    )
    return "\n".join(parts)


def _kinds(answer: WhatIf) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("change", overflow="fold")
    table.add_column("groups", justify="right")
    table.add_column("saves a month", justify="right", no_wrap=True)
    for kind in answer.kinds:
        table.add_row(TEXTS[kind.scenario].title, f"{kind.groups:,}", words.money(kind.saves_dollars))
    return table


def _ranking(answer: WhatIf) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("a month", justify="right", no_wrap=True)
    table.add_column("where", overflow="fold", min_width=12)
    table.add_column("why", overflow="fold", ratio=1)
    table.add_column("what to do", overflow="fold", ratio=1)
    for change in answer.ranking:
        table.add_row(
            words.money(change.saves_dollars),
            words.plain(f"{change.cluster}/{change.topic or change.group}"),
            *map(words.plain, _explained(change, answer.questions).values()),
        )
    return table
