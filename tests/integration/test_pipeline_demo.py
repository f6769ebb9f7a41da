"""The demo's whole chain, from real members to a page, and its end by Ctrl-C."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

import psutil
import pytest

from samerack.common import words
from tests.docs import ROOT
from tests.integration.browser import Browser

_DEMO: Final = (sys.executable, "-m", "sandbox.demo_pipeline")
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


@pytest.mark.alone
@pytest.mark.timeout(120)
def test_ctrl_c_leaves_nothing_behind() -> None:
    """Interrupted while members run, the demo ends with exit code 130, and leaves no process and no folder."""
    before = set(Path(tempfile.gettempdir()).glob("samerack-demo-*"))
    demo = subprocess.Popen([*_DEMO], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=ROOT)
    with demo:
        assert demo.stdout is not None
        while "nine members" not in (line := demo.stdout.readline()):
            assert line, "the demo ended by itself"
        time.sleep(1)
        children = psutil.Process(demo.pid).children(recursive=True)
        demo.send_signal(signal.SIGINT)
        rest = demo.stdout.read()
    assert demo.returncode == 130, rest
    assert "interrupted" in rest
    assert len(children) > 5
    assert psutil.wait_procs(children, timeout=30)[1] == []
    assert set(Path(tempfile.gettempdir()).glob("samerack-demo-*")) == before
