"""The members of many groups on one client: none waits for another's JoinGroup or plan."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from samerack.agent.leading import membership as membership_module
from samerack.agent.leading.membership import Membership
from samerack.cluster import client as client_module
from samerack.cluster.client import ClusterClient, SharedClient, connect
from samerack.common.errors import AgentError
from samerack.protocol.consumer import encode_subscription
from samerack.protocol.values import Subscription
from samerack.settings.leading import LeadingSettings
from tests.unit.cluster.scripted_broker import ScriptedBroker, no_errors
from tests.unit.waiting import LONGEST_SECONDS, until


@pytest.fixture
def broker() -> Iterator[ScriptedBroker]:
    """The coordinator of all groups."""
    started = ScriptedBroker()
    yield started
    started.close()


@pytest.fixture
def client(broker: ScriptedBroker) -> Iterator[ClusterClient]:
    """The client that all members share."""
    connected = connect({"bootstrap_servers": broker.address})
    yield connected
    connected.close()


def _member(client: ClusterClient, instance_id: str, *, assign: Callable[[Any], Any] = lambda _: {}) -> Membership:
    settings = LeadingSettings(instance_id=instance_id)
    return Membership(client, group="orders", settings=settings, assign=assign, wake=lambda: None)


def test_a_parked_join_keeps_no_other_member_waiting(broker: ScriptedBroker, client: ClusterClient) -> None:
    """A broker handles no later request of a connection while a JoinGroup is parked, so each has its own."""
    first, second = _member(client, "a"), _member(client, "b")
    assert second.join(LONGEST_SECONDS)
    broker.script = lambda api, request: None if api == "JoinGroup" and request.group_instance_id == "a" else 0
    assert not first.join(0.1)
    since = time.monotonic()
    assert second.describe().members
    assert until(lambda: broker.count("Heartbeat", since) > 0)
    second.trigger("a test")
    assert second.join(LONGEST_SECONDS)
    for one in (first, second):
        one.leave()
        one.close()


class _LedByTheAgent(ScriptedBroker):
    """A coordinator that makes who joins the leader, of members with many topics, and throttles its client."""

    consumers = 0
    throttle_ms = 0

    def _joingroup(self, answer: Any, request: Any, code: int) -> Any:
        made = super()._joingroup(answer, request, code)
        made.throttle_time_ms = self.throttle_ms
        if not made.error_code:
            topics = tuple(f"payments.events.topic-{number:04}" for number in range(100))
            reads = encode_subscription(Subscription(version=1, topics=topics))
            made.leader = made.member_id
            every = {made.member_id: b"", **{f"consumer-{number}": reads for number in range(self.consumers)}}
            made.members = [
                answer.JoinGroupResponseMember(member_id=name, group_instance_id=None, metadata=content)
                for name, content in every.items()
            ]
        return made

    def _describegroups(self, answer: Any, request: Any, code: int) -> Any:
        made = super()._describegroups(answer, request, code)
        made.throttle_time_ms = self.throttle_ms
        return made

    def _apiversions(self, answer: Any, request: Any, code: int) -> Any:
        made = super()._apiversions(answer, request, code)
        made.api_keys.append(answer.ApiVersion(api_key=1, min_version=4, max_version=12))  # a broker since 2.0
        return made


@pytest.mark.parametrize(("throttle_ms", "consumers"), [(200, 1), (0, 500)], ids=["a quota", "a large group"])
def test_a_leader_sends_its_plan_whatever_the_answer_to_its_join_is_like(throttle_ms: int, consumers: int) -> None:
    """Else all members wait for it: the library refuses requests while a broker throttles, and answers above 1 MB."""
    broker = _LedByTheAgent()
    broker.throttle_ms, broker.consumers = throttle_ms, consumers
    client = connect({"bootstrap_servers": broker.address})
    planned: list[int] = []

    def plan(joined: Any) -> dict[str, bytes]:
        planned.append(len(joined.members))
        return {}

    member = _member(client, "a", assign=plan)
    assert member.join(LONGEST_SECONDS)
    assert planned == [1 + consumers]
    assert [broker.count(api) for api in ("JoinGroup", "SyncGroup")] == [1, 1]
    assert [member.describe().name for _ in range(3)] == ["orders"] * 3
    for one in (member, client, broker):
        one.close()


def test_a_stable_member_has_no_connection_of_its_own(client: ClusterClient) -> None:
    """It is closed once SyncGroup is answered: a thousand groups need no thousand connections."""
    members = [_member(client, f"instance-{number}") for number in range(20)]
    assert all(one.join(LONGEST_SECONDS) for one in members)
    open_now = client.connections._open
    assert until(lambda: len(open_now) <= 1)
    for one in members:
        one.close()


def test_a_plan_delays_no_heartbeat(
    broker: ScriptedBroker, client: ClusterClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While a member computes a plan, others are heard of."""
    monkeypatch.setattr(membership_module, "HEARTBEAT_SECONDS", 0.05)
    planning, may_end = threading.Event(), threading.Event()

    def plan(_: Any) -> dict[str, bytes]:
        planning.set()
        may_end.wait(LONGEST_SECONDS)
        return {}

    other, leader = _member(client, "b"), _member(client, "a", assign=plan)
    assert other.join(LONGEST_SECONDS)
    leads = client.connections.call_soon(_lead, leader)
    assert planning.wait(LONGEST_SECONDS)
    since = time.monotonic()
    assert until(lambda: broker.count("Heartbeat", since) > 2)
    may_end.set()
    assert until(lambda: bool(leads.is_done))
    assert leads.value == {}
    for one in (other, leader):
        one.close()


