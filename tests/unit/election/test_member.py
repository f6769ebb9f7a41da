"""Which agents take part in an election, and which of them is active for what: pure functions of what all advertise."""

from __future__ import annotations

import json
import socket
import threading
import time
from concurrent.futures import Future
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samerack.cluster.group import DescribedGroup
from samerack.cluster.names import LOOKUPS, Address, Lookups
from samerack.election import messages
from samerack.election.member import (
    CANDIDATES,
    ROOM,
    WAITING_GROUPS,
    Place,
    choose,
    place_for,
    poll_pause,
    racks_by_address,
    surplus,
    waiting_group,
    waiting_groups,
    waiting_instance,
)
from samerack.election.messages import (
    Advertisement,
    Verdict,
    decode_advertisement,
    decode_verdict,
    encode,
    lead,
    observe,
    of_this_host,
)
from tests.unit.election.described import agent, agents_group
from tests.unit.waiting import LONGEST_SECONDS

ORDERS, PAYMENTS = lead("orders"), lead("payments")

presences = st.dictionaries(
    st.text("abcdef", min_size=1, max_size=4),
    st.builds(
        Advertisement,
        identity=st.text("xyz", min_size=1, max_size=3),
        rack=st.sampled_from(["", "rack-a", "rack-b"]),
        addresses=st.lists(st.sampled_from(["10.0.0.1", "10.0.0.2", "127.0.0.1", "fe80::1", "?"]), max_size=2).map(
            tuple
        ),
        responsibilities=st.lists(st.sampled_from([ORDERS, PAYMENTS, observe("*")]), unique=True).map(tuple),
        held=st.lists(st.sampled_from([ORDERS, PAYMENTS, observe("*")]), unique=True).map(tuple),
        term=st.integers(0, 5),
    ),
    min_size=1,
    max_size=6,
)


def _json() -> st.SearchStrategy[bytes]:
    """JSON that is almost a message of an agent."""
    values = st.one_of(
        st.none(),
        st.integers(-(1 << 40), 1 << 40),
        st.text(max_size=5),
        st.lists(st.one_of(st.text(max_size=5), st.integers(), st.tuples(st.text(max_size=3), st.text(max_size=3)))),
    )
    return st.dictionaries(st.sampled_from([*Advertisement.model_fields, *Verdict.model_fields]), values).map(
        lambda value: json.dumps(value).encode()
    )


def _sidecar(number: int) -> Advertisement:
    return Advertisement(
        identity=f"s{number}", rack="rack-a", addresses=(f"10.0.0.{number + 1}",), responsibilities=(ORDERS,)
    )


@given(presences)
def test_each_responsibility_has_one_agent_that_can_do_it(present: dict[str, Advertisement]) -> None:
    """Each responsibility has exactly one active agent if any agent can do it."""
    verdicts = choose(present, 6)
    assert verdicts.keys() == present.keys()
    for responsibility in (ORDERS, PAYMENTS, observe("*")):
        able = {member for member, advertisement in present.items() if responsibility in advertisement.responsibilities}
        active = [member for member, verdict in verdicts.items() if responsibility in verdict.active]
        assert len(active) == min(1, len(able))
        assert set(active) <= able
        assert {responsibility in verdicts[member].with_standby for member in active} <= {len(able) > 1}


@given(presences)
def test_an_election_without_change_changes_nothing(present: dict[str, Advertisement]) -> None:
    """An active agent stays active."""
    first = choose(present, 6)
    again = {
        member: advertisement.model_copy(update={"held": tuple(first[member].active), "term": 6})
        for member, advertisement in present.items()
    }
    assert {member: verdict.active for member, verdict in choose(again, 7).items()} == {
        member: verdict.active for member, verdict in first.items()
    }


