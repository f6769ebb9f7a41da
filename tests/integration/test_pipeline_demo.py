"""The demo's whole chain, from real members to a page."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from samerack.common import words
from tests.docs import ROOT
from tests.integration.browser import Browser

_DEMO: Final = (sys.executable, "-m", "lab.sandbox.demo_pipeline")
_TEXTS: Final = "return document.querySelector('main').innerText"


@pytest.mark.alone
@pytest.mark.timeout(920)
def test_agents_kafka_stream_and_report(tmp_path: Path) -> None:
    """`scripts/demo --pipeline` writes a page; it has the numbers of the JSON output, and makes no request."""
    page = tmp_path / "report.html"
    done = subprocess.run(
        [*_DEMO, "--json", "--output", str(page)], capture_output=True, text=True, timeout=900, cwd=ROOT, check=False
    )
    assert done.returncode == 0, done.stderr
    shown = json.loads(done.stdout.splitlines()[-1])
    assert shown["report"] == str(page)
    assert (shown["groups"], shown["led_groups"]) == (2, 1)
    assert 0 < shown["crossing_bytes"] < shown["bytes"]
    assert 0 < shown["led"] < 1
    assert shown["saved_bytes"] > 0
    assert shown["possible_bytes"] > 0
    with Browser() as browser:
        browser.open(page.as_uri())
        text = browser.run(_TEXTS)
        assert words.size(shown["crossing_bytes"]) in text
        assert words.percent(shown["share"]) in text
        assert "1 of 2 groups led by an agent" in text
        assert {"orders-service", "reports", "clicks"} <= set(text.split())
        assert browser.run("return performance.getEntriesByType('resource').length") == 0
        assert browser.complaints() == []