async def _lead(member: Membership) -> Any:
    """Have a member plan as if a JoinGroup response had made it the leader; return the plan."""
    return await member._connections.run_aside(lambda: member._assign(None))  # type: ignore[arg-type]  # the plan needs none


def test_a_member_that_was_closed_sends_nothing(broker: ScriptedBroker, client: ClusterClient) -> None:
    """The client lives on: what the member had begun must not join again after it has left."""
    member = _member(client, "a")
    assert member.join(LONGEST_SECONDS)
    broker.script = lambda api, _: 14 if api == "JoinGroup" else 0  # the coordinator loads, so that it joins again
    member.trigger("a test")
    assert not member.join(0.1)
    member.leave()
    member.close()
    assert until(lambda: sum(one.fileno() >= 0 for one in broker._open) == 1)  # the broker has read what was sent
    broker.script = no_errors
    since = time.monotonic()
    time.sleep(1.0)
    assert broker.count("JoinGroup", since) == broker.count("SyncGroup", since) == 0
    assert broker.members == {}


def test_a_member_that_has_left_joins_only_when_asked(broker: ScriptedBroker, client: ClusterClient) -> None:
    """Found: an attempt that had paused sent its JoinGroup after LeaveGroup, and a member that nobody drives was in."""
    member = _member(client, "a")
    broker.script = lambda api, _: 14 if api == "JoinGroup" else 0
    while member._joins.failures < 5 or member._attempt is None:  # until one pauses before its JoinGroup
        assert not member.join(0.1)
    member.leave()
    broker.script = no_errors
    time.sleep(2.0)
    assert broker.members == {}
    assert member.join(LONGEST_SECONDS)
    member.leave()
    member.close()


def test_sleeping_members_wake_in_order(client: ClusterClient) -> None:
    """A short sleep that begins during a longer one ends first."""
    ended: list[float] = []

    async def sleep(seconds: float) -> None:
        await client.connections.sleep(seconds)
        ended.append(seconds)

    sleeps = [client.connections.call_soon(sleep, seconds) for seconds in (0.3, 0.1, 0.2, 0.0)]
    assert until(lambda: all(one.is_done for one in sleeps))
    assert ended == [0.0, 0.1, 0.2, 0.3]


def test_who_waits_for_a_failed_attempt_makes_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a thousand groups would try for ten seconds each, one after the other."""
    attempts, may_fail = [], threading.Event()

    def fail(config: dict[str, Any]) -> ClusterClient:
        attempts.append(config)
        may_fail.wait(LONGEST_SECONDS)
        raise AgentError("no broker")

    monkeypatch.setattr(client_module, "connect", fail)
    shared, errors = SharedClient({}), []

    def ask() -> None:
        try:
            shared.get()
        except AgentError as error:
            errors.append(str(error))

    asking = [threading.Thread(target=ask) for _ in range(5)]
    for one in asking:
        one.start()
    assert until(lambda: bool(attempts))
    time.sleep(0.1)  # for the others to wait
    may_fail.set()
    for one in asking:
        one.join()
    assert (errors, len(attempts)) == (["no broker"] * 5, 1)
    with pytest.raises(AgentError):
        shared.get()
    assert len(attempts) == 2
