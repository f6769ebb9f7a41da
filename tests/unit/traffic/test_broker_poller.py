"""What one cycle keeps for the next, if requests fail in between."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

import pytest

from samerack.cluster.racks import MemberRack
from samerack.cluster.view import ClusterView, Rack
from samerack.cluster.wire import BrokerClient
from samerack.common.weights import GroupWeights
from samerack.settings.all_settings import Settings
from samerack.traffic import collect, describe, groups
from samerack.traffic.broker_poller import BrokerPoller, GroupReading, Poll, Unread
from samerack.traffic.collect import Offsets, Partition, Served
from samerack.traffic.curve import LogExtent, begin
from samerack.traffic.describe import Commits, Descriptions, Listing
from samerack.traffic.groups import ListedGroup
from samerack.traffic.positions import CommitSpans, Held, Position, Positions
from samerack.traffic.snapshot import Gap, ObservedGroup
from samerack.traffic.weights import WeightBook
from tests.unit.agent.values import partition, view_of
from tests.unit.traffic.test_exact import group, member

P0 = ("t", 0)


def poll(poller: BrokerPoller, offset: int | None) -> Poll:
    """Take a poll of group g in, with its commit, or without an answer."""
    seen: ObservedGroup = group(member("m", "c", 0))
    commits = None if offset is None else Commits(offsets={P0: offset})
    polled = {"g": poller._reading(seen, None, commits, missed=0)}
    poller.state.logs = {P0: Offsets(start=0, end=1000)}
    poller._find_spans(polled, {}, now=1.0)
    poller.done(polled, now=1.0)
    return polled


def reading(positions: Positions, committed: Mapping[Partition, int] | None = None) -> GroupReading:
    """What is known of a group that was there, with what it has committed now."""
    spans = CommitSpans(positions=positions)
    return GroupReading(group=group(member("m", "c", 0)), owners={}, committed=committed or {}, spans=spans)


@pytest.fixture
def poller() -> BrokerPoller:
    """A poller that is never asked to poll."""
    return BrokerPoller(Settings(kafka={"bootstrap.servers": "127.0.0.1:1"}), BrokerClient({}))


def test_a_failed_question_for_commits_forgets_nothing(poller: BrokerPoller) -> None:
    """The next commits are compared with the last known ones, not with the log's start."""
    poll(poller, 100)
    polled = poll(poller, None)
    assert poller.state.groups["g"].positions[P0].committed == 100
    assert polled["g"].committed == {P0: 100}


def test_a_group_that_never_answered_has_no_commits_to_go_on_from(poller: BrokerPoller) -> None:
    """The first answer of a group is its start."""
    poll(poller, None)
    assert poller.state.groups["g"].spans.positions is None


def test_a_group_is_gone_when_all_coordinators_have_answered_without_it_twice(poller: BrokerPoller) -> None:
    """One that does not answer hides its groups: after a killed broker their commits and weights were forgotten."""
    poll(poller, 100)
    poller.state.cluster = ClusterView(brokers={1: "a", 2: "b"}, topics={})
    part, whole = (Listing(groups={}, brokers=frozenset(brokers), gaps=[]) for brokers in ({1}, {1, 2}))
    for listing, there in ((part, True), (whole, True), (part, True), (whole, False)):
        missed = poller._missed(listing)
        assert (missed.keys() == {"g"}) is there
        poller.state.groups["g"].missed = missed.get("g", 0)


def test_groups_that_are_gone_are_forgotten(poller: BrokerPoller) -> None:
    """Group names change, and memory does not grow with them."""
    poll(poller, 100)
    poller.done({}, now=2.0)
    assert poller.state.groups == {}


def test_rates_are_known_as_soon_after_a_rest_as_after_a_start(poller: BrokerPoller) -> None:
    """Blocks of a whole minute stayed, and an agent that was elected again had no weights for three minutes."""
    for polls in (200, 12):
        for _ in range(polls):
            poller.production.polled([P0], [500.0], 5.0)
        assert round(poller.production.rates([P0])[P0].value) == 100
        poller.forget()
        assert poller.production.rates([P0]) == {}


