"""Broker behavior that the agent relies on, tested directly with the agent's memberships and no consumer."""

from __future__ import annotations

import gc
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import Any

import pytest
from kafka.structs import MemberState

from samerack.agent.leading.member import Hold
from samerack.agent.leading.membership import Membership
from samerack.agent.leading.order import is_first
from samerack.cluster.client import close, connect
from samerack.cluster.group_member import Joined
from samerack.common.kafka_config import for_kafka_python
from samerack.common.settings import LeadingSettings
from sandbox.contract import KafkaCluster

_EMPTY = b"\x00\x00\x00\x00\x00\x00\xff\xff\xff\xff"
"""An assignment without partitions."""

Enter = Callable[[str], "Player"]


class Player:
    """One membership in one group, and the JoinGroup answers for which it planned."""

    def __init__(self, bootstrap: str, group: str, instance_id: str) -> None:
        self.asked: list[Joined] = []
        self._gone = False
        self._client = connect(for_kafka_python({"bootstrap.servers": bootstrap}))
        self.membership = Membership(
            self._client,
            group=group,
            settings=LeadingSettings(instance_id=instance_id, session_timeout_seconds=20),
            assign=self._assign,
            wake=lambda: None,
        )

    def _assign(self, joined: Joined) -> dict[str, bytes]:
        self.asked.append(joined)
        return {member: _EMPTY for member, _, _ in joined.members}

    def vanish(self) -> None:
        """End without LeaveGroup, as after kill -9; may be called again."""
        if not self._gone:
            self._gone = True
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ResourceWarning)  # kafka-python leaves sockets to the collector
                close(self._client)


@pytest.fixture
def enter(cluster: KafkaCluster, group: str) -> Iterator[Enter]:
    """Creates players in the test's group, and ends them."""
    with ExitStack() as stack:

        def make(instance_id: str) -> Player:
            player = Player(cluster.bootstrap, group, instance_id)
            stack.callback(player.vanish)
            return player

        yield make
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # see above
        gc.collect()


def _settle(players: Sequence[Player]) -> None:
    """Lets all players join and rejoin until they are in one generation."""
    deadline = time.monotonic() + 60

    def at_peace() -> bool:
        memberships = [player.membership for player in players]
        return (
            not any(membership.wants_join for membership in memberships)
            and all(membership.state is MemberState.STABLE for membership in memberships)
            and len({membership.generation_id for membership in memberships}) == 1
            and players[0].membership.describe().stable
        )

    while not at_peace():
        assert time.monotonic() < deadline
        _turn(players)


def _turn(players: Sequence[Player]) -> None:
    for player in players:
        player.membership.poll_heartbeat()
        if player.membership.wants_join:
            player.membership.join(0.05)


@pytest.mark.promise("Fact of brokers: a static leader that restarts still leads, and need not assign (KIP-814).")
def test_a_restarted_static_leader_still_leads(enter: Enter) -> None:
    """JoinGroup v9 says that it leads and need not assign (`skip_assignment`, KIP-814); the generation stays."""
    first, other = enter("agent"), enter("other")
    _settle([first])
    _settle([first, other])
    assert first.membership.leading
    generation, member_id = first.membership.generation_id, first.membership.member_id
    first.vanish()
    again = enter("agent")
    _settle([again])
    assert again.membership.leading
    assert again.asked == []
    assert again.membership.generation_id == generation
    assert again.membership.member_id != member_id
    assert not other.membership.wants_join


@pytest.mark.promise(
    "Fact of brokers: a static member gets a new member id, and so another place, without a rebalance."
)
def test_a_static_member_gets_a_new_place_without_a_rebalance(enter: Enter) -> None:
    """Joining with an empty member id gives a static member a new id in the same generation, without a rebalance."""
    leader, agent = enter("leader"), enter("agent")
    _settle([leader])
    _settle([leader, agent])
    plans, generation = len(leader.asked), leader.membership.generation_id
    ids = {agent.membership.member_id}
    for _ in range(5):
        agent.membership.rejoin_for_position()
        assert agent.membership.join(10.0)
        ids.add(agent.membership.member_id)
        assert {agent.membership.generation_id, leader.membership.generation_id} == {generation}
    assert len(ids) == 6
    time.sleep(1.0)  # two heartbeats of the leader
    assert not leader.membership.wants_join
    assert len(leader.asked) == plans
    assert leader.membership.describe().stable


def test_the_order_of_the_description_tells_who_leads_next(enter: Enter) -> None:
    """Each time a leader leaves, the first of the others in DescribeGroups leads."""
    players = [enter(f"player-{number}") for number in range(6)]
    _settle(players[:1])
    _settle(players)
    while len(players) > 1:
        (leader,) = [player for player in players if player.membership.leading]
        view = leader.membership.describe()
        leader_id = leader.membership.member_id
        (heir,) = [player for player in players if is_first(view, player.membership.member_id, leader_id)]
        leader.membership.leave()
        players.remove(leader)
        time.sleep(1.0)  # two heartbeats, so that all know of it
        _settle(players)
        assert heir.membership.leading


def test_a_join_that_waits_behind_another_is_ahead_of_the_leaders_plan(
    enter: Enter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker handles a connection's next request as soon as it has answered the last, also if the member is slow."""
    leader, agent = enter("leader"), enter("agent")
    _settle([leader])
    _settle([leader, agent])
    in_force: list[int] = []
    monkeypatch.setattr(leader.membership, "_take", lambda _: in_force.append(leader.membership.generation_id))
    before_sync = agent.membership._before_sync

    async def late(response: Any) -> Any:
        await agent.membership._net.sleep(1.0)  # the leader has sent its plan by then
        return await before_sync(response)

    monkeypatch.setattr(agent.membership, "_before_sync", late)
    generation, plans = leader.membership.generation_id, len(leader.asked)
    agent.membership.hold()
    agent.membership.nudge()
    while agent.membership.hold_state is not Hold.HELD:
        _turn([leader, agent])
    agent.membership.let_go()
    _settle([leader, agent])
    assert leader.asked[plans].generation == generation + 1
    assert in_force
    assert generation + 1 not in in_force
