"""Agents that are allowed to read the election's group only, and not the groups of those that wait outside."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, cast

import pytest
from kafka import errors as kafka_errors

from samerack.election.election import Election
from samerack.election.member import ROOM, UNREGISTERED_ROOM
from samerack.election.messages import Advertisement, Verdict, encode
from samerack.election.registry import Answer, GroupAsker, RegistryReader
from samerack.election.waiting import Waiting
from samerack.settings.all_settings import Settings
from samerack.settings.loading import load
from tests.unit.election.described import agent, agents_group


@pytest.fixture
def settings() -> Settings:
    """Settings of an agent; nothing is asked at its address."""
    flags = {"kafka": {"bootstrap.servers": "127.0.0.1:1"}, "election": {"group": "samerack"}}
    return load(flags=flags, environment={})


@dataclass
class Asker:
    """Answers with the same agent in each group, or refuses groups with the prefix."""

    allowed: bool

    def describe(self, groups: Sequence[str]) -> dict[str, Answer]:
        """An answer for each group."""
        advertised = encode(Advertisement(rack="rack-a", addresses=("10.0.0.1",)))
        there: Answer = agents_group([agent("m", metadata=advertised)])
        refused: Answer = kafka_errors.GroupAuthorizationFailedError()
        return {group: there if self.allowed or group == "samerack" else refused for group in groups}


def test_groups_that_may_not_be_read_count_as_empty_until_they_may(settings: Settings) -> None:
    """Once they are allowed their agents are known."""
    reader = RegistryReader(settings, changed=lambda: None)
    reader._reading.set()
    reader._read(cast(GroupAsker, Asker(allowed=False)))
    assert (reader.refused, reader.registry.waiting) == (True, 0)
    reader._read(cast(GroupAsker, Asker(allowed=True)))
    assert (reader.refused, reader.registry.waiting > 0) == (False, True)


@pytest.mark.parametrize(
    ("members", "registers", "inside"),
    [
        (ROOM, True, False),
        (ROOM, False, True),
        (UNREGISTERED_ROOM - 1, False, True),
        (UNREGISTERED_ROOM, False, False),
    ],
)
def test_who_may_not_wait_outside_takes_part_in_larger_elections(
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
    members: int,
    registers: bool,  # noqa: FBT001 - a table
    inside: bool,  # noqa: FBT001 - a table
) -> None:
    """So the others know its rack."""
    client: Any = SimpleNamespace(net=None, connections=None)
    waiting = Waiting(
        client,
        settings=settings.election,
        advertisement=Advertisement(identity="me"),
        wake=lambda: None,
        registers=registers,
    )
    agents = [agent(f"m{n}", instance=f"i{n}") for n in range(members)]
    monkeypatch.setattr(waiting, "poll", lambda: agents_group(agents))
    assert waiting.is_needed(lambda _: False) is inside


def test_what_keeps_an_agent_out_of_the_election_is_shown(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was ready, and led and measured nothing: what its own settings cause has a cure, all else is trouble."""

    def refuse(error: Exception) -> None:
        raise error

    made = Election(settings, advertisement=Advertisement(identity="me"))
    made._stopping.set()
    monkeypatch.setattr(made, "_session", lambda: refuse(kafka_errors.InvalidSessionTimeoutError()))
    made.turn()
    assert "set election.session_timeout_seconds between" in made.refused
    other = Election(settings, advertisement=Advertisement(identity="you"))
    other._record(kafka_errors.GroupMaxSizeReachedError())
    assert "GroupMaxSizeReachedError" in other.trouble
    other._elected(Verdict(term=1, agents=2), "member")
    assert other.trouble == ""
