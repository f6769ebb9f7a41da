"""docs/clients.md is made from the document of a run of scripts/clients, which has no complaint."""

from __future__ import annotations

import json

from sandbox.clients.model import from_json
from sandbox.clients.page import render
from tests.docs import ROOT


def test_the_page_is_that_of_its_document() -> None:
    """The page has no manual edits and names missing results."""
    document = from_json(json.loads((ROOT / "docs" / "clients.json").read_text(encoding="utf-8")))
    assert (ROOT / "docs" / "clients.md").read_text(encoding="utf-8") == render(document)
    assert document.complaints == []
