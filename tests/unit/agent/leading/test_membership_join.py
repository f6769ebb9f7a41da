"""A join that ends while no call waits for it: the library would forget it, and join a second time."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from kafka.net.compat import KafkaNetClient
from kafka.structs import MemberState

from samerack.agent.leading.membership import Membership
from samerack.cluster.client import close
from samerack.common.settings import LeadingSettings
from tests.unit.waiting import LONGEST_SECONDS, until


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The requests sent to the coordinator."""
    sent: list[Any] = []

    async def ready(_membership: Membership, **_: object) -> bool:
        return True

    monkeypatch.setattr(Membership, "ensure_coordinator_ready_async", ready)
    monkeypatch.setattr(Membership, "coordinator_unknown", lambda _: False)
    monkeypatch.setattr(Membership, "_maybe_start_heartbeat_loop", lambda _: None)
    return sent


@pytest.fixture
def answers() -> threading.Event:
    """Whether the coordinator answers."""
    return threading.Event()


@pytest.fixture
def membership(requests: list[Any], answers: threading.Event) -> Iterator[Membership]:
    """A membership that follows, on a client that never connects."""
    client = KafkaNetClient(bootstrap_servers="127.0.0.1:1")
    client._net.start()
    joined = Membership(client, group="orders", settings=LeadingSettings(), assign=lambda _: {}, wake=lambda: None)

    async def send(request: Any, **_: object) -> SimpleNamespace:
        requests.append(request)
        while not answers.is_set():
            await client._net.sleep(0.01)
        return SimpleNamespace(
            error_code=0,
            protocol_type="consumer",
            protocol_name="range",
            generation_id=7,
            leader="other",
            member_id="me",
            skip_assignment=False,
            members=[],
            assignment=b"",
        )

    client._manager.send = send
    yield joined
    close(client)


def _kinds(requests: list[Any]) -> list[str]:
    return [type(request).__name__ for request in requests]


def test_a_join_that_ends_between_two_calls_is_told_and_not_repeated(
    membership: Membership, requests: list[Any], answers: threading.Event
) -> None:
    """The next call returns it: a leader's second JoinGroup would rebalance the group again."""
    assert (membership.wants_join, membership.join(0.05)) == (True, False)
    answers.set()
    assert until(lambda: membership.state is MemberState.STABLE)
    assert (membership.wants_join, membership.join(LONGEST_SECONDS), membership.wants_join) == (True, True, False)
    assert _kinds(requests) == ["JoinGroupRequest", "SyncGroupRequest"]


def test_a_join_that_ends_in_time_is_told_once(
    membership: Membership, requests: list[Any], answers: threading.Event
) -> None:
    """After `join` has returned there is nothing more to report."""
    answers.set()
    assert membership.join(LONGEST_SECONDS)
    assert not membership.wants_join
    assert _kinds(requests) == ["JoinGroupRequest", "SyncGroupRequest"]
