"""What operators ask for groups and what is remembered of them: how long it counts, and what outlives a process."""

from __future__ import annotations

import threading
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from samerack.agent.leading.group_memory import GroupMemory, KeptFile
from samerack.agent.leading.group_requests import GroupRequests, RequestStatus, from_json, to_json
from samerack.agent.metrics import Metrics
from samerack.agent.policy import Action, Reason
from samerack.agent.policy.back_off import BackOff
from samerack.agent.policy.back_off_causes import Cause
from samerack.agent.policy.requests import RequestKind, in_words
from samerack.common.errors import AgentError
from tests.unit.agent.leading.policies import MIDNIGHT, Decisions, condition
from tests.unit.agent.leading.scripted import clear_away, leader_of
from tests.unit.cluster.scripted_broker import ScriptedBroker
from tests.unit.waiting import LONGEST_SECONDS, until

WAIT_SECONDS = 10.0


class Wall:
    """Seconds since 1970 that a test sets."""

    now = MIDNIGHT

    def __call__(self) -> float:
        """The present second."""
        return self.now


def test_a_request_ends_with_its_time() -> None:
    """It is in force until then, and is returned once when it is over."""
    wall = Wall()
    requests = GroupRequests(wall=wall)
    asked = requests.ask("orders", RequestKind.LEAVE, seconds=60)
    wall.now += 59
    assert requests.of("orders", RequestKind.LEAVE) == asked
    assert requests.end_overdue("orders") == ()
    wall.now += 1
    assert requests.of("orders", RequestKind.LEAVE) is None
    assert requests.end_overdue("orders") == (asked,)
    assert requests.end_overdue("orders") == ()


def test_a_pause_outlives_a_leave_and_both_end_at_once() -> None:
    """A group has one request of each kind; a later one of the kind counts instead; other groups keep theirs."""
    requests = GroupRequests(wall=Wall())
    other = requests.ask("payments", RequestKind.PAUSE)
    pause = requests.ask("orders", RequestKind.PAUSE)
    requests.ask("orders", RequestKind.LEAVE)
    leave = requests.ask("orders", RequestKind.LEAVE, seconds=60)
    assert requests.status("orders", "observing").requests == (leave, pause)
    assert set(requests.end("orders")) == {leave, pause}
    assert requests.end("orders") == ()
    assert requests.of("payments", RequestKind.PAUSE) == other


def test_requests_outlive_the_process(tmp_path: Path) -> None:
    """The next process reads what is in force from a file that only its user may read."""
    path = tmp_path / "state" / "agent.requests.json"
    first = GroupRequests(path)
    asked = first.ask("orders", RequestKind.LEAVE, seconds=600, by="alice", why="moving brokers")
    assert path.stat().st_mode & 0o077 == 0
    assert GroupRequests(path).of("orders", RequestKind.LEAVE) == asked
    first.end("orders")
    assert GroupRequests(path).of("orders", RequestKind.LEAVE) is None


def test_a_disk_that_hangs_stops_no_group(monkeypatch: pytest.MonkeyPatch) -> None:
    """The request of one group could not be stored, and the threads of all groups waited for it in each turn."""
    hangs, goes_on = threading.Event(), threading.Event()
    requests, sizes = GroupRequests(wall=Wall()), GroupMemory(None, name="sizes")
    sizes.keep("orders", "3")

    def write(_file: KeptFile, _content: object) -> None:
        hangs.set()
        assert goes_on.wait(LONGEST_SECONDS)

    monkeypatch.setattr(KeptFile, "write", write)

    def turn() -> None:
        for group in ("orders", "payments"):
            requests.leads(group)
            assert requests.end_overdue(group) == ()
        sizes.keep("orders", "3")

    for changes in (
        partial(requests.ask, "payments", RequestKind.PAUSE, seconds=60),
        partial(sizes.keep, "payments", "5"),
    ):
        hangs.clear()
        goes_on.clear()
        threads = [threading.Thread(target=one) for one in (changes, turn)]
        threads[0].start()
        assert hangs.wait(LONGEST_SECONDS)
        threads[1].start()
        threads[1].join(WAIT_SECONDS)
        is_stopped = threads[1].is_alive()
        goes_on.set()
        for one in threads:
            one.join()
        assert not is_stopped


