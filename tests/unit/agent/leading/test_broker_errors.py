"""Every error that brokers may answer to a member: the real client and group thread against a scripted broker.

For each error the agent is a member that follows; then one kind of request is answered with that error until the agent
has reported it, and for a second at least, so that attempts can be counted; then requests succeed again. All errors
of a run are tried in parallel, once for all tests of this file. The gate tries one error for each thing that the agent
does about a kind of request, and `scripts/test --all` every error. `tests/broker_errors.md` has each.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, Final

import pytest
from _pytest.mark import ParameterSet
from kafka import errors as kafka_errors
from structlog.testing import capture_logs

from samerack.agent.metrics import Metrics
from samerack.agent.supervisor.line import MemberIdentity
from samerack.cluster.wire import Wire
from samerack.common.kafka_config import for_kafka_python
from samerack.traffic.describe import committed
from samerack.traffic.groups import ListedGroup
from samerack.traffic.model import Family
from tests.unit.agent.leading.scripted import clear_away, leader_of
from tests.unit.cluster.scripted_broker import REBALANCE_IN_PROGRESS, ScriptedBroker
from tests.unit.waiting import LONGEST_SECONDS, until

CODES: Final = {
    "UNKNOWN_SERVER_ERROR": -1,
    "UNKNOWN_TOPIC_OR_PARTITION": 3,
    "COORDINATOR_LOAD_IN_PROGRESS": 14,
    "COORDINATOR_NOT_AVAILABLE": 15,
    "NOT_COORDINATOR": 16,
    "ILLEGAL_GENERATION": 22,
    "INCONSISTENT_GROUP_PROTOCOL": 23,
    "INVALID_GROUP_ID": 24,
    "UNKNOWN_MEMBER_ID": 25,
    "INVALID_SESSION_TIMEOUT": 26,
    "REBALANCE_IN_PROGRESS": 27,
    "TOPIC_AUTHORIZATION_FAILED": 29,
    "GROUP_AUTHORIZATION_FAILED": 30,
    "UNSUPPORTED_VERSION": 35,
    "INVALID_REQUEST": 42,
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED": 53,
    "GROUP_ID_NOT_FOUND": 69,
    "MEMBER_ID_REQUIRED": 79,
    "GROUP_MAX_SIZE_REACHED": 81,
    "FENCED_INSTANCE_ID": 82,
    "UNSTABLE_OFFSET_COMMIT": 88,
    "STALE_MEMBER_EPOCH": 113,
}


_COORDINATOR: Final = frozenset(
    {
        "UNKNOWN_SERVER_ERROR",
        "COORDINATOR_LOAD_IN_PROGRESS",
        "COORDINATOR_NOT_AVAILABLE",
        "NOT_COORDINATOR",
        "INVALID_GROUP_ID",
        "GROUP_AUTHORIZATION_FAILED",
    }
)
_MEMBER: Final = _COORDINATOR | {"UNKNOWN_MEMBER_ID", "UNSUPPORTED_VERSION", "FENCED_INSTANCE_ID"}
KAFKA_ERRORS: Final[Mapping[str, frozenset[str]]] = {
    "JoinGroup": _MEMBER
    | {
        "INCONSISTENT_GROUP_PROTOCOL",
        "INVALID_SESSION_TIMEOUT",
        "REBALANCE_IN_PROGRESS",
        "MEMBER_ID_REQUIRED",
        "GROUP_MAX_SIZE_REACHED",
    },
    "SyncGroup": _MEMBER | {"ILLEGAL_GENERATION", "INCONSISTENT_GROUP_PROTOCOL", "REBALANCE_IN_PROGRESS"},
    "Heartbeat": _MEMBER | {"ILLEGAL_GENERATION", "REBALANCE_IN_PROGRESS"},
    "LeaveGroup": _MEMBER,
    "OffsetFetch": _COORDINATOR
    | {
        "UNKNOWN_TOPIC_OR_PARTITION",
        "UNKNOWN_MEMBER_ID",
        "TOPIC_AUTHORIZATION_FAILED",
        "GROUP_ID_NOT_FOUND",
        "UNSTABLE_OFFSET_COMMIT",
        "STALE_MEMBER_EPOCH",
    },
    "FindCoordinator": frozenset(
        {
            "UNKNOWN_SERVER_ERROR",
            "COORDINATOR_LOAD_IN_PROGRESS",
            "COORDINATOR_NOT_AVAILABLE",
            "GROUP_AUTHORIZATION_FAILED",
            "INVALID_REQUEST",
            "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
        }
    ),
}
"""What a 4.3 broker answers: the comments of `org.apache.kafka.common.requests.*Response`, what `AbstractCoordinator`
handles, and what `GroupCoordinatorService` and `GroupMetadataManager` throw; any request may fail as unknown."""


class Does(Enum):
    """What the agent does about an error."""

    RETRIES = "repeats the request after growing pauses, as the same member"
    ANEW = "joins anew, without its old member id"
    OBSERVES = "leaves, says why, and stays outside for a pause that doubles"
    STOPS = "stops: another agent has its place"


RETRIES, ANEW, OBSERVES, STOPS = Does
_ROLES: Final = {OBSERVES: ("outside", "observing"), STOPS: ("fenced",)}
"""What the group's role is after it."""
EXPECTED: Final[Mapping[str, Mapping[str, Does]]] = {
    "JoinGroup": {
        "UNKNOWN_SERVER_ERROR": RETRIES,
        "COORDINATOR_LOAD_IN_PROGRESS": RETRIES,
        "COORDINATOR_NOT_AVAILABLE": RETRIES,
        "NOT_COORDINATOR": RETRIES,
        "INCONSISTENT_GROUP_PROTOCOL": OBSERVES,
        "INVALID_GROUP_ID": OBSERVES,
        "UNKNOWN_MEMBER_ID": ANEW,
        "INVALID_SESSION_TIMEOUT": OBSERVES,
        "REBALANCE_IN_PROGRESS": RETRIES,
        "GROUP_AUTHORIZATION_FAILED": OBSERVES,
        "UNSUPPORTED_VERSION": OBSERVES,
        "MEMBER_ID_REQUIRED": RETRIES,
        "GROUP_MAX_SIZE_REACHED": OBSERVES,
        "FENCED_INSTANCE_ID": STOPS,
    },
    "SyncGroup": {
        "UNKNOWN_SERVER_ERROR": RETRIES,
        "COORDINATOR_LOAD_IN_PROGRESS": RETRIES,
        "COORDINATOR_NOT_AVAILABLE": RETRIES,
        "NOT_COORDINATOR": RETRIES,
        "ILLEGAL_GENERATION": RETRIES,
        "INCONSISTENT_GROUP_PROTOCOL": OBSERVES,
        "INVALID_GROUP_ID": OBSERVES,
        "UNKNOWN_MEMBER_ID": ANEW,
        "REBALANCE_IN_PROGRESS": RETRIES,
        "GROUP_AUTHORIZATION_FAILED": OBSERVES,
        "UNSUPPORTED_VERSION": OBSERVES,
        "FENCED_INSTANCE_ID": STOPS,
    },
    "Heartbeat": {
        "UNKNOWN_SERVER_ERROR": RETRIES,
        "COORDINATOR_LOAD_IN_PROGRESS": RETRIES,
        "COORDINATOR_NOT_AVAILABLE": RETRIES,
        "NOT_COORDINATOR": RETRIES,
        "ILLEGAL_GENERATION": RETRIES,
        "INVALID_GROUP_ID": RETRIES,
        "UNKNOWN_MEMBER_ID": ANEW,
        "REBALANCE_IN_PROGRESS": RETRIES,
        "GROUP_AUTHORIZATION_FAILED": OBSERVES,
        "UNSUPPORTED_VERSION": RETRIES,
        "FENCED_INSTANCE_ID": STOPS,
    },
    "FindCoordinator": {
        "UNKNOWN_SERVER_ERROR": RETRIES,
        "COORDINATOR_LOAD_IN_PROGRESS": RETRIES,
        "COORDINATOR_NOT_AVAILABLE": RETRIES,
        "GROUP_AUTHORIZATION_FAILED": OBSERVES,
        "INVALID_REQUEST": RETRIES,
        "TRANSACTIONAL_ID_AUTHORIZATION_FAILED": OBSERVES,
    },
}
LEAVING: Final = {
    "UNKNOWN_SERVER_ERROR": False,
    "COORDINATOR_LOAD_IN_PROGRESS": False,
    "COORDINATOR_NOT_AVAILABLE": False,
    "NOT_COORDINATOR": False,
    "INVALID_GROUP_ID": False,
    "UNKNOWN_MEMBER_ID": True,
    "GROUP_AUTHORIZATION_FAILED": False,
    "UNSUPPORTED_VERSION": False,
    "FENCED_INSTANCE_ID": True,
}
"""True where the agent does not have to leave any more."""
OFFSETS: Final = (
    "UNKNOWN_SERVER_ERROR",
    "UNKNOWN_TOPIC_OR_PARTITION",
    "COORDINATOR_LOAD_IN_PROGRESS",
    "COORDINATOR_NOT_AVAILABLE",
    "NOT_COORDINATOR",
    "INVALID_GROUP_ID",
    "UNKNOWN_MEMBER_ID",
    "TOPIC_AUTHORIZATION_FAILED",
    "GROUP_AUTHORIZATION_FAILED",
    "GROUP_ID_NOT_FOUND",
    "UNSTABLE_OFFSET_COMMIT",
    "STALE_MEMBER_EPOCH",
)
_MAX_A_SECOND: Final = 8
_COUNTED_SECONDS: Final = 1.2
"""How long an error is answered at least."""