def test_a_newcomer_displaces_nobody() -> None:
    """A new agent takes no responsibility from an active one, whatever its name."""
    held = Advertisement(identity="old", responsibilities=(ORDERS,), held=(ORDERS,), term=3)
    for name in ("a", "z"):
        verdicts = choose({"m": held, name: Advertisement(identity=name, responsibilities=(ORDERS,))}, 4)
        assert verdicts["m"].active == {ORDERS}
        assert verdicts["m"].with_standby == {ORDERS}
        assert verdicts[name] == Verdict(term=4, agents=2)


def test_one_that_slept_gives_way_to_its_successor() -> None:
    """If two agents hold a responsibility, the one with the later term keeps it."""
    slept = Advertisement(identity="a", responsibilities=(ORDERS,), held=(ORDERS,), term=3)
    successor = Advertisement(identity="b", responsibilities=(ORDERS,), held=(ORDERS,), term=4)
    verdicts = choose({"z": slept, "a": successor}, 5)
    assert not verdicts["z"].active
    assert verdicts["a"].active == {ORDERS}


def test_agents_with_the_same_settings_have_one_active_among_them() -> None:
    """Of agents with equal settings one is active for all responsibilities."""
    responsibilities = (ORDERS, PAYMENTS, observe("*"))
    verdicts = choose({name: Advertisement(identity=name, responsibilities=responsibilities) for name in "abc"}, 1)
    assert sorted(len(verdict.active) for verdict in verdicts.values()) == [0, 0, 3]


def test_racks_go_to_whom_is_active_only() -> None:
    """Only active agents get racks: a hundred sidecars must not get each other's racks."""
    sidecar = Advertisement(identity="s", rack="rack-b", addresses=("10.0.0.2",))
    leader = Advertisement(identity="l", rack="rack-a", addresses=("10.0.0.1",), responsibilities=(ORDERS,))
    verdicts = choose({"s": sidecar, "l": leader}, 1)
    assert verdicts["l"].racks == {"10.0.0.1": "rack-a", "10.0.0.2": "rack-b"}
    assert verdicts["s"].racks == {}


def test_an_address_of_two_racks_says_nothing() -> None:
    """An address in two racks is ignored, as are loopback, link-local and invalid addresses."""
    assert racks_by_address(
        [
            Advertisement(identity="a", rack="rack-a", addresses=("10.0.0.1", "10.0.0.3", "127.0.0.1")),
            Advertisement(identity="b", rack="rack-b", addresses=("10.0.0.1", "fe80::1", "pod-7")),
            Advertisement(identity="c", addresses=("10.0.0.4",)),
        ]
    ) == {"10.0.0.3": "rack-a"}


@given(presences)
def test_what_is_advertised_arrives(present: dict[str, Advertisement]) -> None:
    """Both messages are decoded equal to what was encoded."""
    for member, advertisement in present.items():
        assert decode_advertisement(member, encode(advertisement)) == advertisement
    for verdict in choose(present, 6).values():
        assert decode_verdict(encode(verdict)) == verdict


@given(st.dictionaries(st.text(max_size=5), st.one_of(st.binary(max_size=60), _json()), min_size=1, max_size=5))
def test_whatever_others_say_there_is_an_election(advertised: dict[str, bytes]) -> None:
    """Decoding and choosing never raise for any bytes, and every answer can be sent and decoded."""
    present = {member: decode_advertisement(member, content) for member, content in advertised.items()}
    for verdict in choose(present, 6).values():
        assert decode_verdict(encode(verdict)) == verdict
    for content in advertised.values():
        decode_verdict(content)


def test_what_is_advertised_has_bounds() -> None:
    """What is no message, has a term above any real one, or is too large for brokers, is ignored."""
    for content in (
        b"\x00\x01",
        b'{"identity": "m", "responsibilities": ["lead orders"], "held": ["lead orders"], "term": 99999999999}',
        b'{"identity": "m", "term": -1}',
        b'{"identity": "m", "rack": "' + b"r" * 2_000 + b'"}',
        b'{"identity": "m", "addresses": [' + b",".join([b'"10.0.0.1"'] * 200) + b"]}",
        b'{"identity": "m", "responsibilities": [' + b",".join([b'"lead orders"'] * 100_000) + b"]}",
        b"[" * 100_000,
    ):
        assert decode_advertisement("m", content) == Advertisement(identity="m")
    assert decode_verdict(b"") is None
    assert decode_verdict(b'{"term": 99999999999, "agents": 1}') is None
    assert decode_verdict(b'{"term": 1, "agents": 1, "x": "' + b"x" * (1 << 20) + b'"}') is None


