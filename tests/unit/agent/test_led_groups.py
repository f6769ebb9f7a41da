"""Groups that match patterns are found, led, and dropped when they have ceased to exist; named ones always stay."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import Mock, call

import pytest
from kafka.errors import UnsupportedVersionError

from samerack.agent import led_groups
from samerack.agent.group_status import GroupStatus
from samerack.agent.health import Health
from samerack.agent.led_groups import MAX_BYTES, MAX_FOUND, GroupFinder, LedGroups
from samerack.agent.metrics import Metrics
from samerack.agent.supervisor.protocol import MemberIdentity
from samerack.cluster.wire import BrokerRequest
from samerack.settings.loading import load
from samerack.traffic.groups import ListedGroup
from tests.unit.cluster.scripted_wire import ScriptedBrokerClient


class Found:
    """A finder with these groups in its settings, and what it has done."""

    def __init__(self, *groups: str, wire: Any = None, watch: Any = None) -> None:
        self.leaders: dict[str, Mock] = {}
        self.empty_at: dict[str, float | None] = {}
        self.forgotten: list[str] = []
        self.offers: list[list[str]] = []
        settings = self.settings = load(
            flags={"kafka": {"bootstrap.servers": "127.0.0.1:1"}, "groups": groups}, environment={}
        )
        self.led = LedGroups(self._make, forget=self.forgotten.append)
        self.led.start()
        election = Mock(offer=lambda found: self.offers.append(list(found)))
        self.finder = GroupFinder(settings, wire, led=self.led, watch=watch, leadership=election)

    def _make(self, group: str, empty_at: float | None) -> Mock:
        self.empty_at[group] = empty_at
        self.leaders[group] = Mock(group=group, member_ids=Mock(return_value=frozenset()))
        return self.leaders[group]

    def poll(
        self, *names: str, now: float = 0.0, complete: bool = True, types: Mapping[str, str] | None = None
    ) -> None:
        """Brokers list these groups."""
        listed = {}
        for name in (*names, *(types or {})):
            protocol_type, _, kind = (types or {}).get(name, "consumer classic").partition(" ")
            listed[name] = ListedGroup(group=name, coordinator=1, protocol_type=protocol_type, state="", type=kind)
        self.finder.take(listed, empty_at={}, complete=complete, now=now)


def test_what_is_found_is_led_at_once_and_offered_in_the_election() -> None:
    """A group is started once, however often it is listed."""
    found = Found("orders-*")
    found.poll("orders-eu")
    found.poll("orders-eu", "orders-us", now=10)
    assert {name: leader.method_calls for name, leader in found.leaders.items()} == {
        "orders-eu": [call.start()],
        "orders-us": [call.start()],
    }
    assert found.offers == [["orders-eu"], ["orders-eu", "orders-us"]]


def test_what_cannot_be_led_by_a_member_is_not_found() -> None:
    """Brokers assign groups of the new protocol; Connect's workers and agents' own groups are no consumers."""
    found = Found("*")
    found.poll(
        types={
            "assigned": "consumer consumer",
            "share": "share share",
            "sinks": "connect classic",
            "empty": " classic",
            "before-kafka-4": "consumer ",
            "samerack": " classic",
            "samerack-waiting-07": " classic",
        }
    )
    assert sorted(found.led) == ["before-kafka-4", "empty"]


def test_a_group_that_has_ceased_to_exist_is_dropped_after_ten_minutes() -> None:
    """Until then its next consumers are led from the first generation; its series vanish with it."""
    found = Found("orders-*", "payments")
    found.led.add("payments")
    found.poll("orders-eu", "payments")
    found.poll(now=599)
    assert sorted(found.led) == ["orders-eu", "payments"]
    found.poll(now=601)
    assert sorted(found.led) == ["payments"]
    did = found.leaders["orders-eu"].method_calls
    assert [one for one in did if one != call.member_ids()] == [call.start(), call.stop(), call.join(1.0)]
    assert (found.forgotten, found.offers[-1]) == (["orders-eu"], [])
    found.poll("orders-eu", now=700)
    assert sorted(found.led) == ["orders-eu", "payments"]


def test_a_group_may_exist_if_its_broker_did_not_answer_or_the_agent_is_in_it() -> None:
    """Such a group is kept."""
    found = Found("orders-*")
    found.poll("orders-eu", "orders-us")
    own = MemberIdentity(group="orders-us", member_id="m", instance_id="samerack")
    found.leaders["orders-us"].member_ids.return_value = frozenset({own})
    found.poll(now=601, complete=False)
    found.poll(now=1200)
    assert sorted(found.led) == ["orders-eu", "orders-us"]
    found.poll(now=1202)
    assert sorted(found.led) == ["orders-us"]


def test_one_agent_leads_a_thousand_groups_that_no_setting_names(capsys: pytest.CaptureFixture[str]) -> None:
    """One record of Kafka must hold all their names; what is more is reported once, with the cure."""
    found = Found("*", "payments")
    found.led.add("payments")
    names = [f"group-{number:04}" for number in range(MAX_FOUND + 5)]
    found.poll(*names)
    found.poll(*names, now=10)
    assert len(found.led) == MAX_FOUND + 1
    assert capsys.readouterr().out.count("too-many-groups") == 1


def test_long_names_of_groups_end_no_election(capsys: pytest.CaptureFixture[str]) -> None:
    """One name of a thousand characters made every agent's advertisement invalid, so that none was active any more."""
    found = Found("*")
    found.poll("g" * 1000, "orders", *(f"{number:03}{'x' * 397}" for number in range(300)))
    assert max(map(len, found.led)) <= 400
    assert sum(map(len, found.led)) <= MAX_BYTES
    assert sum(map(len, found.offers[-1])) <= MAX_BYTES
    assert capsys.readouterr().out.count("too-many-groups") == 1
    alone = Found("*")
    alone.poll("g" * 1000, "orders")
    assert list(alone.led) == ["orders"]


