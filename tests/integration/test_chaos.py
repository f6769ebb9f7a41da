"""Ten faults in groups under load: no record is lost, and agents make nothing worse than it is without any."""

import json
import subprocess
import sys

import pytest

_FAULTS = 10
_SEED = 40
"""Draws faults of agents, of members and of coordinators, of agents in rebalances, and of groups that are emptied."""


@pytest.mark.alone
@pytest.mark.timeout(1200)
def test_faults_hurt_no_group_more_than_without_an_agent() -> None:
    """Nothing is lost, owned twice or read below a commit, and every rebalance is explained.

    No stop is two seconds longer than the longest without agents; of one fault of a kind no more can be said. Groups
    whose consumers have gone are as without an agent: empty, with their offsets, open to tools and others.
    """
    line = [sys.executable, "-m", "sandbox.chaos", "--faults", str(_FAULTS), "--seed", str(_SEED), "--json"]
    done = subprocess.run(line, stdout=subprocess.PIPE, text=True, check=False)
    assert done.stdout, f"exit code {done.returncode}, and nothing was told"
    told = json.loads(done.stdout)
    for name in ("with_agents", "without"):
        run = told[name]
        assert (len(run["faults"]), run["lost"], run["owned_twice"]) == (_FAULTS, 0, 0)
        assert (run["forgotten"], run["violations"]) == (0, 0)
        assert run["records"] > 0
    assert [fault for fault in told["with_agents"]["faults"] if fault["unexplained"]] == []
    assert told["complaints"] == []  # reads below a commit are among them, but for those that a client does by itself
