"""Thirty faults in three groups under load: no record is lost, and agents make nothing worse than it is without any."""

import json
import subprocess
import sys

import pytest

_FAULTS = 30
_SEED = 8


@pytest.mark.timeout(900)
def test_faults_hurt_no_group_more_than_without_an_agent() -> None:
    """Nothing is lost, owned twice or read below a commit, no stop is 2 s longer, and every rebalance is explained."""
    line = [sys.executable, "-m", "sandbox.chaos", "--faults", str(_FAULTS), "--seed", str(_SEED), "--json"]
    done = subprocess.run(line, stdout=subprocess.PIPE, text=True, check=False)
    assert done.stdout, f"exit code {done.returncode}, and nothing was told"
    told = json.loads(done.stdout)
    for name in ("with_agents", "without"):
        run = told[name]
        assert (len(run["faults"]), run["lost"], run["owned_twice"], run["read_again"]) == (_FAULTS, 0, 0, 0)
        assert run["records"] > 0
    assert told["complaints"] == []
    assert done.returncode == 0
