"""What agents count from poll to poll, as elections change what they measure."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samerack.cluster.wire import BrokerClient
from samerack.election.leadership_state import NOTHING, Tenure, Tenures
from samerack.election.messages import observe
from samerack.settings.all_settings import Settings
from samerack.traffic.board import TrafficBoard
from samerack.traffic.broker_poller import BrokerPoller, GroupReading, Poll
from samerack.traffic.collect import Offsets, Partition
from samerack.traffic.cycle import Cycle
from samerack.traffic.describe import Commits
from samerack.traffic.exact import ExactReads
from samerack.traffic.flows import Tally
from samerack.traffic.groups import owners_of
from samerack.traffic.positions import Polls, spans_of
from samerack.traffic.snapshot import Gap, TrafficSnapshot, Uncounted
from samerack.traffic.throughput import LONGEST_STEP_SECONDS, Rate
from samerack.traffic.weights import WeightBook
from tests.unit.agent.values import partition, view_of
from tests.unit.traffic.test_exact import LOGS, Elected, counters, group, member

SETTINGS = Settings(kafka={"bootstrap.servers": "127.0.0.1:1"})
RESPONSIBILITY = observe("*")
SECONDS = 5.0
"""Between two polls, in which 20 records are read."""


def active(term: int, *, succeeds: bool = True) -> Tenures:
    """The tenures of an agent that measures all groups since an election."""
    tenure = Tenure(what=RESPONSIBILITY, term=term, succeeds=succeeds)
    return Tenures({RESPONSIBILITY: tenure}, measuring=[RESPONSIBILITY])


class Seeing(BrokerPoller):
    """A poller of one group with two members, a partition each, in which only the commits change."""

    def __init__(self) -> None:
        super().__init__(SETTINGS, BrokerClient({}))
        self.offset = 0
        self.is_silent = False
        """Whether the group's coordinator does not answer."""

    def poll(self, *, now: float, rack_aware: bool) -> Poll:  # noqa: ARG002 - those of a real one
        """Poll with ten more records in each partition."""
        self.offset += 10
        seen = group(member("m1", "c", 0), member("m2", "d", 1))
        commits: dict[Partition, int] = {("t", 0): self.offset, ("t", 1): self.offset}
        owned = owners_of(seen).keys()
        last = self.state.groups.get("g")
        before = last.spans.positions if last is not None else None
        logs = dict.fromkeys(commits, Offsets(start=0, end=self.offset))
        spans = spans_of(Polls(before=before, now=commits, owned_before=owned, owned=owned, logs=logs))
        answer = None if self.is_silent else Commits(offsets=commits)
        if self.is_silent and last is not None:
            spans = last.spans
        owners = owners_of(seen)
        return {"g": GroupReading(group=seen, owners=owners, committed=commits, commits=answer, spans=spans)}


class Agent:
    """An agent that polls this group; a test holds the elections."""

    def __init__(self) -> None:
        self.leadership, self.board, self.exact = Elected(None), TrafficBoard(), ExactReads()
        self.weights = WeightBook()
        self.cycle = Cycle(
            SETTINGS,
            wire=BrokerClient({}),
            board=self.board,
            exact=self.exact,
            weights=self.weights,
            leadership=self.leadership,
        )
        self.poller = self.cycle._poller = Seeing()
        self.now = 0.0

    @property
    def counted(self) -> int:
        """All records that it has counted."""
        return sum(volume.records for volume in self.board.totals().values())

    def poll(self, tenures: Tenures | None) -> TrafficSnapshot:
        """Poll once with these tenures."""
        self.now += SECONDS
        self.leadership.now = tenures
        return self.cycle.turn(now=self.now, wall=self.now, rack_aware=False)

    def stand_by(self) -> None:
        """Measure nothing for the time of a poll."""
        self.now += SECONDS
        self.poller.offset += 10
        self.cycle.rest()


def hand_over(snapshot: TrafficSnapshot) -> Gap | None:
    """The gap that a hand-over leaves."""
    return next((gap for gap in snapshot.gaps if gap.what == "hand-over"), None)


def test_a_poll_that_is_too_late_for_rates_is_a_gap() -> None:
    """Without it, bytes were unknown for no reason that anyone could see."""
    agent, tenures = Agent(), active(1, succeeds=False)
    assert [agent.poll(tenures).gaps for _ in range(2)] == [(), ()]
    agent.now += LONGEST_STEP_SECONDS
    (gap,) = agent.poll(tenures).gaps
    assert gap.consequence == "bytes are not known"
    assert "over 120 seconds between two polls" in gap.reason
    assert agent.poll(tenures).gaps == ()