@pytest.mark.parametrize("is_resumed", [False, True])
def test_what_is_left_of_a_leave_lasts_until_the_agent_leads(tmp_path: Path, is_resumed: bool) -> None:  # noqa: FBT001
    """The agent comes back as a follower, whose operator may have wished that it leads again: also the next process."""
    wall, path = Wall(), tmp_path / "agent.requests.json"
    requests = GroupRequests(path, wall=wall)
    requests.ask("orders", RequestKind.LEAVE, seconds=60, lead_again=True)
    assert requests.of("orders", RequestKind.RETURN) is None
    wall.now += 60
    ended = requests.end("orders") if is_resumed else requests.end_overdue("orders")
    assert [one.kind for one in ended] == [RequestKind.LEAVE]
    left = GroupRequests(path, wall=wall).of("orders", RequestKind.RETURN)
    assert left is not None
    assert (left.since, left.lead_again) == (wall.now, True)
    assert requests.end("orders") == ()
    assert requests.of("orders", RequestKind.RETURN) == left
    assert requests.status("orders", "following").requests == ()
    requests.leads("orders")
    assert GroupRequests(path, wall=wall).of("orders", RequestKind.RETURN) is None


@pytest.mark.parametrize("content", ["{", "[1]", '[{"group": "orders", "kind": "dance", "since": 0}]', "{}"])
def test_a_file_of_no_use_is_only_a_warning(tmp_path: Path, content: str) -> None:
    """Nothing is in force then, and the next request is stored."""
    path = tmp_path / "agent.requests.json"
    path.write_text(content, encoding="utf-8")
    with capture_logs() as logs:
        requests = GroupRequests(path)
    assert [one["event"] for one in logs] == ["requests-not-read"]
    asked = requests.ask("orders", RequestKind.PAUSE)
    assert GroupRequests(path).of("orders", RequestKind.PAUSE) == asked


def test_an_agent_that_is_upgraded_reads_requests_of_before(path: Path) -> None:
    """It was asked to stay out of a group whose consumers change their assignor: it must not come back."""
    path.parent.mkdir()
    path.write_text('[{"group": "orders", "wish": "leave", "since": 1.0}]', encoding="utf-8")
    assert GroupRequests(path).of("orders", RequestKind.LEAVE) is not None


def test_the_words_have_all_that_is_known() -> None:
    """Who asked, until when, why, and the command that ends it, quoted for a shell."""
    asked = GroupRequests(wall=Wall()).ask(
        "the orders", RequestKind.LEAVE, seconds=60, by="alice", why="moving brokers"
    )
    facts = ("by alice", "until 2027-01-16 00:01:00 UTC", "(moving brokers)", "samerack resume 'the orders'")
    assert [fact for fact in facts if fact not in in_words(asked)] == []


def test_a_leadership_state_is_written_and_read_back() -> None:
    """A status is read back equal, and other JSON is refused."""
    requests = GroupRequests(wall=Wall())
    requests.ask("orders", RequestKind.PAUSE, seconds=60, by="alice")
    status = requests.status("orders", "leading")
    assert from_json(to_json(status)) == status
    assert from_json(to_json(RequestStatus(group="orders", role="leading"))).requests == ()
    with pytest.raises(AgentError, match="reports no requests"):
        from_json("{}")


def test_who_is_asked_to_leave_backs_off() -> None:
    """The request counts before a pause for another cause, which goes on when the request ends."""
    requests, now = GroupRequests(wall=Wall()), [0.0]
    back_off = BackOff(lambda: now[0], requested=lambda: requests.reason("orders", RequestKind.LEAVE))

    def state() -> tuple[bool, str]:
        return back_off.is_out, back_off.reason

    assert state() == (False, "")
    asked = in_words(requests.ask("orders", RequestKind.LEAVE))
    assert state() == (True, asked)
    back_off.start(Cause.PLANS_FAILED, "no plan")
    assert state() == (True, asked)
    requests.end("orders")
    assert state() == (True, "no plan")
    now[0] = 60.0
    assert state() == (False, "no plan")


def test_a_paused_agent_starts_no_rebalance_that_is_only_worth_it() -> None:
    """What saves is suppressed until the request's end, and happens after it; the budget is not spent meanwhile."""
    pause = GroupRequests(wall=Wall()).ask("orders", RequestKind.PAUSE, seconds=60)
    run = Decisions()
    paused = replace(condition(50, 10), pause=pause)
    for _ in range(20):
        decision = run.decide(paused, after=1)
        assert (decision.action, decision.reason, decision.until) == (Action.SUPPRESS, Reason.PAUSED, pause.until)
    decision = run.decide(condition(50, 10), after=1)
    assert (decision.action, decision.reason) == (Action.REBALANCE, Reason.RACKS_CHANGED)


