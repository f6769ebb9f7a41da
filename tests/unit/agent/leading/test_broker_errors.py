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
from samerack.agent.supervisor.protocol import MemberIdentity
from samerack.auth.kafka_config import for_kafka_python
from samerack.cluster.wire import BrokerClient
from samerack.traffic.describe import committed
from samerack.traffic.groups import ListedGroup
from samerack.traffic.snapshot import Family
from tests.unit.agent.leading.scripted import clear_away, leader_of
from tests.unit.cluster.scripted_broker import REBALANCE_IN_PROGRESS, ScriptedBroker
from tests.unit.waiting import LONGEST_SECONDS, until

CODES: Final = {str(one.message): code for code, one in kafka_errors.kafka_errors.items() if code is not None}
CODES["UNKNOWN_SERVER_ERROR"] = -1  # kafka-python calls it UNKNOWN


class Does(Enum):
    """What the agent does about an error."""

    RETRIES = "repeats the request after growing pauses, as the same member"
    ANEW = "joins anew, without its old member id"
    OBSERVES = "leaves, says why, and stays outside for a pause that doubles"
    STOPS = "stops: another agent has its place"
    REPORTS = "says that it could not leave, for the supervisor"
    IS_OUT = "ends: it does not have to leave any more"


RETRIES, ANEW, OBSERVES, STOPS, _REPORTS, IS_OUT = Does
_ROLES: Final = {OBSERVES: ("outside", "observing"), STOPS: ("fenced",)}  # what the group's role is after it
_MOVES: Final = "UNKNOWN_SERVER_ERROR COORDINATOR_LOAD_IN_PROGRESS COORDINATOR_NOT_AVAILABLE"
_ELSEWHERE: Final = f"{_MOVES} NOT_COORDINATOR"


def _table(**errors: str) -> dict[str, Does]:
    return {error: Does[does] for does, names in errors.items() for error in names.split()}


EXPECTED: Final[Mapping[str, Mapping[str, Does]]] = {
    "JoinGroup": _table(
        RETRIES=f"{_ELSEWHERE} REBALANCE_IN_PROGRESS MEMBER_ID_REQUIRED",
        OBSERVES="INCONSISTENT_GROUP_PROTOCOL INVALID_GROUP_ID INVALID_SESSION_TIMEOUT GROUP_AUTHORIZATION_FAILED "
        "UNSUPPORTED_VERSION GROUP_MAX_SIZE_REACHED",
        ANEW="UNKNOWN_MEMBER_ID",
        STOPS="FENCED_INSTANCE_ID",
    ),
    "SyncGroup": _table(
        RETRIES="COORDINATOR_LOAD_IN_PROGRESS COORDINATOR_NOT_AVAILABLE NOT_COORDINATOR ILLEGAL_GENERATION "
        "REBALANCE_IN_PROGRESS",
        OBSERVES="INCONSISTENT_GROUP_PROTOCOL INVALID_GROUP_ID GROUP_AUTHORIZATION_FAILED UNSUPPORTED_VERSION "
        "UNKNOWN_SERVER_ERROR",
        ANEW="UNKNOWN_MEMBER_ID",
        STOPS="FENCED_INSTANCE_ID",
    ),
    "Heartbeat": _table(
        RETRIES=f"{_ELSEWHERE} ILLEGAL_GENERATION INVALID_GROUP_ID REBALANCE_IN_PROGRESS UNSUPPORTED_VERSION",
        ANEW="UNKNOWN_MEMBER_ID",
        OBSERVES="GROUP_AUTHORIZATION_FAILED",
        STOPS="FENCED_INSTANCE_ID",
    ),
    "FindCoordinator": _table(
        RETRIES=f"{_MOVES} INVALID_REQUEST", OBSERVES="GROUP_AUTHORIZATION_FAILED TRANSACTIONAL_ID_AUTHORIZATION_FAILED"
    ),
    "LeaveGroup": _table(
        REPORTS=f"{_ELSEWHERE} INVALID_GROUP_ID GROUP_AUTHORIZATION_FAILED UNSUPPORTED_VERSION",
        IS_OUT="UNKNOWN_MEMBER_ID FENCED_INSTANCE_ID",
    ),
}
"""What a 4.3 broker answers: the comments of `org.apache.kafka.common.requests.*Response`, what `AbstractCoordinator`
handles, and what `GroupCoordinatorService` and `GroupMetadataManager` throw; any request may fail as unknown."""
OFFSETS: Final = (
    f"{_ELSEWHERE} UNKNOWN_TOPIC_OR_PARTITION INVALID_GROUP_ID UNKNOWN_MEMBER_ID TOPIC_AUTHORIZATION_FAILED "
    "GROUP_AUTHORIZATION_FAILED GROUP_ID_NOT_FOUND UNSTABLE_OFFSET_COMMIT STALE_MEMBER_EPOCH"
).split()
_MAX_A_SECOND: Final = 8
_COUNTED_SECONDS: Final = 1.2  # how long an error is answered at least