def test_a_pattern_that_matches_nothing_is_warned_of(capsys: pytest.CaptureFixture[str]) -> None:
    """Once, until it matches; a literal name is none, nor is what some brokers did not list, or nobody can lead."""
    found = Found("order-*", "pay*", "tools*", "payments", "!order-test")
    found.poll(complete=False)
    unmatched = [found.led.unmatched]
    for now, names in ((0, ["payments"]), (10, ["payments"]), (20, ["payments", "order-1"])):
        found.poll(*names, now=now, types={"tools": "connect classic"})
        unmatched.append(found.led.unmatched)
    assert unmatched == [(), ("order-*",), ("order-*",), ()]
    warned = capsys.readouterr().out
    assert (warned.count("pattern-matches-no-group"), warned.count("order-*")) == (1, 1)


def test_what_is_waited_for_is_noted() -> None:
    """A named group that waits for more than consumers, a pattern without a group, and a group after a leave."""
    found, metrics = Found("orders", "payments", "pay*"), Metrics()
    for name, why in (("orders", "it does not exist"), ("payments", ""), ("pay-1", "it does not exist")):
        metrics.board.become(name, "waiting", why)
    found.poll("payments")
    assert found.led.unmatched == ()
    found.poll("orders")
    back = GroupStatus(group="pay-2", role="following", returned="since the end of a leave the agent follows")
    metrics.board.publish(back)
    parts = SimpleNamespace(settings=found.settings, metrics=metrics, led=found.led)
    assert Health(cast(Any, parts), []).notes() == {
        "group orders": "it does not exist",
        "group pay-2": "since the end of a leave the agent follows",
        "groups pay*": "the pattern matches no group yet: check it; the agent leads groups that match later",
    }


