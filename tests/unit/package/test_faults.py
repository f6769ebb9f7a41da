"""Each mistake that scripts/plant-faults plants still applies, and says what it is and which room must notice it."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.docs import ROOT

PATCHES = sorted((ROOT / "tests" / "faults").glob("*.patch"))


@pytest.mark.skipif(not (ROOT / ".git").exists() or shutil.which("git") is None, reason="not in a checkout")
@pytest.mark.parametrize("patch", PATCHES, ids=lambda path: path.stem)
def test_a_fault_can_be_planted(patch: Path) -> None:
    """The patch applies to the tree in git's index, which is also unchanged where this fault is planted now."""
    done = subprocess.run(
        ["git", "apply", "--check", "--cached", patch], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("patch", PATCHES, ids=lambda path: path.stem)
def test_a_fault_says_who_must_notice_it(patch: Path) -> None:
    """Before the first diff there is one sentence about the mistake, and the room."""
    head = patch.read_text(encoding="utf-8").partition("\ndiff --git ")[0]
    assert re.fullmatch(r"Fault: [^\n]+\.\nRoom: (unit|parity|chart|spark|live)\n", head)