pytestmark = [
    # kafka-python does not close the socket of a client that is closed while it connects
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
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
    return (api, error) == ("Heartbeat", "REBALANCE_IN_PROGRESS") or EXPECTED[api][error] is IS_OUT


def _run(api: str, error: str, logs: list[Any], metrics: Metrics) -> Ran:
    """Run one error of one kind of request."""
    code, group = CODES[error], f"{api}-{error}"
    broker = ScriptedBroker()
    leader = leader_of(broker, group, metrics)
    leader.start()
    assert until(lambda: leader.reporter.role == "following"), f"{group}: never joined"
    error_at = time.monotonic()

    def script(asked: str, request: Any) -> int:
        if asked == "JoinGroup" and api == "JoinGroup" and not request.member_id and not request.group_instance_id:
            return 0
        return code if asked == api else _FORCED.get(api, 0) if asked == "Heartbeat" else 0

    words = [name_of(code), "fenced", "membership-lost", "backs-off"]
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
    outcome = _silent(api, error) or until(reported)
    until(lambda: time.monotonic() > error_at + _COUNTED_SECONDS)
    does = EXPECTED[api][error]
    if does in _ROLES:  # the error is reported before the role
        until(lambda: leader.reporter.role in _ROLES[does])
    role, well_at = leader.reporter.role, time.monotonic()
    broker.script = lambda _api, _request: 0
    if does in (RETRIES, ANEW):
        until(lambda: leader.reporter.role == "following" and broker.count("Heartbeat", well_at) > 1)
        role = leader.reporter.role
    members = dict(broker.members)
    leader.stop()
    leader.join(LONGEST_SECONDS)
    return Ran(
        broker=broker,
        error_at=error_at,
        well_at=well_at,
        reported=outcome,
        logged=tuple(one for one in tuple(logs) if one.get("group") == group),
        role=role,
        members=members,
        presences=leader.member_ids(),
        ended=not leader.is_alive(),
    )


def _cases() -> list[ParameterSet]:
    """All errors; the first of each thing that the agent does about a kind of request is in the gate."""
    found, known = [], set[tuple[str, Does, bool]]()
    for api, errors in EXPECTED.items():
        for error, does in errors.items():
            kind = api, does, _silent(api, error)
            found.append(pytest.param(api, error, marks=[pytest.mark.extended] if kind in known else []))
            known.add(kind)
    return found


@pytest.fixture(scope="module")
def runs(request: pytest.FixtureRequest) -> Iterator[dict[tuple[str, str], Ran]]:
    """The runs of the selected tests, in parallel; then those of LeaveGroup, for which the agent has two seconds."""
    cases = [
        (str(item.callspec.params["api"]), str(item.callspec.params["error"]))
        for item in request.session.items
        if isinstance(item, pytest.Function) and item.path == request.path and item.originalname == _SHARING
    ]
    metrics = Metrics()
    with capture_logs() as logs, ThreadPoolExecutor(len(cases)) as pool:
        running = {case: pool.submit(_run, *case, logs, metrics) for case in cases if case[0] != "LeaveGroup"}
        ran = {case: future.result() for case, future in running.items()}
        ran |= {case: _run(*case, logs, metrics) for case in cases if case not in ran}
    clear_away()
    yield ran
    for one in ran.values():
        one.broker.close()


@pytest.mark.parametrize(("api", "error"), _cases())
def test_an_error_of_a_member(api: str, error: str, runs: dict[tuple[str, str], Ran]) -> None:
    """Each is reported, causes no storm, and ends the membership only where it is useless.

    A failed LeaveGroup is left to the supervisor; the thread ends, although the error never does.
    """
    ran, does = runs[api, error], EXPECTED[api][error]
    broker = ran.broker
    assert broker.busiest_second(api, ran.error_at) <= _MAX_A_SECOND
    assert ran.reported, "\n".join(map(str, ran.logged))
    during = [one for one in broker.arrivals if ran.error_at <= one.at < ran.well_at]
    left = [one.request.members[0] for one in during if one.api == "LeaveGroup"]
    if api == "LeaveGroup":
        own = MemberIdentity(group=f"LeaveGroup-{error}", member_id="agent-1", instance_id="samerack")
        assert ran.ended
        assert ran.presences == (frozenset() if does is IS_OUT else frozenset({own}))
        assert {one.member_id for one in left} <= {"agent-1"}
        assert does is not IS_OUT or len(left) == 1
        return
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


_SHARING: Final = test_an_error_of_a_member.__name__  # the test that shares the runs


@pytest.mark.parametrize("error", OFFSETS)
def test_offset_fetch(error: str) -> None:
    """An error of OffsetFetch is a gap with its reason; the request is repeated at the next poll only."""
    broker = ScriptedBroker(script=lambda api, _request: CODES[error] if api == "OffsetFetch" else 0)
    wire = BrokerClient(for_kafka_python({"bootstrap.servers": broker.address}))
    listed = ListedGroup(group="orders", coordinator=1, protocol_type="consumer", state="Stable", type="classic")
    try:
        found, gaps = committed(wire, [listed], lambda topic, number: (topic, number), before={})
    finally:
        wire.close()
        broker.close()
    assert "orders" not in found or not found["orders"].offsets
    assert [(gap.what, name_of(CODES[error]) in gap.reason) for gap in gaps] == [(Family.COMMITTED, True)]
    assert broker.count("OffsetFetch") == 1


def test_the_page_has_a_row_for_every_error() -> None:
    """Every error that Kafka 4.3 has for these requests is in tests/broker_errors.md once."""
    section = (Path(__file__).parents[3] / "broker_errors.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\w+(?:, \w+)*) \| (`[A-Z_]+`(?:, `[A-Z_]+`)*) \| .+ \|$", section, re.MULTILINE)
    documented = [
        (api, error)
        for apis, errors in rows
        for api in apis.split(", ")
        for error in re.findall(r"`([A-Z_]+)`", errors)
    ]
    errors = {**EXPECTED, "OffsetFetch": OFFSETS}
    assert sorted(documented) == sorted((api, error) for api, names in errors.items() for error in names)
