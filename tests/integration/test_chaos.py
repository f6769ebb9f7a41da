"""Ten faults in groups under load: no record is lost, and agents cause no more harm than there is without them."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

_RECORDED = Path(__file__).parents[2] / "docs" / "benchmarks-chaos.json"
_STOPPED = ": stopped "
_FAULTS = 10
_SEED = 40
"""This seed has faults of agents, members and coordinators, of agents in rebalances, and of groups that get empty."""


@pytest.mark.alone
@pytest.mark.timeout(1200)
def test_faults_hurt_no_group_more_than_without_an_agent() -> None:
    """No record is lost or read below a commit, no partition is owned twice, and each rebalance is explained.

    No stop is more than 2 s longer than the longest without agents: in this run, or in that of 300 faults, as the
    longest of ten is shorter by chance. Groups whose consumers have left are as without an agent: empty, with their
    offsets, open to tools and other consumers.
    """
    line = [sys.executable, "-m", "lab.sandbox.chaos", "--faults", str(_FAULTS), "--seed", str(_SEED), "--json"]
    done = subprocess.run(line, stdout=subprocess.PIPE, text=True, check=False)
    assert done.stdout, f"exit code {done.returncode}, and no output"
    document = json.loads(done.stdout)
    for name in ("with_agents", "without"):
        run = document[name]
        assert (len(run["faults"]), run["lost"], run["owned_twice"]) == (_FAULTS, 0, 0)
        assert (run["forgotten"], run["violations"]) == (0, 0)
        assert run["records"] > 0
    assert [fault for fault in document["with_agents"]["faults"] if fault["unexplained"]] == []
    # includes reads below a commit, except those that a client does by itself
    assert [complaint for complaint in document["complaints"] if _STOPPED not in complaint] == []
    longest = max(
        run["without"]["longest_stop"] for run in (document, json.loads(_RECORDED.read_text(encoding="utf-8")))
    )
    assert document["with_agents"]["longest_stop"] <= longest + 2