@pytest.mark.parametrize(
    ("tenures", "records"),
    [
        ([active(1), active(1), active(1)], [0, 20, 20]),
        ([NOTHING, active(2), active(2)], [0, 0, 20]),
        ([active(1), NOTHING, active(3), active(3)], [0, 0, 0, 20]),
        ([active(1), active(3), active(3)], [0, 0, 20]),
        ([active(1), None, None, active(1)], [0, 0, 0, 60]),
        ([active(1), None, active(3), active(3)], [0, 0, 0, 20]),
    ],
    ids=[
        "what it measures all the time",
        "from the first poll after its election on",
        "not what was read while it was a standby",
        "nor in between, where it has not noticed",
        "what is in doubt waits",
        "and is left out if another agent was elected",
    ],
)
def test_what_is_counted(tenures: list[Tenures | None], records: list[int]) -> None:
    """What was read between two polls counts if the agent had one tenure at both."""
    agent = Agent()
    counted = [0]
    for each in tenures:
        agent.poll(each)
        counted.append(agent.counted)
    assert [after - before for before, after in pairwise(counted)] == records


def test_an_election_during_the_first_poll_begins_with_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """The agent before may have counted until the election, and the poll may have read commits before it."""
    agent = Agent()
    poll = agent.poller.poll

    def elected(*, now: float, rack_aware: bool) -> Poll:
        agent.leadership.now = active(2)
        return poll(now=now, rack_aware=rack_aware)

    with monkeypatch.context() as patched:
        patched.setattr(agent.poller, "poll", elected)
        agent.poll(NOTHING)
    agent.poll(active(2))
    assert agent.counted == 0
    agent.poll(active(2))
    assert agent.counted == 20


@given(st.lists(st.sampled_from(["first", "second", "nobody", "in doubt"]), min_size=1, max_size=30))
def test_two_agents_count_nothing_twice_and_name_what_neither_counts(elections: list[str]) -> None:
    """What is between the last sure poll of one agent and the first of the next is in no figure, and the next says so.

    Both poll every time. In doubt the agent that measures does not know whether there was an election.
    """
    agents = {"first": Agent(), "second": Agent()}
    measures, term, last, expected = "", 0, None, 0
    for number, now in enumerate(elections):
        if now not in {measures, "in doubt"}:
            measures, term, last = now, term + 1, None
        for name, agent in agents.items():
            if name != measures:
                assert hand_over(agent.poll(NOTHING)) is None
            elif now == "in doubt":
                agent.poll(None)
            else:
                gap = hand_over(agent.poll(active(term)))
                assert gap is not None or last is not None
                expected += 20 * (number - last) if last is not None else 0
                last = number
        assert sum(agent.counted for agent in agents.values()) == expected


def test_a_hand_over_is_named_while_the_window_lacks_what_was_read() -> None:
    """The first agent has no such gap; one that measures again has it like any other."""
    agent = Agent()
    assert hand_over(agent.poll(active(1, succeeds=False))) is None
    agent.stand_by()
    found = hand_over(agent.poll(active(3)))
    assert found is not None
    assert (found.where, found.refused) == ("g", False)
    assert "since 1970-01-01 00:00:15 UTC" in found.reason
    for _ in range(int(SETTINGS.traffic.window_seconds / SECONDS) - 1):
        assert hand_over(agent.poll(active(3))) == found
    assert hand_over(agent.poll(active(3))) is None


def test_after_a_hand_over_nothing_is_known_until_two_polls() -> None:
    """What is not measured is unknown, and not 0; nor is it what the agent had measured before it was a standby."""
    agent = Agent()
    for _ in range(3):
        (known,) = agent.poll(active(1)).groups
    assert known.flows
    agent.stand_by()
    counted = agent.counted
    (unknown,) = agent.poll(active(3)).groups
    assert (unknown.flows, unknown.bytes_per_second, agent.counted) == ((), None, counted)
    (known,) = agent.poll(active(3)).groups
    assert sum(flow.volume.records for flow in known.flows) == 20


def test_what_is_in_doubt_for_long_does_not_become_nothing() -> None:
    """The figures of a window stay while it is in doubt who measures, and then include all that was read."""
    agent = Agent()
    for _ in range(3):
        (known,) = agent.poll(active(1)).groups
    for _ in range(int(2 * SETTINGS.traffic.window_seconds / SECONDS)):
        (doubtful,) = agent.poll(None).groups
        assert doubtful.flows == known.flows
    agent.poll(active(1))
    assert agent.counted == agent.poller.offset * 2 - 20