@pytest.mark.parametrize(("replicas", "rack"), [((1, 2), None), ((1, 9), "cellar")])
def test_a_rack_that_no_broker_has_is_unknown(
    poller: BrokerPoller, monkeypatch: pytest.MonkeyPatch, replicas: tuple[int, ...], rack: str | None
) -> None:
    """From the first poll on, in which only the topics show whether a broker is away, whose rack it may be."""

    def metadata(_wire: BrokerClient, topics: Collection[str]) -> tuple[ClusterView, list[Gap]]:
        brokers: dict[int, Rack] = {1: "a", 2: "b"}
        return view_of(brokers, t=[partition(*replicas)]) if topics else view_of(brokers), []

    def described(_wire: BrokerClient, _groups: object, *, read: Mapping[str, describe.Read]) -> Descriptions:
        return Descriptions(groups=[read["classic"](None)])

    foreign = MemberRack(rack="cellar", source="client-id", fetches_with_rack=False)
    seen = group(replace(member("m", "c", 0), rack=foreign))
    listed = ListedGroup(group="g", coordinator=1, protocol_type="consumer", state="Stable", type="classic")
    monkeypatch.setattr(collect, "metadata", metadata)
    monkeypatch.setattr(describe, "listed", lambda *_: Listing({"g": listed}, frozenset({1, 2}), []))
    monkeypatch.setattr(describe, "described", described)
    monkeypatch.setattr(describe, "committed", lambda *_, **__: ({}, []))
    monkeypatch.setattr(groups, "classic", lambda *_, **__: seen)
    first = poller._poll_groups()
    assert [one.rack.rack for one in first["g"].group.members] == [rack]
    assert first["g"].owners["t", 0].rack.rack == rack
    poller.done(first, now=1.0)
    assert poller._poll_groups()["g"].group is first["g"].group


def test_what_is_unknown_is_served_by_nobody(poller: BrokerPoller) -> None:
    """Before the first metadata there is neither a serving broker nor a rack."""
    assert poller.serving(P0, None) is None
    assert poller.rack_of(None) == ""
    assert poller.rack_of(1) == ""


