"""Broker behavior that the agent relies on, tested directly with the agent's memberships and no consumer."""

from __future__ import annotations

import gc
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack

import pytest

from lab.sandbox.admin import wait_until
from lab.sandbox.contract import KafkaCluster
from samerack.agent.leading.membership import Membership
from samerack.auth.kafka_config import for_kafka_python
from samerack.cluster.client import connect
from samerack.cluster.group_member import Joined, MembershipState
from samerack.settings.leading import LeadingSettings

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
                self._client.close()


@pytest.fixture
def enter(cluster: KafkaCluster, group: str) -> Iterator[Enter]:
    """Create players in the test's group, and end them."""
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

    def at_peace() -> bool:
        memberships = [player.membership for player in players]
        return (
            not any(membership.wants_join for membership in memberships)
            and all(membership.state is MembershipState.STABLE for membership in memberships)
            and len({membership.generation_id for membership in memberships}) == 1
            and players[0].membership.describe().stable
        )

    def turned() -> bool:
        if at_peace():
            return True
        for player in players:
            player.membership.poll_heartbeat()
            if player.membership.wants_join:
                player.membership.join(0.05)
        return False

    wait_until(turned, "all are in one generation")


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


@pytest.mark.extended
def test_a_static_member_whose_first_join_is_parked_leaves_by_its_instance_id(enter: Enter) -> None:
    """Its member id is not known yet; the group does not wait until its session ends."""
    leader, agent = enter("leader"), enter("agent")
    _settle([leader])
    assert not agent.membership.join(1.0)
    instances = {one.instance_id for one in leader.membership.describe().members}
    agent.membership.leave()
    assert instances - {one.instance_id for one in leader.membership.describe().members} == {"agent"}
    _settle([leader])
