"""Texts for each change: what it is, why it saves and what to do."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from samerack.common import words
from samerack.pipeline.whatif_group import COPIES, LEAD, MOVE, NEAR, NEAR_LEAD, SKEW, STRATEGY, Questions
from samerack.settings.cures import command

_BROKERS: Final = "HOST:PORT"
_SELECTOR: Final = "replica.selector.class=org.apache.kafka.common.replica.RackAwareReplicaSelector"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One change of one group, or of one topic that several groups read.

    Attributes:
        group: its group; for copies of a topic, one of the groups.
        topic: the topic that gets copies, or "".
        groups: how many groups it concerns.
        saves_dollars: a month, after its own cost.
        copying_dollars: that cost.
        rack_aware_fetch: whether brokers serve from the reader's rack.
        members_without_rack: members that fetch without a rack.
        share: cross-rack share of the reads after the change.
        moves: partitions that change their owner.
    """

    scenario: str
    cluster: str
    group: str
    topic: str
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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Words:
    title: str
    why: Callable[[Change], str]
    cure: Callable[[Change, Questions], str]


def title(scenario: str) -> str:
    """Return the change in a few words, the same for all groups."""
    return _OF[scenario].title


def why(change: Change) -> str:
    """Return why it saves."""
    return _OF[change.scenario].why(change)


def cure(change: Change, questions: Questions) -> str:
    """Return what to do."""
    return _OF[change.scenario].cure(change, questions)


def _left(change: Change) -> str:
    return f"{words.percent(change.share)} would cross racks then"


def _lead_why(change: Change) -> str:
    if change.kind == "consumer":
        return f"brokers assign it (KIP-848) without regard to racks; {_left(change)}"
    return f"{change.assignor or 'its assignor'} knows neither bytes nor leaders' racks; {_left(change)}"


def _lead_cure(change: Change, _questions: Questions) -> str:
    show = command("plan", group=change.group, bootstrap=_BROKERS)
    lead = f"name {change.group} in the agent's groups ({show} with brokers of {change.cluster} shows it first)"
    return f"group.protocol=classic in its members, then {lead}" if change.kind == "consumer" else lead


def _strategy_why(change: Change) -> str:
    return f"its strategy leaves tasks in other racks than their data; {_left(change)}"


def _strategy_cure(change: Change, _questions: Questions) -> str:
    show = command("streams plan", "--group", change.group, bootstrap=_BROKERS)
    return (
        f"client.rack and rack.aware.assignment.strategy=min_traffic in its instances ({show} with brokers of "
        f"{change.cluster} shows it first)"
    )


def _skew_cure(change: Change, questions: Questions) -> str:
    uneven = f"leading.max_skew={questions.max_skew}"
    return f"leading.keep_copartitioned=never and {uneven}" if change.assignor == "range" else uneven


def _near_why(change: Change) -> str:
    reasons = []
    if change.members_without_rack:
        reasons.append(f"{change.members_without_rack} of {change.members} members fetch without a rack")
    if not change.rack_aware_fetch:
        reasons.append("brokers serve from leaders only")
    return f"{' and '.join(reasons)}; {_left(change)}"


def _near_cure(change: Change, _questions: Questions) -> str:
    steps = []
    if change.members_without_rack:
        steps.append("client.rack in its members")
    if not change.rack_aware_fetch:
        steps.append(f"{_SELECTOR} on the brokers of {change.cluster}")
    return " and ".join(steps)


def _near_lead_cure(change: Change, questions: Questions) -> str:
    return f"{_near_cure(change, questions)}; then {_lead_cure(change, questions)}"


def _copies_why(change: Change) -> str:
    readers = f"{change.groups} groups read it" if change.groups > 1 else "its readers are far from it"
    return f"{readers}; fetching the copies costs {words.money(change.copying_dollars)}, taken off"


def _move_cure(change: Change, questions: Questions) -> str:
    if not questions.shares:
        return f"spread the members of {change.group} evenly over the racks"
    whole = sum(questions.shares.values())
    shares = ", ".join(f"{rack} {words.percent(part / whole)}" for rack, part in questions.shares.items())
    return f"run the members of {change.group} in {shares}"


_OF: Final[Mapping[str, _Words]] = MappingProxyType(
    {
        LEAD: _Words(title="let the agent lead", why=_lead_why, cure=_lead_cure),
        STRATEGY: _Words(title="place Streams tasks by racks", why=_strategy_why, cure=_strategy_cure),
        SKEW: _Words(
            title="let members have unequal shares",
            why=lambda change: f"an even deal cannot be near for all; {_left(change)}",
            cure=_skew_cure,
        ),
        NEAR: _Words(title="fetch from the nearest replica", why=_near_why, cure=_near_cure),
        NEAR_LEAD: _Words(title="let the agent lead, where all fetch near", why=_lead_why, cure=_near_lead_cure),
        COPIES: _Words(
            title="keep copies in more racks",
            why=_copies_why,
            cure=lambda change, questions: (
                f"raise {change.topic} to replicas in {questions.copies} racks, where all read near"
            ),
        ),
        MOVE: _Words(
            title="run members in other racks",
            why=lambda change: f"there are too few members where the data is; {_left(change)}",
            cure=_move_cure,
        ),
    }
)
