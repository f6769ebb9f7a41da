"""A leader that was asked to stop stays until another agent has taken its membership, and no longer than needed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final
from unittest import mock

import pytest

from samerack.agent.leading.leader import GroupLeader
from samerack.agent.leading.session import Session
from samerack.agent.metrics import Metrics
from samerack.election.leadership_state import LeadershipState
from tests.unit.agent.leading.scripted import clear_away, leader_of
from tests.unit.cluster.scripted_broker import ScriptedBroker
from tests.unit.waiting import LONGEST_SECONDS, until

_UNKNOWN_MEMBER_ID: Final = 25
_FENCED_INSTANCE_ID: Final = 82
_FOR_EVER: Final = 10 * LONGEST_SECONDS


class _Elected(LeadershipState):
    """An election in which another agent would take over, unless it has left."""

    is_there = True

    def has_standby(self, _: str) -> bool:
        return self.is_there


@contextmanager
def _stopping(seconds: float) -> Iterator[tuple[GroupLeader, _Elected, ScriptedBroker]]:
    """A leader that is in its group, and was asked to stop; it may hand the membership over for so long."""
    broker, leadership = ScriptedBroker(), _Elected()
    leader = leader_of(broker, "orders", Metrics(), leadership=leadership, hand_over_seconds=seconds)
    leader.start()
    try:
        assert until(lambda: leader.reporter.role == "following")
        leader.stop()
        yield leader, leadership, broker
    finally:
        leader.stop_at_once()
        leader.join(LONGEST_SECONDS)
        broker.close()
        clear_away()


def test_it_rests_between_its_turns() -> None:
    """The stop ended every pause: it took 400,000 turns a second, on a processor that its successor needed."""
    counted = mock.patch.object(Session, "turn", autospec=True, side_effect=Session.turn)
    with counted as turn, _stopping(1.0) as (leader, _, broker):
        before = turn.call_count
        leader.join(LONGEST_SECONDS)
        assert not leader.is_alive()
        assert turn.call_count - before < 20
        assert broker.members == {}


@pytest.mark.parametrize("ends", ["asked again", "nobody is there", "taken over", "lost"])
def test_it_ends_as_soon_as_there_is_nothing_to_hand_over(ends: str) -> None:
    """It leaves the group to its members, or the membership to the agent that has it now.

    One that has lost it must not join again: it would take the membership from the successor.
    """
    with _stopping(_FOR_EVER) as (leader, leadership, broker):
        beats, joins = broker.count("Heartbeat"), broker.count("JoinGroup")
        assert until(lambda: broker.count("Heartbeat") > beats + 2)
        assert leader.is_alive()
        if ends == "asked again":
            leader.stop_at_once()
        elif ends == "nobody is there":
            leadership.is_there = False
            leader.wake()  # as the election does
        else:
            error = _FENCED_INSTANCE_ID if ends == "taken over" else _UNKNOWN_MEMBER_ID
            broker.script = lambda api, _: error if api == "Heartbeat" else 0
        leader.join(LONGEST_SECONDS)
        assert not leader.is_alive()
        assert broker.count("LeaveGroup") == (ends in ("asked again", "nobody is there"))
        assert broker.count("JoinGroup") == joins
