"""What a membership knows of its group from a description."""

from types import SimpleNamespace
from unittest.mock import MagicMock

from samerack.agent.group_status import OUTSIDE
from samerack.agent.leading.polled_group import PolledGroup
from tests.unit.agent.values import group, member


def test_the_agent_is_none_of_the_others_while_its_first_join_group_is_parked() -> None:
    """Found: it joins again for its position, and counted as a static member that comes back: 45 s of no rebalance."""
    consumer, agent = member("c1"), member("samerack-1", instance_id="samerack")
    parts = MagicMock()
    parts.clock.return_value = 0.0
    parts.reporter.role, parts.admission.full = OUTSIDE, ""
    membership = SimpleNamespace(
        member_id="",
        known_id=agent.id,
        leader_id="",
        is_outside=False,
        leading=False,
        lookup=None,
        describe=lambda: group(consumer, agent),
    )
    polled = PolledGroup(parts, membership)  # type: ignore[arg-type]
    polled.poll()
    assert polled.others is not None
    assert polled.others.members == (consumer,)