@pytest.mark.parametrize("servers", ["8.8.8.8", "8.8.8.8:9092", "SASL_SSL://8.8.8.8,kafka-2:9093"])
def test_the_host_has_the_address_from_which_it_reaches_brokers(servers: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the server had no port, the agent advertised none on a machine whose name is that of a loopback address."""
    asked = []

    def begin(host: str, port: int) -> Future[list[Address]]:
        asked.append((host, port))
        return LOOKUPS.begin(host, port)

    monkeypatch.setattr(messages, "LOOKUPS", SimpleNamespace(begin=begin))
    assert of_this_host(servers) == of_this_host("8.8.8.8:9092")
    assert asked == [("8.8.8.8", 9092), (socket.gethostname(), 0)] * 2


def test_the_start_waits_for_no_name_service(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that gave no answer held the agent's start until the supervisor ended it, again and again."""
    ended = threading.Event()

    def look_up(*_: object, **_options: object) -> list[Address]:
        ended.wait(LONGEST_SECONDS)
        return []

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    monkeypatch.setattr(messages, "LOOKUPS", Lookups())
    begun = time.monotonic()
    assert of_this_host("kafka-1:9092") == ()
    assert time.monotonic() - begun < LONGEST_SECONDS / 4
    ended.set()


def test_few_are_sent_all_racks_and_many_read_them() -> None:
    """Racks are in the answers up to a number of agents, so that all answers fit into one record."""
    few = {f"m{number:02}": _sidecar(number) for number in range(ROOM)}
    many = few | {"n": _sidecar(ROOM)}
    assert max(len(verdict.racks) for verdict in choose(few, 1).values()) == ROOM
    assert max(len(verdict.racks) for verdict in choose(many, 1).values()) == 0


def test_a_record_of_many_agents_is_small() -> None:
    """The record of 300 candidates for a hundred groups is small."""
    present = {
        f"orders-{number:05}-7d9f8b6c5-x2x4z-00000000-0000-0000-0000-000000000000": Advertisement(
            identity=f"orders-{number:05}-7d9f8b6c5-x2x4z",
            rack="eu-central-1a",
            addresses=(f"10.0.0.{number % 250}",),
            responsibilities=(lead(f"group-{number % 100:03}"),),
        )
        for number in range(300)
    }
    size = sum(len(member) + len(encode(advertisement)) for member, advertisement in present.items())
    answered = sum(len(encode(verdict)) for verdict in choose(present, 1).values())
    assert size + answered < 200_000


RESPONSIBILITIES = (ORDERS, PAYMENTS, observe("*"))

fleets = st.lists(st.lists(st.sampled_from(RESPONSIBILITIES), unique=True).map(tuple), min_size=1, max_size=40).map(
    lambda all_responsibilities: {
        f"m{number:02}": Advertisement(identity=f"i{number:02}", responsibilities=responsibilities)
        for number, responsibilities in enumerate(all_responsibilities)
    }
)


def described(present: dict[str, Advertisement], *, stable: bool = True) -> DescribedGroup:
    """The election's group as a broker describes it."""
    return agents_group(
        (
            agent(member, instance=advertisement.identity, metadata=encode(advertisement) if stable else b"")
            for member, advertisement in present.items()
        ),
        stable=stable,
    )


def agents(count: int, *responsibilities: str) -> dict[str, Advertisement]:
    """This many members with these responsibilities."""
    return {
        f"m{number:02}": Advertisement(identity=f"i{number:02}", responsibilities=responsibilities)
        for number in range(count)
    }


def test_everybody_takes_part_while_there_is_room() -> None:
    """An agent without responsibilities may take part too, so that its rack is known."""
    assert place_for(Advertisement(identity="new"), described(agents(ROOM - 1, ORDERS))) is Place.INSIDE
    assert place_for(Advertisement(identity="new"), described(agents(ROOM, ORDERS))) is Place.OUTSIDE


def test_one_that_is_needed_takes_part_though_there_is_no_room() -> None:
    """Each responsibility gets an active agent and two standbys, if that many agents can do it."""
    fleet = agents(ROOM, ORDERS)
    new = Advertisement(identity="new", responsibilities=(PAYMENTS,))
    for number in range(CANDIDATES):
        assert place_for(new, described(fleet)) is Place.INSIDE
        fleet[f"p{number}"] = Advertisement(identity=f"p{number}", responsibilities=(PAYMENTS,))
    assert place_for(new, described(fleet)) is Place.OUTSIDE


def test_one_that_was_inside_goes_back() -> None:
    """After a restart within its session an agent keeps the responsibilities for which it was active."""
    fleet = agents(ROOM + 5, ORDERS)
    assert place_for(Advertisement(identity="i03", responsibilities=(ORDERS,)), described(fleet)) is Place.INSIDE


def test_while_the_group_rebalances_nobody_knows_who_is_needed() -> None:
    """An agent is undecided then; one without responsibilities is not needed in any case."""
    hidden = described(agents(ROOM, ORDERS), stable=False)
    assert place_for(Advertisement(identity="new", responsibilities=(PAYMENTS,)), hidden) is Place.UNDECIDED
    assert place_for(Advertisement(identity="new"), hidden) is Place.OUTSIDE


@given(fleets)
def test_the_election_keeps_whom_it_needs_and_no_more(present: dict[str, Advertisement]) -> None:
    """Each responsibility keeps its candidates and its active agent; an agent sent away would not return at once."""
    verdicts = choose(present, 1)
    kept = {member: advertisement for member, advertisement in present.items() if not verdicts[member].waits}
    assert not any(verdict.waits and verdict.active for verdict in verdicts.values())
    assert len(kept) >= min(ROOM, len(present))
    assert len(kept) <= max(ROOM, CANDIDATES * len(RESPONSIBILITIES))
    for responsibility in RESPONSIBILITIES:
        able = sum(responsibility in advertisement.responsibilities for advertisement in present.values())
        assert sum(responsibility in advertisement.responsibilities for advertisement in kept.values()) >= min(
            CANDIDATES, able
        )
    for member, verdict in verdicts.items():
        if verdict.waits:
            assert place_for(present[member], described(kept)) is Place.OUTSIDE


@given(fleets)
def test_an_election_without_those_sent_away_sends_nobody_away(present: dict[str, Advertisement]) -> None:
    """One round is enough."""
    away = surplus(present, ())
    assert not surplus({member: one for member, one in present.items() if member not in away}, ())


def test_agents_outside_share_many_small_groups() -> None:
    """Two thousand agents are spread about evenly; each has always the same group, and a short name of its own."""
    names = [f"orders-7d9f8b6c5-{number:05}" for number in range(2_000)]
    groups = [waiting_group("samerack", name) for name in names]
    assert set(groups) == set(waiting_groups("samerack"))
    assert len(set(groups)) == WAITING_GROUPS
    assert max(map(groups.count, groups)) < 2 * 2_000 / WAITING_GROUPS
    assert all(group.startswith("samerack") for group in groups)
    assert len({waiting_instance(name) for name in names}) == len(names)


def test_the_larger_the_election_the_rarer_it_is_polled() -> None:
    """The pause grows with the size of the description, within bounds, and differs between agents."""
    assert [poll_pause(members, 0.5) for members in (0, 16, 60, 1000)] == [10, 32, 120, 300]
    assert (poll_pause(16, 0.0), poll_pause(16, 1.0)) == (16, 48)