def test_what_another_agent_left_out_is_not_named_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has named it: of two agents each counted the records of the other's time as not counted, too."""
    agent = Agent()
    poll, left = agent.poller.poll, {Uncounted.MOVED: 7}

    def leaving(*, now: float, rack_aware: bool) -> Poll:
        seen = poll(now=now, rack_aware=rack_aware)
        seen["g"].spans = replace(seen["g"].spans, left=left)
        return seen

    monkeypatch.setattr(agent.poller, "poll", leaving)
    named = [agent.poll(tenures).groups[0].not_counted for tenures in (NOTHING, active(2), active(2), active(2))]
    assert named == [{}, {}, {Uncounted.MOVED: 7}, {Uncounted.MOVED: 14}]


def test_an_agent_that_measures_again_has_no_rates_of_the_time_before() -> None:
    """They were marked as of whole minutes, which may have been days ago; and what is not polled is never forgotten."""
    agent = Agent()
    for _ in range(2):
        agent.poll(active(1))
    rate = {("t", 0): Rate(value=100.0, error=0.0, seconds=480.0)}
    agent.weights.measured("g", rate)
    assert agent.weights.weights("g") is not None
    assert agent.cycle._builder._solved.keys() == {"g"}
    agent.stand_by()
    assert agent.weights.weights("g") is None
    assert agent.cycle._builder._solved == {}
    assert agent.cycle._tally == Tally()


def test_weights_stay_while_a_leader_does_not_answer() -> None:
    """Without its rate a partition had weight 1, and no load. What is read of it is not known, either."""
    agent = Agent()
    for _ in range(2):
        agent.poll(active(1))
    agent.weights.measured("g", {("t", at): Rate(value=100.0, error=0.0, seconds=480.0) for at in (0, 1)})
    weights = agent.weights.weights("g")
    for _ in range(10):
        agent.poller.production.polled([("t", 1)], [50_000.0], SECONDS)
    agent.poller.rate_lost.add(("t", 0))
    (seen,) = agent.poll(active(1)).groups
    assert agent.weights.weights("g") is weights is not None
    assert {one.number: one.long_run_per_second for one in seen.partitions} == {0: None, 1: 10_000.0}
    agent.poller.rate_lost.clear()
    agent.poll(active(1))
    assert agent.weights.weights("g") is not weights


def test_a_silent_coordinator_adds_no_envelopes() -> None:
    """Envelopes alone were a group's bytes: what it read sank to nothing in a minute."""
    agent = Agent()
    agent.poller.state.curves = dict(LOGS)
    agent.poller.state.cluster = view_of(t=[partition(1), partition(2)])
    for _ in range(3):
        agent.poll(active(1))
    agent.poller.is_silent = True
    before = dict(agent.board.totals())
    (silent,) = agent.poll(active(1)).groups
    assert (silent.flows, silent.bytes_per_second) == ((), None)
    assert dict(agent.board.totals()) == before
    agent.poller.is_silent = False
    (known,) = agent.poll(active(1)).groups
    assert sum(flow.volume.records for flow in known.flows) == agent.counted == 80
    assert known.bytes_per_second


def test_a_group_that_is_gone_leaves_nothing_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names of groups are made up for each run, and the agent runs for months."""
    agent = Agent()
    for _ in range(2):
        agent.poll(active(1))
    assert agent.cycle._tally.keys
    monkeypatch.setattr(agent.poller, "poll", lambda **_: {})
    agent.poll(active(1))
    assert agent.cycle._tally == Tally()


@pytest.mark.parametrize(("after", "counted"), [(1, 300), (3, 0)], ids=["the same agent", "another one"])
def test_reports_of_clients_wait_while_it_is_in_doubt_who_measures(after: int, counted: int) -> None:
    """They count once that is sure, and never if another agent was elected."""
    agent = Agent()
    agent.poller.state.curves = dict(LOGS)
    agent.poller.state.cluster = view_of(t=[partition(1), partition(2)])
    agent.poll(active(1))
    agent.exact.post("g", counters(500, age=100), now=6.0)
    agent.exact.post("g", counters(800, age=101), now=7.0)
    agent.poll(None)
    assert agent.counted == 0
    agent.poll(active(after))
    totals = agent.board.totals().items()
    assert sum(volume.wire_bytes for key, volume in totals if key.method == "exact") == counted
