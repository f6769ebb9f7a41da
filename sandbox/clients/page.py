"""Writes docs/clients.md; the whole page comes from a run's document."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final

from sandbox.clients.model import CLIENTS, ENDS_WHEN_IT_REJOINS, Births, Course, Document, Step, Variant, variants

SCENARIOS: Final[Mapping[str, str]] = {
    "birth": "from birth",
    "move": "replicas moved",
    "killed": "agent killed (-9)",
    "enter": "into the running group",
    "deploy": "deploy",
    "takeover": "clean takeover",
    "back": "all stopped and back",
}
"""Name of a step to its column."""
_INTRODUCTION: Final = """# What works with which client

You want to know what `samerack` does to groups of your client. Each row below is a group of real consumers on a
three-rack Kafka 4.3 of one machine, with Kafka's default `group.initial.rebalance.delay.ms` (3 s), the clients' own
defaults and a real agent. `scripts/clients` plays it all; with `--write` it writes this page and
[its document](clients.json). The programs are in `tests/clients` and `sandbox/members`. CI plays a short form with
Java 3.4 and 2.8, franz-go, sarama, kafka-go and kafkajs.

The continuity of every partition is checked from what the members themselves say they read and committed: nothing may
be skipped, owned twice in one generation, or read again below a commit. The longest pause is the longest time in
which some partition had records that nobody read; in a deploy that includes the time in which a member is gone.
"""
_COURSES: Final = """
## Scenario by scenario

One group of three members goes through all of them, from left to right. *leading* and *following* are the agent's role
at the end of it; *observing* means that it stays out of the group, which leads itself. In the deploy each member is
restarted in turn, three times at most; the number is that of restarts until the agent led. Of members of
segmentio/kafka-go that end at the same moment, one may stay in its group for 40 s, with an agent or without (one of
five groups without).
"""
_BIRTHS: Final = """
## From birth

The agent waits outside; the group's members start, and beside it another group's of the same kind, which the agent has
nothing to do with. *Led* counts the groups whose first generation the agent led; members of segmentio/kafka-go pause
for five seconds before they join again, so that it leads generation 1 alone and theirs is generation 2. The times are
those from the first member's start until every partition had an owner, median of all tries; the last two columns say by
how much a group came after the one beside it, and before it, at most: on a busy machine two groups that start together
differ.
"""
_REFUSED: Final = """
## What is refused, and why
"""


def render(document: Document) -> str:
    """Returns the whole page."""
    parts = [_INTRODUCTION, _COURSES, "\n", _course_table(document.courses), _doubts(document.courses)]
    every = variants(CLIENTS)
    parts.append(_missing(every, {(one.client, one.assignor) for one in document.courses}))
    parts.append(_ending(document.courses))
    parts += [_BIRTHS, "\n", _birth_table(document.births), _logged(document.births)]
    defaults = [one for one in every if not one.assignor]
    parts.append(_missing(defaults, {(one.client, one.assignor) for one in document.births}))
    if reasons := list(_reasons(document.courses)):
        parts += [_REFUSED, "\n", _table(("client", "scenario", "reason"), reasons)]
    return "".join(parts)


def _missing(wanted: Iterable[Variant], known: AbstractSet[tuple[str, str]]) -> str:
    """Returns a line with the clients that the table above does not have yet."""
    found = [_named(one.client, one.assignor) for one in wanted if (one.client, one.assignor) not in known]
    return f"\nNot measured yet: {'; '.join(found)}.\n" if found else ""


def _ending(courses: Iterable[Course]) -> str:
    """Returns a line for each client that does not survive a rebalance."""
    reasons = ((one, ENDS_WHEN_IT_REJOINS.get((one.client, one.assignor), "")) for one in courses)
    return "".join(f"\n{_named(one.client, one.assignor)}: {reason}.\n" for one, reason in reasons if reason)


def _course_table(courses: Sequence[Course]) -> str:
    rows = []
    for course in courses:
        steps = {step.name: step for step in course.steps}
        cells = [_CELLS[name](steps[name]) if name in steps else "-" for name in SCENARIOS]
        rows.append((f"{_named(course.client, course.assignor)}", *cells, str(course.read_twice)))
    return _table(("client", *SCENARIOS.values(), "records read twice"), rows)


def _with_pause(words: Callable[[Step], str]) -> Callable[[Step], str]:
    return lambda step: f"{words(step)}, pause {step.pause_seconds:.1f} s"


def _deployed(step: Step) -> str:
    return f"{step.outcome} {step.reason}".strip()


_CELLS: Final[Mapping[str, Callable[[Step], str]]] = {
    "birth": lambda step: f"{step.outcome}{', ' + step.reason if step.reason else ''}",
    "move": _with_pause(lambda step: f"{step.outcome} after {step.seconds:.1f} s"),
    "killed": _with_pause(lambda step: step.outcome),
    "enter": _with_pause(lambda step: step.outcome),
    "deploy": _with_pause(_deployed),
    "takeover": lambda step: f"leads, pause {step.pause_seconds:.1f} s" if step.outcome == "leads" else "refused",
    "back": lambda step: f"{step.outcome}; {step.reason}",
}


def _birth_table(births: Iterable[Births]) -> str:
    rows = [
        (
            _named(one.client, one.assignor),
            str(one.members),
            f"{one.led} of {one.tries}",
            f"{one.with_seconds:.1f} s",
            f"{one.without_seconds:.1f} s",
            f"{max(0.0, one.late_seconds):.1f} s",
            f"{max(0.0, one.early_seconds):.1f} s",
        )
        for one in births
    ]
    return _table(("client", "members", "led", "with the agent", "without", "later, at most", "earlier, at most"), rows)


def _logged(births: Iterable[Births]) -> str:
    """Returns errors that clients log when the agent has their first JoinGroup answered; they rejoin by themselves."""
    found = sorted({(_named(one.client, one.assignor), message) for one in births for message in one.logged})
    if not found:
        return ""
    lines = "".join(f"- {name}: `{message}`\n" for name, message in found)
    return f"\nErrors that clients logged in the agent's groups only; they went on by themselves:\n\n{lines}"


def _reasons(courses: Iterable[Course]) -> Iterable[tuple[str, str, str]]:
    for course in courses:
        for step in course.steps:
            if step.outcome in {"refused", "observing"} and step.reason and step.name in {"enter", "takeover"}:
                yield _named(course.client, course.assignor), SCENARIOS[step.name], step.reason


def _doubts(courses: Sequence[Course]) -> str:
    if not courses:
        return ""
    found = [f"- {_named(one.client, one.assignor)}: {finding}\n" for one in courses for finding in one.findings]
    if not found:
        return "\nNo record was skipped, owned twice or read again below a commit.\n"
    return f"\nWhat the checker found:\n\n{''.join(found)}"


def _named(client: str, assignor: str) -> str:
    name, default, _ = CLIENTS[client]
    return f"{name}, {assignor or default}"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)
