"""Ten faults in groups under load: no record is lost, and agents make nothing worse than it is without any."""

import json
import subprocess
import sys

import pytest

_FAULTS = 10
_SEED = 40
"""Draws faults of agents, of members and of coordinators, of agents in rebalances, and of groups that are emptied."""
_MARGIN_SECONDS = 2.0
_START_SECONDS = 8.0
"""An agent that dies in a rebalance has its group wait until its successor has started: 1.5 s on an idle machine, and
much longer on a busy one, where a start takes as long as ever but gets a part of a core."""
_STEPS = ("parked-", "joined-", "synced-", "emptied-")
"""Kinds of faults that hit the agent in a rebalance, or while the consumers leave."""


@pytest.mark.timeout(900)
def test_faults_hurt_no_group_more_than_without_an_agent() -> None:
    """Nothing is lost, owned twice or read below a commit, no stop is 2 s longer, and every rebalance is explained.

    And groups whose consumers have gone are as without an agent: empty, with their offsets, open to tools and others.
    """
    line = [sys.executable, "-m", "sandbox.chaos", "--faults", str(_FAULTS), "--seed", str(_SEED), "--json"]
    done = subprocess.run(line, stdout=subprocess.PIPE, text=True, check=False)
    assert done.stdout, f"exit code {done.returncode}, and nothing was told"
    told = json.loads(done.stdout)
    for name in ("with_agents", "without"):
        run = told[name]
        assert (len(run["faults"]), run["lost"], run["owned_twice"], run["read_again"]) == (_FAULTS, 0, 0, 0)
        assert (run["forgotten"], run["violations"]) == (0, 0)
        assert run["records"] > 0
    assert [fault for fault in told["with_agents"]["faults"] if fault["unexplained"]] == []
    margins = {
        row["kind"]: _START_SECONDS if row["kind"].startswith(_STEPS) else _MARGIN_SECONDS for row in told["kinds"]
    }
    assert [row for row in told["kinds"] if row["stop_with"] > row["stop_without"] + margins[row["kind"]]] == []
