"""The data: the clients, and the results of a run for each; also as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from pydantic import TypeAdapter

SLACK_SECONDS: Final = 1.0
"""How much later than in the comparison group without an agent a group's first assignment may come."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """A client with one of its assignors."""

    client: str  # a key of `CLIENTS`
    assignor: str = ""  # empty leaves the client's default

    @property
    def name(self) -> str:
        """Its name in groups and files."""
        return f"{self.client}-{self.assignor or 'default'}"

    @property
    def key(self) -> tuple[str, str]:
        """Client and assignor, which identify it."""
        return self.client, self.assignor

    @property
    def place(self) -> tuple[int, bool]:
        """Its place among others: in the order of `CLIENTS`, with the default assignor first."""
        return list(CLIENTS).index(self.client), bool(self.assignor)


CLIENTS: Final[Mapping[str, tuple[str, str, tuple[str, ...]]]] = {
    "java": ("Java 4.3", "range", ("cooperative-sticky",)),
    "java-3.4": ("Java 3.4", "range", ("cooperative-sticky",)),
    "java-2.8": ("Java 2.8", "range", ("sticky",)),
    "confluent": ("librdkafka", "range", ("cooperative-sticky",)),
    "confluent-2.13": ("librdkafka 2.13", "range", ()),
    "kafka-python": ("kafka-python 3", "range", ("cooperative-sticky",)),
    "kafka-python-2": ("kafka-python 2.0.2", "range", ("sticky",)),
    "aiokafka": ("aiokafka", "range", ("sticky",)),
    "franz-go": ("franz-go", "cooperative-sticky", ("sticky",)),
    "sarama": ("sarama", "range", ("sticky",)),
    "kafka-go": ("segmentio/kafka-go", "range", ()),
    "kafkajs": ("kafkajs", "RoundRobinAssigner", ()),
}
"""Client to its common name, the protocol of its default, and the further assignors that are tried."""


ENDS_WHEN_IT_REJOINS: Final[Mapping[tuple[str, str], str]] = {
    ("kafka-python-2", "sticky"): (
        "each member ends with a TypeError of its assignor when it joins for the second time, with an agent or without "
        "(kafka-python 2.0.2 cannot encode on Python 3 what it owns), so only the initial rebalance was played"
    ),
}
"""Client and assignor to why no group of these survives a rebalance."""


def variants(clients: Iterable[str]) -> list[Variant]:
    """Return each client with its default assignor, and with its further ones."""
    return [Variant(client=client, assignor=one) for client in clients for one in ("", *CLIENTS[client][2])]


@dataclass(frozen=True, slots=True, kw_only=True)
class InitialRebalances(Variant):
    """The result of groups that started while the agent waited, each with a comparison group without an agent.

    Led are those in which the agent led the first generation with another member: generation 1, or the next one where
    all members paused before they joined again. Seconds are medians from the first member's start until every partition
    had an owner; late is the longest delay of a group against its comparison group.
    """

    members: int  # of each group
    tries: int  # number of groups
    led: int
    with_seconds: float
    without_seconds: float
    late_seconds: float
    findings: tuple[str, ...] = ()  # of the history checker, and members that ended by themselves
    logged: tuple[str, ...] = ()  # errors that clients logged in the agent's groups, but not in the comparison groups

    @property
    def is_good(self) -> bool:
        """Whether every group was led, in time and without findings."""
        return self.led == self.tries and self.late_seconds <= SLACK_SECONDS and not self.findings


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One scenario of one group."""

    name: str  # a key of `lab.sandbox.clients.page.SCENARIOS`
    outcome: str  # the agent's role at the end, or a word
    seconds: float  # until the group had settled
    pause_seconds: float = -1.0  # the longest time that a partition with records was not read; -1: does not apply
    reason: str = ""  # why it was refused; or a detail


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioRun(Variant):
    """All scenarios of one group whose members are all on one client, in order."""

    steps: tuple[Step, ...]
    records: int  # written meanwhile
    read_twice: int
    findings: tuple[str, ...] = ()  # of the history checker: skipped, owned twice, read again below a commit


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """The results of a whole run."""

    initial: tuple[InitialRebalances, ...] = ()
    scenarios: tuple[ScenarioRun, ...] = ()

    @property
    def complaints(self) -> list[str]:
        """What was wrong, in words."""
        found = [
            f"{one.client} {one.assignor}, {one.members} members from the first generation: led {one.led} of "
            f"{one.tries}, {one.with_seconds:.1f} s beside {one.without_seconds:.1f} s, {one.late_seconds:.1f} s later "
            f"at most; {'; '.join(one.findings)}"
            for one in self.initial
            if not one.is_good
        ]
        for one in self.scenarios:
            found += [f"{one.client} {one.assignor}: {finding}" for finding in one.findings]
        return found


DOCUMENTS: Final = TypeAdapter(Document)
"""Documents as JSON."""


def merged(old: Document, new: Document) -> Document:
    """Return both documents merged, new results replacing old ones of the same client, in the order of `CLIENTS`."""
    initial = {(one.key, one.members): one for one in (*old.initial, *new.initial)}
    scenarios = {one.key: one for one in (*old.scenarios, *new.scenarios)}
    return Document(
        initial=tuple(sorted(initial.values(), key=lambda one: (one.members, one.place))),
        scenarios=tuple(sorted(scenarios.values(), key=lambda one: one.place)),
    )
