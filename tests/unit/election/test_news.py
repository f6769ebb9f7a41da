"""What an agent advertises anew reaches the election, whenever it changes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from samerack.cluster.client import ClusterClient
from samerack.election.member import ElectionMember
from samerack.election.messages import Advertisement, lead
from samerack.settings.loading import load

FIRST = Advertisement(identity="me", responsibilities=(lead("payments"),))


@pytest.fixture
def member() -> Iterator[ElectionMember]:
    """A member whose client never connects, as its first JoinGroup is parked."""
    client = ClusterClient({"bootstrap_servers": "127.0.0.1:1"})
    settings = load(flags={"kafka": {"bootstrap.servers": "127.0.0.1:1"}}, environment={})
    made = ElectionMember(client, settings=settings.election, advertisement=FIRST, wake=lambda: None)
    made.group_protocols()
    yield made
    client.close()


def test_groups_found_while_a_join_is_parked_are_advertised_by_another_one(member: ElectionMember) -> None:
    """Brokers park the first JoinGroup of a group for three seconds, and groups of patterns are found sooner."""
    assert not member.news
    member.advertisement = FIRST.model_copy(update={"responsibilities": (lead("orders"), lead("payments"))})
    assert "other groups" in member.news
    member.group_protocols()
    assert not member.news
