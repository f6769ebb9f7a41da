"""docs/clients.md is made from the document of a run of scripts/clients, which has no complaint."""

from __future__ import annotations

from lab.sandbox.clients.page import render
from lab.sandbox.clients.results import DOCUMENTS
from tests.docs import ROOT


def test_the_page_is_that_of_its_document() -> None:
    """The page has no manual edits and names missing results."""
    document = DOCUMENTS.validate_json((ROOT / "docs" / "clients.json").read_bytes())
    assert (ROOT / "docs" / "clients.md").read_text(encoding="utf-8") == render(document)
    assert document.complaints == []


def test_a_pause_that_was_measured_is_no_bound() -> None:
    """Beside a column of zeros the page says for how long a group may pause when the agent is killed, and why."""
    text = " ".join(render(DOCUMENTS.validate_json((ROOT / "docs" / "clients.json").read_bytes())).split())
    assert "0.0 is no bound" in text
    assert "up to one heartbeat interval, 3 s by default ([why](operating.md#stop-it-at-once))" in text
