"""The first five minutes: the README's first commands, on a machine that has Python and nothing else of ours."""

from __future__ import annotations

import os
import re
import shlex
import time
from typing import Final

import pytest

from tests.docs import ROOT
from tests.integration.pods import Pods, execute
from tests.integration.scene import INTERLEAVED, A, B, C, Scene

_IMAGE: Final = os.environ.get("SANDBOX_PYTHON_IMAGE", "")
"""Its pip has the packages and looks nowhere else."""


def block(heading: str) -> list[str]:
    """The commands below a heading of the README."""
    text = (ROOT / "README.md").read_text(encoding="utf-8").partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return [line.strip() for line in re.findall(r"^ {4}(.*)$", text, re.MULTILINE)]


@pytest.mark.timeout(240)
def test_the_readme_leads_from_nothing_to_a_price(pods: Pods, scene: Scene) -> None:
    """Installed as it says, `verify` shows what a group could save, in dollars, and joins nothing."""
    scene.lay_out(INTERLEAVED)
    for client, rack in (("confluent", A), ("kafka-python", B), ("aiokafka", C)):
        scene.join(client, rack)
    scene.wait_settled()
    before = scene.rebalances()
    machine = pods.start(
        "machine",
        image=_IMAGE,
        entrypoint=["sleep", "600"],
        command=[],
        read_only=False,
        user="0",
        cap_drop=[],
        # the system's Python is its own environment there; a user of Debian makes another one
        environment={"PIP_BREAK_SYSTEM_PACKAGES": "1", "PIP_ROOT_USER_ACTION": "ignore", "COLUMNS": "100"},
        mounts=[{"Type": "bind", "Source": str(ROOT), "Target": "/checkout", "ReadOnly": True}],
        working_dir="/checkout",
    )
    (install,) = block("Install")
    code, said = execute(machine, *shlex.split(install))
    assert code == 0, said
    verify = next(line for line in block("See what your cluster costs") if line.startswith("samerack verify"))
    started = time.monotonic()
    code, said = execute(machine, *shlex.split(verify.replace("127.0.0.1:9092", pods.bootstrap), comments=True))
    assert (code, scene.group in said) == (1, True), said
    assert re.search(r"\$\s?\d", said), said
    print(f"findings after {time.monotonic() - started:.0f} s:\n{said}")  # noqa: T201 - pytest -rP shows it
    assert scene.rebalances() == before
    scene.finish()