def test_curves_of_logs_that_are_not_polled_any_more_are_dropped(
    poller: BrokerPoller, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others are replaced in place; one without an answer keeps its last one."""
    logs = {("t", number): Offsets(start=0, end=10) for number in range(3)}
    monkeypatch.setattr(collect, "log_sizes", lambda *_: (dict.fromkeys(logs, 1000), []))
    monkeypatch.setattr(collect, "offsets", lambda *_: (dict(logs), []))
    monkeypatch.setattr(collect, "local_starts", lambda *_: {})
    unread = Unread({}, {})
    poller.state.cluster = view_of(t=[partition(1)] * 3)
    poller._poll_logs(sorted(logs), now=1.0, unread=unread)
    first = dict(poller.state.curves)
    assert first.keys() == logs.keys()
    del logs["t", 0], logs["t", 1]
    poller._poll_logs([("t", 1), ("t", 2)], now=2.0, unread=unread)
    assert poller.state.curves.keys() == {("t", 1), ("t", 2)}
    assert poller.state.curves["t", 1] is first["t", 1]


def test_weights_outlast_a_poll_without_a_leader(poller: BrokerPoller, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that restarts leaves partitions without one: they lost their rates, and had weight 1 for minutes."""
    end, rates = 0, {("t", number): 1_000 if number % 2 else 4_000 for number in range(4)}
    monkeypatch.setattr(collect, "log_sizes", lambda _, led, __: ({one: end * rates[one] for one in asked(led)}, []))
    monkeypatch.setattr(
        collect, "offsets", lambda _, led, __: ({one: Offsets(start=0, end=end) for one in asked(led)}, [])
    )
    monkeypatch.setattr(collect, "local_starts", lambda *_: {})
    book, unread, found = WeightBook(), Unread({}, {}), list[GroupWeights | None]()
    for number in range(100):
        end += 5
        poller.state.cluster = view_of(t=[partition(1, leader=-1 if number == 90 else 1), *[partition(1)] * 3])
        poller._poll_logs(sorted(rates), now=5.0 * number, unread=unread)
        measured = poller.production.rates(rates)
        book.measured("g", measured, measured)
        found.append(book.weights("g"))
    assert found[89] is not None
    assert all(one is found[89] for one in found[90:])
    assert {one: round(rate.value) for one, rate in measured.items()} == rates


def test_the_rate_of_a_log_that_is_not_answered_for_minutes_is_unknown(
    poller: BrokerPoller, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was 0, after eight minutes without any doubt; and then all that had been written was of one minute."""
    end, is_silent, rates = 0, False, dict.fromkeys([P0, ("t", 1)], 1_000)
    monkeypatch.setattr(
        collect, "log_sizes", lambda *_: ({one: end * 1_000 for one in rates if one != P0 or not is_silent}, [])
    )
    monkeypatch.setattr(collect, "offsets", lambda *_: (dict.fromkeys(rates, Offsets(start=0, end=end)), []))
    monkeypatch.setattr(collect, "local_starts", lambda *_: {})
    poller.state.cluster = view_of(t=[partition(1), partition(2)])
    known: list[bool] = []
    for number in range(300):
        end, is_silent = end + 5, 60 <= number < 180
        poller._poll_logs(sorted(rates), now=5.0 * number, unread=Unread({}, {}))
        measured = {one: round(rate.value) for one, rate in poller.production.rates(rates).items()}
        known.append(P0 in measured)
        assert poller.rate_lost == (set() if known[-1] or number < 4 else {P0})
        if number >= 4:
            assert measured["t", 1] == 1_000
        if number >= 180:
            assert measured.get(P0, 1_000) == 1_000
    assert all(known[4:80])
    assert not any(known[85:190])
    assert all(known[240:])


def asked(led: Mapping[int, list[Partition]]) -> set[Partition]:
    """The partitions that are asked for."""
    return {one for partitions in led.values() for one in partitions}


def test_a_failed_request_for_topics_leaves_them_as_they_were(
    poller: BrokerPoller, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only those of its chunk: a topic that the cluster does not have any more is gone."""
    poller.state.cluster = before = view_of(t=[partition(1)], gone=[partition(2)], u=[partition(3)])
    answer = view_of({1: "a"}, absent=["gone"], u=[partition(1)])
    monkeypatch.setattr(collect, "metadata", lambda *_: (answer, []))
    poller._poll_topics(["t", "u", "gone", "new"])
    assert poller.state.cluster.topics == {"t": before.topics["t"], "u": answer.topics["u"]}
    assert poller.state.cluster.brokers == {1: "a"}


def test_what_was_probed_holds_while_leader_and_replicas_are_the_same(poller: BrokerPoller) -> None:
    """Where probes fail from then on, the rule decides; a broker that is gone was believed for ever."""
    one, view = member("m", "c", 0), partition(1, 2)
    poller.state.served = {"a": {P0: Served(broker=2, view=view, at=0.0, seconds=60.0)}}
    for now, serves, is_probed in ((view, 2, True), (partition(1, 3), 1, False), (partition(3), 3, False)):
        poller.state.cluster = view_of(t=[now])
        assert (poller.serving(P0, one), poller.is_probed(P0, "a")) == (serves, is_probed)
    poller.state.cluster = view_of()
    assert poller.serving(P0, one) is None


@pytest.mark.parametrize(
    ("owner", "counted"),
    [(None, 4_000_000), ("", 4_000_000), ("m", 0)],
    ids=["readers that are no members", "members that share all partitions", "one member"],
)
def test_only_a_member_has_one_network_card(poller: BrokerPoller, owner: str | None, counted: int) -> None:
    """Forty readers without members that caught up at 40 MB/s each were held against the 10 Gbit/s of one host."""
    logs = dict.fromkeys((("t", number) for number in range(40)), Offsets(start=0, end=10_050_000))
    state, at = poller.state, Position(committed=0, offset=0, counted=0, at=0.0, end=10_000_000, step=100_000)
    state.cluster, state.logs = view_of(t=[partition(number % 20) for number in range(40)]), dict(logs)
    extent = LogExtent(start=0, end=10_050_000, size_bytes=2_000 * 10_050_000, leader=1)
    state.curves = dict.fromkeys(logs, begin(extent))
    spans = CommitSpans(positions=dict.fromkeys(logs, at))
    owners = {} if owner is None else dict.fromkeys(logs, member(owner, "c", *range(40)))
    state.groups["g"] = GroupReading(group=group(), owners=owners, committed={}, spans=spans)
    now = GroupReading(
        group=group(),
        owners=owners,
        committed=dict.fromkeys(logs, 100_000),
        commits=Commits(offsets=dict.fromkeys(logs, 100_000), with_epochs=True),
        never_has_members=owner is None,
    )
    poller._find_spans({"g": now}, {}, now=5.0)
    assert sum(span.end - span.first for span in now.spans.spans) == counted


def test_nothing_is_unread_below_the_lowest_position_of_any_group() -> None:
    """What a group holds back to be counted later begins before its last commit; other topics have no readers."""
    held = Held(first=20, end=40, steps=1, seconds=5.0)
    at_40, at_30 = (Position(committed=one, offset=one, counted=one, at=0.0, end=None) for one in (40, 30))
    before = {"a": reading({P0: at_40._replace(held=held)}), "b": reading({P0: at_30})}
    unread = Unread(before, {"b": reading({}, {P0: 35, ("t", 1): 7})})
    assert [unread.lowest(one) for one in (P0, ("t", 1), ("t", 2), ("u", 0))] == [20, 7, None, None]
