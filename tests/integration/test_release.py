"""`scripts/release` as a whole: it proves what it made, and makes the same again."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.docs import ROOT

pytestmark = pytest.mark.alone


@pytest.mark.timeout(3600)
def test_two_releases_of_a_commit_have_the_same_bytes(tmp_path: Path) -> None:
    """A trial makes, installs and runs each kind of artefact; made once more in another folder, all sums are equal."""
    sums = []
    for name in ("first", "second"):
        line = ["scripts/release", "0.2.0", "--dry-run", "--to", str(tmp_path / name)]
        done = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        proved = [line for line in done.stderr.splitlines() if "proved: " in line]
        for artefact in ("SHA256SUMS", ".whl", ".tar.gz", "-broker-", "-streams-", ".tgz", "-image-"):
            assert any(artefact in line for line in proved), (artefact, proved)
        sums.append((tmp_path / name / "SHA256SUMS").read_text(encoding="utf-8"))
    assert sums[0] == sums[1]
