"""docs/clients.md is made from a run's document, and a run's facts on groups come from their members' lines."""

from __future__ import annotations

import json
from collections.abc import Iterable
from math import inf

from sandbox.clients.births import first_assignment
from sandbox.clients.model import CLIENTS, Births, Course, Document, Step, as_json, from_json, merged, variants
from sandbox.clients.page import SCENARIOS, render
from sandbox.members.foreign import FOREIGN_CLIENTS
from sandbox.members.process import PYTHON_CLIENTS, Event
from tests.docs import ROOT


def _event(kind: str, seconds: float, member: str, numbers: Iterable[int] = ()) -> Event:
    partitions = frozenset(("clicks", number) for number in numbers)
    return Event(kind=kind, ms=0, ns=round(seconds * 1e9), partitions=partitions, member=member)


BORN = [_event("started", 1.0, "a"), _event("started", 1.5, "b"), _event("assigned", 4.0, "a", (0, 1))]
BIRTHS = Births(
    client="java",
    assignor="",
    members=3,
    tries=20,
    led=20,
    with_seconds=6.1,
    without_seconds=6.2,
    late_seconds=0.4,
    early_seconds=0.6,
)
COURSE = Course(
    client="kafkajs",
    assignor="",
    steps=(Step(name="enter", outcome="observing", seconds=3.0, pause_seconds=0.2, reason="its leader"),),
    records=100,
    read_twice=0,
)


def test_a_group_has_begun_when_every_partition_has_an_owner() -> None:
    """The time counts from the first member's start; a partition that is revoked meanwhile has no owner."""
    assert first_assignment(BORN, 2) == 3.0
    assert first_assignment(BORN, 3) == inf
    assert first_assignment([*BORN, _event("assigned", 4.5, "b", (2,))], 3) == 3.5
    revoked = [*BORN, _event("revoked", 4.2, "a", (1,)), _event("assigned", 4.5, "b", (2,))]
    assert first_assignment(revoked, 3) == inf
    assert first_assignment([*revoked, _event("assigned", 5.0, "b", (1,))], 3) == 4.0


def test_there_is_a_member_for_every_client() -> None:
    """Java, Python and foreign clients are included, each with its default and at most one other assignor."""
    assert set(CLIENTS) == {"java", *PYTHON_CLIENTS, *FOREIGN_CLIENTS}
    assert len(variants(CLIENTS)) == len(CLIENTS) + sum(len(more) for _, _, more in CLIENTS.values())


def test_a_document_is_read_as_it_was_written() -> None:
    """A document survives the way through JSON."""
    document = Document(births=(BIRTHS,), courses=(COURSE,))
    assert from_json(json.loads(json.dumps(as_json(document)))) == document


def test_what_is_new_takes_the_place_of_what_was_known() -> None:
    """New results replace old ones; the rest stays, in the order of the clients."""
    other = Births(
        **{**as_json(Document(births=(BIRTHS,)))["births"][0], "client": "sarama", "findings": (), "logged": ()}
    )
    late = Births(
        **{**as_json(Document(births=(BIRTHS,)))["births"][0], "late_seconds": 1.3, "findings": (), "logged": ()}
    )
    whole = merged(Document(births=(other, BIRTHS)), Document(births=(late,), courses=(COURSE,)))
    assert whole == Document(births=(late, other), courses=(COURSE,))
    assert [complaint.split(",")[0] for complaint in whole.complaints] == ["java "]


def test_the_page_shows_what_was_found() -> None:
    """Each group has a row, with the agent's role after each scenario."""
    born = Births(
        **{**as_json(Document(births=(BIRTHS,)))["births"][0], "client": "kafkajs", "findings": (), "logged": ()}
    )
    large = Births(**{**as_json(Document(births=(BIRTHS,)))["births"][0], "members": 30, "findings": (), "logged": ()})
    page = render(Document(births=(born, large), courses=(COURSE,)))
    assert "Java 4.3, range, 30 members: 20/20, 6.1 (6.2)." in page
    assert "than 0.4 s." in page
    assert "| kafkajs, RoundRobinAssigner | 20/20, 6.1 (6.2) | - |" in page
    assert "*into the running group*: observes 1; *all stopped and back*: -. Records read twice: 0." in page
    assert all(column in page for column in SCENARIOS.values())


def test_the_page_of_the_documentation_is_that_of_its_document() -> None:
    """The page has no manual edits and names missing results; its document has no complaints."""
    document = from_json(json.loads((ROOT / "docs" / "clients.json").read_text(encoding="utf-8")))
    assert (ROOT / "docs" / "clients.md").read_text(encoding="utf-8") == render(document)
    assert document.complaints == []
