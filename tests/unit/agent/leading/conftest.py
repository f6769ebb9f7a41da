"""A membership on a client that never connects, and the coordinator that answers it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, Final

import pytest
from kafka import errors as kafka_errors
from kafka.future import Future

from samerack.agent.leading.membership import Membership
from samerack.cluster.client import ClusterClient
from samerack.cluster.group_member import Joined
from samerack.settings.leading import LeadingSettings

WAIT_SECONDS: Final = 2.0


@dataclass
class Coordinator:
    """Replaces a broker: `leaders` has the leader for each JoinGroup; a pending member is granted or not."""

    leaders: list[str] = field(default_factory=lambda: ["other", "me"])
    members: list[Any] = field(default_factory=list)  # what a leader receives
    skips: bool = False  # whether a leader's assignment stays in force (KIP-814)
    assign: Callable[[Joined], dict[str, bytes]] = lambda _: {}
    assignment: bytes = b""  # what a follower receives
    reserves: int = kafka_errors.MemberIdRequiredError.errno
    leaves: list[int] = field(default_factory=lambda: [0])  # the errors of LeaveGroup in turn; the last one stays
    beats: int = 0  # the error of each Heartbeat
    sent: list[str] = field(default_factory=list)
    requests: list[Any] = field(default_factory=list)
    parks: int = 0  # the number of the JoinGroup that is answered only on demand
    parked: tuple[Any, Any] = (None, None)
    meanwhile: Callable[[], None] = lambda: None

    def of(self, kind: str) -> list[Any]:
        """The requests of one kind, without reservations."""
        return [one for name, one in zip(self.sent, self.requests, strict=True) if name == kind]

    def answer(self, request: Any) -> Any:
        """Answer one request."""
        name = type(request).__name__.removesuffix("Request")
        reserves = name == "JoinGroup" and not request.group_instance_id
        self.sent.append("reserve" if reserves else name)
        self.requests.append(request)
        if reserves:
            self.meanwhile()
            return SimpleNamespace(error_code=self.reserves, member_id="pending")
        if name == "LeaveGroup":
            return SimpleNamespace(
                error_code=self.leaves.pop(0) if len(self.leaves) > 1 else self.leaves[0], members=[]
            )
        if name == "Heartbeat":
            return SimpleNamespace(error_code=self.beats)
        leader = self.leaders.pop(0) if name == "JoinGroup" else ""
        return SimpleNamespace(
            error_code=0,
            protocol_type="consumer",
            protocol_name="range",
            generation_id=7,
            leader=leader,
            member_id="me",
            skip_assignment=self.skips,
            members=self.members if leader == "me" else [],
            assignment=self.assignment,
        )


@pytest.fixture
def coordinator() -> Coordinator:
    """A coordinator of a group that another member leads."""
    return Coordinator()


@pytest.fixture
def membership(coordinator: Coordinator, monkeypatch: pytest.MonkeyPatch) -> Iterator[Membership]:
    """A membership on a client that never connects."""

    async def find(membership: Membership) -> int:
        membership._coordinator = 1
        return 1

    async def beat(_membership: Membership, _series: object) -> None:
        pass

    monkeypatch.setattr(Membership, "_find", find)
    monkeypatch.setattr(Membership, "_knows_coordinator", lambda _: True)
    monkeypatch.setattr(Membership, "_beat", beat)
    client = ClusterClient({"bootstrap_servers": "127.0.0.1:1"})
    client.net.start()
    joined = Membership(
        client,
        group="orders",
        settings=LeadingSettings(),
        assign=lambda members: coordinator.assign(members),  # noqa: PLW0108 - tests replace it
        wake=lambda: None,
    )

    def send(request: Any, **_: object) -> Any:
        answer, future = coordinator.answer(request), Future()
        if coordinator.sent.count("JoinGroup") == coordinator.parks and coordinator.sent[-1] == "JoinGroup":
            coordinator.parked = future, answer
            return future
        return future.success(answer)

    monkeypatch.setattr(client.connections, "send", send)
    yield joined
    client.close()
