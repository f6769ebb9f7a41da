"""docs/clients.md is made from a run's document, and a run's facts on groups come from their members' lines."""

from __future__ import annotations

import json
from collections.abc import Iterable
from math import inf

from sandbox.clients.births import first_assignment
from sandbox.clients.model import CLIENTS, from_json, variants
from sandbox.clients.page import render
from sandbox.members.foreign import FOREIGN_CLIENTS
from sandbox.members.process import PYTHON_CLIENTS, Event
from tests.docs import ROOT


def _event(kind: str, seconds: float, member: str, numbers: Iterable[int] = ()) -> Event:
    partitions = frozenset(("clicks", number) for number in numbers)
    return Event(kind=kind, ms=0, ns=round(seconds * 1e9), partitions=partitions, member=member)


BORN = [_event("started", 1.0, "a"), _event("started", 1.5, "b"), _event("assigned", 4.0, "a", (0, 1))]


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


def test_the_page_of_the_documentation_is_that_of_its_document() -> None:
    """The page has no manual edits and names missing results; its document has no complaints."""
    document = from_json(json.loads((ROOT / "docs" / "clients.json").read_text(encoding="utf-8")))
    assert (ROOT / "docs" / "clients.md").read_text(encoding="utf-8") == render(document)
    assert document.complaints == []
