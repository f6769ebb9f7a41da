"""Writes docs/clients.md; the whole page comes from a run's document."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from lab.sandbox.clients.results import (
    CLIENTS,
    ENDS_WHEN_IT_REJOINS,
    Document,
    InitialRebalances,
    ScenarioRun,
    Step,
    Variant,
    variants,
)

SCENARIOS: Final[Mapping[str, str]] = {
    "initial": "from the first generation",
    "move": "replicas moved",
    "killed": "agent killed",
    "enter": "into the running group",
    "deploy": "deploy",
    "takeover": "clean takeover",
    "back": "all stopped and back",
}
"""Name of a step to its column."""
_INTRODUCTION: Final = """# What works with which client

Groups of real consumers on a three-rack Kafka 4.3 with a real agent, the clients' defaults and
`group.initial.rebalance.delay.ms` 3 s. `scripts/clients` plays it all; `scripts/clients --write` writes this page and
[its document](clients.json), which has every figure and the reason of each refusal. From what members say they read
and committed it is checked that nothing is skipped, owned twice in one generation, or read again below a commit.
"""
_SCENARIOS: Final = """
## Scenario by scenario

One group of three members goes through all of them, from left to right. *leads* and *follows* are the agent's role at
the end of it; *observes*: it stays out, and the group leads itself; after replicas moved it followed after so many
seconds. The last figure of a cell is the longest pause of a partition in seconds; in the deploy, of members restarted
in turn until the agent leads (after so many), a member's own absence is in it. *Agent killed* is one run each,
and 0.0 is no bound: where the agent's session ends between the heartbeats of two members, an eager group pauses for up
to one heartbeat interval, 3 s by default ([why](operating.md#stop-it-at-once)). Of members of segmentio/kafka-go that
end together one may stay in its group for 40 s, with an agent or without.
"""
_INITIAL_REBALANCES: Final = """
## From the first generation

The agent waits outside, and the members start: how many groups of how many it led from their first generation
(kafka-go's members join five seconds later, in generation 2), and the median of seconds until every partition had an
owner, in parentheses that of a group beside it without the agent. No group came later than the one beside it by more
than {late:.1f} s.
"""
_SEEN_ONCE: Final = """
## Seen once

In one series of November 2026 on Kafka 4.3, without a run since; `scripts/clients` does not play them:

- brod 4.6 (`protocol_name: range`): led from the first generation in 14 of 14. Nodes that halt right after they
  are stopped stayed in the group for their session in 3 of 11 stops, in 0 of 10 without the agent. It sends an
  instance id by default.
- ruby-kafka 1.5: led; waits for a second after an eviction
- kafka-node 5 (JoinGroup v0): nothing wrong
- @platformatic/kafka 2.12, `roundrobin`: no bursts of rebalances any more (1.35 had them); the agent leaves
  `cooperative-sticky` (2.12.1) to its leader, which counts it
  ([`assigned-without-topics`](operating.md#when-it-backs-off))
- kcat on librdkafka 2.0.2: the first assignment may come [one delay later](leading.md#in-a-group-only-with-consumers)
"""
_COUNTED: Final = ("enter", "back")
_MEMBERS: Final = 3
"""How many members the groups of the table have."""
_ROLES: Final = {"leading": "leads", "following": "follows", "observing": "observes"}


def render(document: Document) -> str:
    """Return the whole page."""
    parts = [_INTRODUCTION, _SCENARIOS, "\n", _scenario_table(document), _doubts(document.scenarios)]
    every = variants(CLIENTS)
    parts.append(_missing(every, document.scenarios))
    parts.append(_ending(document.scenarios))
    late = max((one.late_seconds for one in document.initial), default=0.0)
    parts += [
        _INITIAL_REBALANCES.format(late=max(0.0, late)),
        _large_groups(document.initial),
        _logged(document.initial),
    ]
    defaults = [one for one in every if not one.assignor]
    parts += [_missing(defaults, document.initial), _SEEN_ONCE]
    return "".join(parts)


def _missing(wanted: Iterable[Variant], found: Iterable[Variant]) -> str:
    """Return a line with the clients that the table above does not have yet."""
    known = {one.key for one in found}
    missing = [_named(one) for one in wanted if one.key not in known]
    return f"\nNot measured yet: {'; '.join(missing)}.\n" if missing else ""


def _ending(runs: Iterable[ScenarioRun]) -> str:
    """Return a line for each client that does not survive a rebalance."""
    reasons = ((one, ENDS_WHEN_IT_REJOINS.get(one.key, "")) for one in runs)
    return "".join(f"\n{_named(one)}: {reason}.\n" for one, reason in reasons if reason)


def _scenario_table(document: Document) -> str:
    first = {one.key: _led(one) for one in document.initial if one.members == _MEMBERS}
    rows = []
    for run in document.scenarios:
        steps = {step.name: step for step in run.steps}
        cells = [_CELLS[name](steps[name]) if name in steps else "-" for name in SCENARIOS]
        cells[0] = first.get(run.key, cells[0])
        shown = [cell for name, cell in zip(SCENARIOS, cells, strict=True) if name not in _COUNTED]
        rows.append((_named(run), *shown))
    heads = [title for name, title in SCENARIOS.items() if name not in _COUNTED]
    return _table(("client", *heads), rows) + _counted(document.scenarios)


def _counted(runs: Sequence[ScenarioRun]) -> str:
    """Return how often the agent had which role after scenarios in which it is nearly always the same."""
    found = []
    for name in _COUNTED:
        roles = Counter(_role(step) for run in runs for step in run.steps if step.name == name)
        found.append(f"*{SCENARIOS[name]}*: {', '.join(f'{role} {count}' for role, count in roles.items()) or '-'}")
    twice = sum(run.read_twice for run in runs)
    return f"\nIn the other scenarios {'; '.join(found)}. Records read twice: {twice}.\n"


def _role(step: Step) -> str:
    return _ROLES.get(step.outcome, step.outcome)


def _with_pause(words: Callable[[Step], str]) -> Callable[[Step], str]:
    return lambda step: f"{words(step)}, {step.pause_seconds:.1f}"


_CELLS: Final[Mapping[str, Callable[[Step], str]]] = {
    "initial": _role,
    "move": lambda step: f"{step.seconds:.1f}, {step.pause_seconds:.1f}",
    "killed": lambda step: f"{step.pause_seconds:.1f}" if step.outcome == "goes on" else step.outcome,
    "enter": _with_pause(_role),
    "deploy": _with_pause(lambda step: f"{_role(step)} {step.reason.removesuffix(' restarts')}".strip()),
    "takeover": lambda step: f"leads, {step.pause_seconds:.1f}" if step.outcome == "leads" else "refused",
    "back": _role,
}


def _led(one: InitialRebalances) -> str:
    return f"{one.led}/{one.tries}, {one.with_seconds:.1f} ({one.without_seconds:.1f})"


def _large_groups(first: Iterable[InitialRebalances]) -> str:
    """Return a line with the groups of other sizes than those in the table."""
    found = [f"{_named(one)}, {one.members} members: {_led(one)}" for one in first if one.members != _MEMBERS]
    return f"\n{'; '.join(found)}.\n" if found else ""


def _logged(first: Iterable[InitialRebalances]) -> str:
    """Return errors that clients log when the agent has their first JoinGroup answered; they rejoin by themselves."""
    found = sorted({(_named(one), message) for one in first for message in one.logged})
    if not found:
        return ""
    lines = "".join(f"- {name}: `{message}`\n" for name, message in found)
    return f"\nErrors that clients logged in the agent's groups only; they went on by themselves:\n\n{lines}"


def _doubts(runs: Sequence[ScenarioRun]) -> str:
    if not runs:
        return ""
    found = [f"- {_named(one)}: {finding}\n" for one in runs for finding in one.findings]
    if not found:
        return "\nNo record was skipped, owned twice or read again below a commit.\n"
    return f"\nWhat the checker found:\n\n{''.join(found)}"


def _named(one: Variant) -> str:
    name, default, _ = CLIENTS[one.client]
    return f"{name}, {one.assignor or default}"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)