def test_a_paused_agent_still_starts_those_without_which_partitions_are_not_read() -> None:
    """New partitions, and the second round of a cooperative rebalance."""
    pause = GroupRequests(wall=Wall()).ask("orders", RequestKind.PAUSE)
    changed = replace(condition(partitions_changed=True), pause=pause)
    assert Decisions().decide(changed).reason is Reason.PARTITIONS_CHANGED
    withheld = replace(condition(withheld=2, rounds=1), pause=pause)
    assert Decisions().decide(withheld).reason is Reason.SECOND_ROUND


def test_a_member_that_is_asked_to_leave_is_out_at_once_and_back_on_request() -> None:
    """The group's thread leaves by member id, observes, joins again, and then says since when and why it follows."""
    broker, metrics = ScriptedBroker(), Metrics()
    leader = leader_of(broker, "orders", metrics)
    leader.start()
    try:
        assert until(lambda: leader.operators.status.role == "following")
        status = leader.operators.ask(
            RequestKind.LEAVE, seconds=None, by="alice", why="moving brokers", lead_again=True
        )
        assert [one.kind for one in status.requests] == [RequestKind.LEAVE]
        assert until(lambda: leader.operators.status.role == "observing")
        (left,) = [one.request for one in broker.arrivals if one.api == "LeaveGroup"]
        assert [one.member_id for one in left.members] != [""]
        assert broker.members == {}
        assert leader.reporter.trouble == leader.operators.left == leader.operators.status.reasons[0]
        joins, polls = broker.count("JoinGroup"), broker.count("DescribeGroups")
        assert until(lambda: broker.count("DescribeGroups") > polls + 4)
        assert broker.count("JoinGroup") == joins
        assert leader.operators.status.role == "observing"
        assert leader.operators.ask(None, seconds=None, by="", why="").requests == ()
        assert until(lambda: leader.operators.status.role == "following")
        assert leader.reporter.trouble == ""
        assert until(lambda: any(one.returned for one in metrics.board.all()))
        (returned,), after = (one.returned for one in metrics.board.all()), leader.operators.status.after
        assert returned.startswith("since the end of `samerack leave` (")
        assert returned.endswith(after)
        assert after.endswith("takes over as leader as soon as the policy allows")
    finally:
        leader.stop()
        leader.join(LONGEST_SECONDS)
        broker.close()
        clear_away()


# foreign protocols, which are remembered too


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file in a folder that does not exist yet."""
    return tmp_path / "state" / "agent.protocols.json"


def test_a_restarted_agent_remembers(path: Path) -> None:
    """The next process knows the last foreign protocol of each group."""
    GroupMemory(path, name="protocols").keep("orders", "stream")
    again = GroupMemory(path, name="protocols")
    assert (again.of("orders"), again.of("clicks")) == ("stream", "")


def test_a_known_protocol_ends_it(path: Path) -> None:
    """A group that has changed to a protocol of the agent's may be led again; for most nothing is ever written."""
    seen = GroupMemory(path, name="protocols")
    seen.keep("orders", "")
    assert not path.exists()
    seen.keep("orders", "mine")
    seen.keep("orders", "")
    assert (seen.of("orders"), GroupMemory(path, name="protocols").of("orders")) == ("", "")


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b"\xff\xfe", b"[" * 100_000])
def test_a_broken_file_is_no_obstacle(path: Path, content: bytes) -> None:
    """A broken file counts as empty, and the next note replaces it."""
    path.parent.mkdir()
    path.write_bytes(content)
    seen = GroupMemory(path, name="protocols")
    assert seen.of("orders") == ""
    seen.keep("orders", "mine")
    assert GroupMemory(path, name="protocols").of("orders") == "mine"


def test_a_folder_that_cannot_be_written_is_no_obstacle(tmp_path: Path) -> None:
    """The protocol is then kept in memory."""
    (tmp_path / "file").write_text("")
    seen = GroupMemory(tmp_path / "file" / "protocols.json", name="protocols")
    seen.keep("orders", "mine")
    assert seen.of("orders") == "mine"
