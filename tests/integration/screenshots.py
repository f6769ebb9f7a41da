"""`scripts/screenshots`: takes the pictures of docs/cost.md, of the page of a real agent on a real Kafka.

The agent leads one group. Two more members join it in one rack, which then has more members than partitions, and leave
again: so its history has plans, rebalances, and a time with reads across racks.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Final

from lab.sandbox.admin import wait_until
from lab.sandbox.agent_process import AgentProcess
from tests.integration.browser import Browser
from tests.integration.monitored import LED, member, monitored

DOCS: Final = Path(__file__).parents[2] / "docs"
_WIDTH: Final = 1100
_PICTURES: Final = (("/", "page", 1340), (f"/group?name={LED}", "page-group", 1040))
"""Path, name and height: down to the table of groups, and to the end of the history."""
_STEP_SECONDS: Final = 5
_PART_POINTS: Final = 14
"""Points before, with and after the two members."""
_SECONDS: Final = 300.0


def main() -> int:
    """Run the agent, and write both pictures."""
    with tempfile.TemporaryDirectory() as folder:
        settings = {"traffic.history_step_seconds": _STEP_SECONDS}
        with monitored(Path(folder), settings) as agent, Browser() as browser:
            bootstrap = str(agent.json("/v1/traffic")["bootstrap"])
            _wait_for_points(agent)
            with member(bootstrap, LED, "rack-a"), member(bootstrap, LED, "rack-a"):
                _wait_for_points(agent)
            _wait_for_points(agent)
            address = agent.url
            for path, name, height in _PICTURES:
                browser.set_view(width=_WIDTH, height=height)
                browser.open(address + path)
                browser.screenshot(DOCS / f"{name}.png", whole=False)
    return 0


def _wait_for_points(agent: AgentProcess) -> None:
    """Wait until the history has _PART_POINTS more known points."""

    def known() -> int:
        points = agent.json(f"/v1/history?group={LED}")["points"]
        return sum(point["bytes_per_second"] is not None for point in points)

    enough = known() + _PART_POINTS
    wait_until(lambda: known() >= enough, f"the history has {enough} points", timeout=_SECONDS, pause=1.0)


if __name__ == "__main__":
    sys.exit(main())
