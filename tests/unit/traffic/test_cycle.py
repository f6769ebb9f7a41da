"""What an agent counts from poll to poll, as elections change its claims."""

from __future__ import annotations

import pytest

from samerack.cluster.wire import Wire
from samerack.election.counting import NOTHING, Claim, Claims
from samerack.election.messages import ReportingMember, observe
from samerack.settings.all_settings import Settings
from samerack.traffic.board import TrafficBoard
from samerack.traffic.broker_poller import BrokerPoller, Poll
from samerack.traffic.collect import Offsets, Partition
from samerack.traffic.cycle import Cycle
from samerack.traffic.describe import Commits
from samerack.traffic.exact import ExactReads
from samerack.traffic.positions import Polls, spans_of
from samerack.traffic.weights import WeightBook
from tests.unit.traffic.test_exact import Elected, group, member

SETTINGS = Settings(kafka={"bootstrap.servers": "127.0.0.1:1"})
RESPONSIBILITY = observe("*")


def active(term: int, *elsewhere: ReportingMember) -> Claims:
    """Claims of an agent that has counted all groups since an election."""
    claim = Claim(what=RESPONSIBILITY, term=term, since=0.0)
    return Claims({RESPONSIBILITY: claim}, responsibilities=[RESPONSIBILITY], elsewhere=frozenset(elsewhere))


class Seeing(BrokerPoller):
    """A poller of one group with two members, a partition each, in which only the commits change."""

    def __init__(self) -> None:
        super().__init__(SETTINGS, Wire({}))
        self.offset = 0

    def poll(self, *, now: float, rack_aware: bool) -> Poll:  # noqa: ARG002 - those of a real one
        """Poll with ten more records in each partition."""
        self.offset += 10
        seen = group(member("m1", "c", 0), member("m2", "d", 1))
        commits: dict[Partition, int] = {("t", 0): self.offset, ("t", 1): self.offset}
        owned = seen.owners().keys()
        before = self.state.positions.get("g")
        logs = dict.fromkeys(commits, Offsets(start=0, end=self.offset))
        spans = spans_of(Polls(before=before, now=commits, owned_before=owned, owned=owned, logs=logs))
        return Poll(
            listed={},
            groups={"g": seen},
            owners={"g": seen.owners()},
            commits=Commits(offsets={"g": commits}),
            spans={"g": spans},
        )


@pytest.mark.parametrize(
    ("claims", "records"),
    [
        ([active(1), active(1), active(1)], [0, 20, 20]),
        ([NOTHING, active(2), active(2)], [0, 0, 20]),
        ([active(1), NOTHING, active(3), active(3)], [0, 0, 0, 20]),
        ([active(1), active(3), active(3)], [0, 0, 20]),
        ([active(1), None, None, active(1)], [0, 0, 0, 60]),
        ([active(1), None, active(3), active(3)], [0, 0, 0, 20]),
        ([active(1), active(1, ("g", "m1")), active(1, ("g", "m1")), active(1), active(1)], [0, 10, 10, 10, 20]),
    ],
    ids=[
        "what it counts all the time",
        "from the first poll after its election on",
        "not what was read while it was a standby",
        "nor in between, where it has not noticed",
        "what is in doubt waits",
        "and is left out if another agent was elected",
        "not a member that reports to another agent, at either end",
    ],
)
def test_what_is_counted(claims: list[Claims | None], records: list[int]) -> None:
    """A span counts if the agent had the claim to it at its start and at its end."""
    leadership, board = Elected(None), TrafficBoard()
    cycle = Cycle(
        SETTINGS,
        wire=Wire({}),
        board=board,
        exact=ExactReads(began_at=0.0, leadership=leadership),
        weights=WeightBook(),
        leadership=leadership,
    )
    cycle._poller = Seeing()
    found, before = [], 0
    for number, leadership.now in enumerate(claims):
        cycle.turn(now=5.0 * number, wall=5.0 * number, rack_aware=False)
        counted = sum(volume.records for volume in board.totals().values())
        found.append(counted - before)
        before = counted
    assert found == records
