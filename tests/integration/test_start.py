"""The first five minutes: the README's first commands, on a machine that has Python and nothing else of ours."""

from __future__ import annotations

import os
import re
import shutil
import time
from pathlib import Path
from typing import Any, Final

import pytest

from tests.docs import ROOT
from tests.integration.pods import Pods, execute
from tests.integration.scenario import INTERLEAVED, A, B, C, Scenario

_IMAGE: Final = os.environ.get("SANDBOX_PYTHON_IMAGE", "")
"""Its pip has the packages and looks nowhere else."""
_HOME: Final = "/home/reader"


def block(heading: str) -> list[str]:
    """The commands below a heading of the README."""
    text = (ROOT / "README.md").read_text(encoding="utf-8").partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return [line.strip() for line in re.findall(r"^ {4}(.*)$", text, re.MULTILINE)]


def machine(pods: Pods, name: str, home: Path, *mounts: dict[str, Any], folder: str = _HOME) -> Any:
    """A machine with Python and the home of its only user, who is not root."""
    home.mkdir()
    return pods.start(
        name,
        image=_IMAGE,
        entrypoint=["sleep", "600"],
        command=[],
        read_only=False,
        user=f"{os.getuid()}:{os.getgid()}",
        environment={"HOME": _HOME, "COLUMNS": "400"},
        mounts=[{"Type": "bind", "Source": str(home), "Target": _HOME}, *mounts],
        working_dir=folder,
    )


def done(container: Any, *lines: str) -> str:
    """What lines print in a shell that ends at the first error."""
    code, output = execute(container, "sh", "-ec", "\n".join(lines))
    assert code == 0, output
    return output


@pytest.mark.timeout(240)
def test_the_readme_leads_from_nothing_to_a_price(
    pods: Pods, scenario: Scenario, other: Scenario, tmp_path: Path
) -> None:
    """A clone gives a wheel; installed where nothing else is, `verify` shows what racks and their lack cost.

    All of one group's partitions are read from another rack; the members of another send no rack. Nothing is joined.
    """
    for one in (scenario, other):
        one.lay_out(INTERLEAVED)
    for rack in (B, C, A):
        scenario.join("confluent", rack, assignor="roundrobin")
        other.join("kafka-python", rack)
    scenario.wait_settled(cross_rack=len(INTERLEAVED))
    other.wait_settled()
    before = scenario.rebalances(), other.rebalances()
    environment, build, install = block("Install")
    clone = {"Type": "bind", "Source": str(ROOT), "Target": "/clone", "ReadOnly": True}
    done(machine(pods, "clone", tmp_path / "builds", clone, folder="/clone"), environment, build)
    empty = machine(pods, "empty", tmp_path / "installs")
    shutil.copytree(tmp_path / "builds" / "wheels", tmp_path / "installs" / "wheels")
    done(empty, environment, install)
    verify = next(line for line in block("Three commands for your cluster") if line.startswith("samerack verify"))
    on_the_path = environment.partition("&& ")[2]
    started = time.monotonic()
    code, output = execute(empty, "sh", "-ec", f"{on_the_path}\n{verify.replace('127.0.0.1:9092', pods.bootstrap)}")
    took = time.monotonic() - started
    # 30 s are promised; they depend on the machine, and are read here
    print(f"findings after {took:.0f} s:\n{output}")  # noqa: T201 - pytest -rP shows it
    assert code == 1, output
    found, without = (finding(output, one.group) for one in (scenario, other))
    assert re.search(r"\$\s?\d", found), output
    assert re.search(r"\b100\s?% of its bytes cross racks", found), output
    assert "3 of 3 members have no rack" in without, output
    assert (scenario.rebalances(), other.rebalances()) == before
    for one in (scenario, other):
        one.finish()


def finding(output: str, group: str) -> str:
    """What `verify` says of a group, without the breaks of lines."""
    (found,) = re.findall(rf"^\S group {re.escape(group)}: .*(?:\n  .*)*", output, re.MULTILINE)
    return " ".join(str(found).split())