def test_a_group_that_is_dropped_ends_no_thread_that_reads_all() -> None:
    """The watchdog socket does so five times a second, and its end is that of the whole worker."""
    led = Found().led
    for group in ("orders", "payments"):
        led.add(group)
    values, items = iter(led.values()), iter(led.items())
    next(values), next(items)
    led.drop("payments", seconds=0.0)
    assert [len(list(one)) for one in (values, items)] == [1, 1]
    assert list(led) == ["orders"]


def test_a_dropped_group_is_in_no_metric() -> None:
    """Else its counters would be scraped for ever."""
    metrics = Metrics()
    metrics.expect("orders")
    metrics.expect("payments")
    metrics.forget("orders")
    text = metrics.exposition().decode()
    assert ('group="orders"' in text, 'group="payments"' in text) == (False, True)


class _Brokers:
    """Two brokers, with groups in these states, and a finder of all groups; its clock goes by half a second a turn."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.groups: dict[str, str] = {}
        self.errors: dict[int, Exception] = {}
        self.lacks_states = False
        self.now = 0.0
        self.wire = ScriptedBrokerClient(self._answer)
        self.watch = SimpleNamespace(present={1, 2}, initial_delay_seconds=3.0)
        self.found = Found("*", wire=self.wire, watch=self.watch)
        monkeypatch.setattr(led_groups, "time", SimpleNamespace(monotonic=lambda: self.now))

    def _answer(self, question: BrokerRequest) -> Any:
        states = question.request.states_filter
        if self.lacks_states and states:
            return UnsupportedVersionError()
        if question.broker in self.errors:
            return self.errors[question.broker]
        groups = [
            SimpleNamespace(group_id=name, protocol_type="consumer", group_state=state, group_type="classic")
            for name, state in self.groups.items()
            if question.broker == 1 and (not states or state in states)
        ]
        return SimpleNamespace(error_code=0, groups=groups)

    def turn(self, **groups: str) -> list[str]:
        """Add groups, and return which states are asked for."""
        self.groups |= groups
        del self.wire.asked[:]
        self.now += self.found.finder.turn()
        return [",".join(question.request.states_filter) for question in self.wire.asked]


def test_a_group_that_is_born_is_found_by_a_small_list(monkeypatch: pytest.MonkeyPatch) -> None:
    """Found too late: patterns were resolved every ten seconds, and a birth lasts three. Others have no proof."""
    brokers = _Brokers(monkeypatch)
    asked = [brokers.turn(runs="Stable", restarts="PreparingRebalance"), brokers.turn(new="PreparingRebalance")]
    small, all_groups = ["PreparingRebalance"] * 2, [""] * 2
    assert asked == [[*small, *all_groups], small]
    assert brokers.found.empty_at == {"restarts": None, "runs": None, "new": 0.0}
    assert [brokers.turn() for _ in range(20)].count([*small, *all_groups]) == 1


def test_a_broker_that_fails_hides_no_group_of_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are led as running ones, since that broker may know them."""
    brokers = _Brokers(monkeypatch)
    brokers.turn()
    brokers.errors[2] = ConnectionError("down")
    assert not any("" in brokers.turn() for _ in range(8))
    brokers.turn(new="PreparingRebalance")
    assert brokers.found.empty_at == {"new": None}


def test_all_groups_are_listed_at_once_when_a_broker_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Until then births are not proved, since it may have brought groups along."""
    brokers = _Brokers(monkeypatch)
    brokers.turn()
    brokers.watch.present = {1, 2, 3}
    assert ["" in brokers.turn(runs="PreparingRebalance"), "" in brokers.turn(new="PreparingRebalance")] == [
        True,
        False,
    ]
    assert brokers.found.empty_at == {"runs": None, "new": 0.5}


def test_old_brokers_are_asked_as_rarely_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before Kafka 2.6 they list groups in every state only."""
    brokers = _Brokers(monkeypatch)
    brokers.lacks_states = True
    assert sum("" in brokers.turn(new="PreparingRebalance") for _ in range(20)) == 1
    assert brokers.found.empty_at == {"new": None}