pytestmark = [
    # kafka-python does not close the socket of a client that is closed while it connects
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]
_FORCED: Final = {"JoinGroup": REBALANCE_IN_PROGRESS, "SyncGroup": REBALANCE_IN_PROGRESS, "FindCoordinator": 16}
"""The error of heartbeats that makes the agent send the request under test."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """What happened in one run."""

    broker: ScriptedBroker
    error_at: float
    well_at: float
    reported: bool
    logged: tuple[Any, ...]
    role: str
    members: Mapping[str, str | None]
    presences: frozenset[MemberIdentity]
    ended: bool


def name_of(code: int) -> str:
    """The name of an error in reports."""
    return str(kafka_errors.for_code(code).__name__)


def _silent(api: str, error: str) -> bool:
    """Whether nothing is wrong, so that nothing is reported."""
    return (api, error) == ("Heartbeat", "REBALANCE_IN_PROGRESS") or (api == "LeaveGroup" and LEAVING[error])


def _run(api: str, error: str, logs: list[Any], metrics: Metrics) -> Ran:
    """Run one error of one kind of request."""
    code, group = CODES[error], f"{api}-{error}"
    broker = ScriptedBroker()
    leader = leader_of(broker, group, metrics)
    leader.start()
    assert until(lambda: leader._reporter.role == "following"), f"{group}: never joined"
    error_at = time.monotonic()

    def script(asked: str, request: Any) -> int:
        if asked == "JoinGroup" and api == "JoinGroup" and not request.member_id and not request.group_instance_id:
            return 0
        return code if asked == api else _FORCED.get(api, 0) if asked == "Heartbeat" else 0

    words = (name_of(code), "fenced", "membership-lost", "backs-off")
    read = 0

    def reported() -> bool:
        nonlocal read
        new = logs[read:]  # all runs write to it: to read it from the start each time would keep a processor busy
        read += len(new)
        return any(one.get("group") == group and any(word in str(one) for word in words) for one in new)

    broker.script = script
    if api == "LeaveGroup":
        leader.stop()
        leader.join(LONGEST_SECONDS)
    told = _silent(api, error) or until(reported)
    until(lambda: time.monotonic() > error_at + _COUNTED_SECONDS)
    does = EXPECTED.get(api, {}).get(error)
    if does in _ROLES:  # the error is reported before the role
        until(lambda: leader._reporter.role in _ROLES[does])
    role, well_at = leader._reporter.role, time.monotonic()
    broker.script = lambda _api, _request: 0
    if does in (RETRIES, ANEW):
        until(lambda: leader._reporter.role == "following" and broker.count("Heartbeat", well_at) > 1)
        role = leader._reporter.role
    members = dict(broker.members)
    leader.stop()
    leader.join(LONGEST_SECONDS)
    return Ran(
        broker=broker,
        error_at=error_at,
        well_at=well_at,
        reported=told,
        logged=tuple(one for one in tuple(logs) if one.get("group") == group),
        role=role,
        members=members,
        presences=leader.member_ids(),
        ended=not leader.is_alive(),
    )


def _errors(api: str, does: Mapping[str, Does | bool]) -> list[ParameterSet]:
    """All errors of a kind of request; the first of each thing that the agent does about them is in the gate."""
    found, known = [], set[tuple[Does | bool, bool]]()
    for error, what in does.items():
        kind = what, _silent(api, error)
        found.append(pytest.param(error, marks=[pytest.mark.extended] if kind in known else []))
        known.add(kind)
    return found


_TESTS: Final = {
    "test_join_group": "JoinGroup",
    "test_sync_group": "SyncGroup",
    "test_heartbeat": "Heartbeat",
    "test_find_coordinator": "FindCoordinator",
    "test_leave_group": "LeaveGroup",
}
"""The tests that share the runs, and their kinds of requests."""


@pytest.fixture(scope="module")
def runs(request: pytest.FixtureRequest) -> Iterator[dict[tuple[str, str], Ran]]:
    """The runs of the selected tests, in parallel."""
    cases = [
        (_TESTS[item.originalname], str(item.callspec.params["error"]))
        for item in request.session.items
        if isinstance(item, pytest.Function) and item.path == request.path and item.originalname in _TESTS
    ]
    metrics = Metrics()
    with capture_logs() as logs, ThreadPoolExecutor(len(cases)) as pool:
        running = {case: pool.submit(_run, *case, logs, metrics) for case in cases}
        ran = {case: future.result() for case, future in running.items()}
    clear_away()
    yield ran
    for one in ran.values():
        one.broker.close()


def _check(api: str, error: str, ran: Ran) -> None:
    """Check what holds for every error, and what the agent does about this one."""
    broker, does = ran.broker, EXPECTED[api][error]
    assert broker.busiest_second(api, ran.error_at) <= _MAX_A_SECOND
    assert ran.reported, ran.logged
    during = [one for one in broker.arrivals if ran.error_at <= one.at < ran.well_at]
    left = [one.request.members[0] for one in during if one.api == "LeaveGroup"]
    if does is OBSERVES:
        assert ran.role in _ROLES[OBSERVES]
        attempts = sum(one.api == "JoinGroup" for one in during)
        assert attempts <= 2 + (ran.well_at - ran.error_at) / 2
        assert [(one.member_id, one.group_instance_id) for one in left] in ([("agent-1", "samerack")], [])
        return
    assert left == []
    if does is STOPS:
        assert ran.role in _ROLES[STOPS]
        assert ran.presences == frozenset()
        assert broker.count(api, ran.error_at) == 1
        return
    assert ran.role == "following"
    joins = [one.request.member_id for one in broker.arrivals if one.api == "JoinGroup" and one.at >= ran.error_at]
    if does is ANEW:
        assert "" in joins
        assert "agent-1" not in ran.members
    else:
        assert set(joins) <= {"agent-1"}
        assert list(ran.members) == ["agent-1"]


@pytest.mark.parametrize("error", _errors("JoinGroup", EXPECTED["JoinGroup"]))
def test_join_group(error: str, runs: dict[tuple[str, str], Ran]) -> None:
    """Each JoinGroup error is reported, causes no storm, and ends the membership only where it is useless."""
    _check("JoinGroup", error, runs["JoinGroup", error])


@pytest.mark.parametrize("error", _errors("SyncGroup", EXPECTED["SyncGroup"]))
def test_sync_group(error: str, runs: dict[tuple[str, str], Ran]) -> None:
    """The same holds for each error of SyncGroup."""
    _check("SyncGroup", error, runs["SyncGroup", error])


@pytest.mark.parametrize("error", _errors("Heartbeat", EXPECTED["Heartbeat"]))
def test_heartbeat(error: str, runs: dict[tuple[str, str], Ran]) -> None:
    """The same holds for each error of Heartbeat."""
    _check("Heartbeat", error, runs["Heartbeat", error])


@pytest.mark.parametrize("error", _errors("FindCoordinator", EXPECTED["FindCoordinator"]))
def test_find_coordinator(error: str, runs: dict[tuple[str, str], Ran]) -> None:
    """The same holds for each error of FindCoordinator."""
    _check("FindCoordinator", error, runs["FindCoordinator", error])


@pytest.mark.parametrize("error", _errors("LeaveGroup", LEAVING))
def test_leave_group(error: str, runs: dict[tuple[str, str], Ran]) -> None:
    """A failed LeaveGroup is reported and left to the supervisor; the thread ends, although the error never does."""
    ran = runs["LeaveGroup", error]
    assert ran.broker.busiest_second("LeaveGroup", ran.error_at) <= _MAX_A_SECOND
    assert ran.ended
    left = frozenset({MemberIdentity(group=f"LeaveGroup-{error}", member_id="agent-1", instance_id="samerack")})
    if LEAVING[error]:
        assert ran.broker.count("LeaveGroup") == 1
        assert ran.presences == frozenset()
    else:
        assert ran.reported, ran.logged
        assert ran.presences == left
    assert {one.request.members[0].member_id for one in ran.broker.arrivals if one.api == "LeaveGroup"} == {"agent-1"}


@pytest.mark.parametrize("error", OFFSETS)
def test_offset_fetch(error: str) -> None:
    """An error of OffsetFetch is a gap with its reason; the request is repeated at the next poll only."""
    broker = ScriptedBroker(script=lambda api, _request: CODES[error] if api == "OffsetFetch" else 0)
    wire = Wire(for_kafka_python({"bootstrap.servers": broker.address}))
    listed = ListedGroup(group="orders", coordinator=1, protocol_type="consumer", state="Stable", type="classic")
    try:
        found, gaps = committed(wire, [listed], lambda topic, number: (topic, number))
    finally:
        wire.close()
        broker.close()
    assert not found.get("orders")
    assert [(gap.what, name_of(CODES[error]) in gap.reason) for gap in gaps] == [(Family.COMMITTED, True)]
    assert broker.count("OffsetFetch") == 1


def test_the_page_has_a_row_for_every_error() -> None:
    """Every error that Kafka 4.3 has for these requests is in tests/broker_errors.md once, which names the tests."""
    section = (Path(__file__).parents[3] / "broker_errors.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\w+(?:, \w+)*) \| (`[A-Z_]+`(?:, `[A-Z_]+`)*) \| .+ \|$", section, re.MULTILINE)
    tests = {
        "JoinGroup": (test_join_group, EXPECTED["JoinGroup"]),
        "SyncGroup": (test_sync_group, EXPECTED["SyncGroup"]),
        "Heartbeat": (test_heartbeat, EXPECTED["Heartbeat"]),
        "FindCoordinator": (test_find_coordinator, EXPECTED["FindCoordinator"]),
        "LeaveGroup": (test_leave_group, LEAVING),
        "OffsetFetch": (test_offset_fetch, OFFSETS),
    }
    documented = [(api, error) for apis, errors in rows for api in apis.split(", ") for error in names_in(errors)]
    assert sorted(documented) == sorted((api, error) for api, (_, errors) in tests.items() for error in errors)
    assert {api: frozenset(errors) for api, (_, errors) in tests.items()} == KAFKA_ERRORS
    assert {test.__name__ for test, _ in tests.values()} <= set(re.findall(r"`(test_\w+)`", section))


def names_in(errors: str) -> list[str]:
    """The errors of a cell."""
    return re.findall(r"`([A-Z_]+)`", errors)
