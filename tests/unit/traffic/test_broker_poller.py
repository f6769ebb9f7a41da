"""What one cycle keeps for the next, if requests fail in between."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

import pytest

from samerack.cluster.racks import MemberRack
from samerack.cluster.view import ClusterView, Rack
from samerack.cluster.wire import Wire
from samerack.settings.all_settings import Settings
from samerack.traffic import collect, describe, groups
from samerack.traffic.broker_poller import BrokerPoller, Poll
from samerack.traffic.collect import Offsets
from samerack.traffic.describe import Commits, Descriptions, Listing
from samerack.traffic.groups import ListedGroup, ObservedGroup
from samerack.traffic.snapshot import Gap
from tests.unit.agent.values import partition, view_of
from tests.unit.traffic.test_exact import group, member

P0 = ("t", 0)


def poll(poller: BrokerPoller, offset: int | None) -> Poll:
    """Take a poll of group g in, with its commit, or without an answer."""
    seen: ObservedGroup = group(member("m", "c", 0))
    commits = Commits(offsets={} if offset is None else {"g": {P0: offset}})
    polled = Poll(listed={}, groups={"g": seen}, owners={"g": seen.owners()}, commits=commits)
    poller.state.logs = {P0: Offsets(start=0, end=1000)}
    polled.spans = poller._spans(polled, {}, now=1.0)
    poller.done(polled, now=1.0)
    return polled


@pytest.fixture
def poller() -> BrokerPoller:
    """A poller that is never asked to poll."""
    return BrokerPoller(Settings(kafka={"bootstrap.servers": "127.0.0.1:1"}), Wire({}))


def test_a_failed_question_for_commits_forgets_nothing(poller: BrokerPoller) -> None:
    """The next commits are compared with the last known ones, not with the log's start."""
    poll(poller, 100)
    polled = poll(poller, None)
    assert poller.state.positions["g"][P0].committed == 100
    assert poller.committed(polled, "g") == {P0: 100}


def test_a_group_that_never_answered_has_no_commits_to_go_on_from(poller: BrokerPoller) -> None:
    """The first answer of a group is its start."""
    poll(poller, None)
    assert poller.state.positions == {}


def test_a_group_is_gone_when_all_coordinators_have_answered_without_it_twice(poller: BrokerPoller) -> None:
    """One that does not answer hides its groups: after a killed broker their commits and weights were forgotten."""
    poll(poller, 100)
    poller.state.cluster = ClusterView(brokers={1: "a", 2: "b"}, topics={})
    part, whole = (Listing(groups={}, brokers=frozenset(brokers), gaps=[]) for brokers in ({1}, {1, 2}))
    for listing, there in ((part, True), (whole, True), (part, True), (whole, False)):
        assert (poller._missed(listing).keys() == {"g"}) is there


def test_groups_that_are_gone_are_forgotten(poller: BrokerPoller) -> None:
    """Group names change, and memory does not grow with them."""
    poll(poller, 100)
    poller.done(Poll(listed={}, groups={}, owners={}, commits=Commits()), now=2.0)
    assert (poller.state.positions, poller.state.groups) == ({}, {})


@pytest.mark.parametrize(("replicas", "rack"), [((1, 2), None), ((1, 9), "cellar")])
def test_a_rack_that_no_broker_has_is_unknown(
    poller: BrokerPoller, monkeypatch: pytest.MonkeyPatch, replicas: tuple[int, ...], rack: str | None
) -> None:
    """From the first poll on, in which only the topics show whether a broker is away, whose rack it may be."""

    def metadata(_wire: Wire, topics: Collection[str]) -> tuple[ClusterView, list[Gap]]:
        brokers: dict[int, Rack] = {1: "a", 2: "b"}
        return view_of(brokers, t=[partition(*replicas)]) if topics else view_of(brokers), []

    def described(_wire: Wire, _groups: object, *, read: Mapping[str, describe.Read]) -> Descriptions:
        return Descriptions(groups=[read["classic"](None)])

    foreign = MemberRack(rack="cellar", source="client-id", fetches_with_rack=False)
    seen = group(replace(member("m", "c", 0), rack=foreign))
    listed = ListedGroup(group="g", coordinator=1, protocol_type="consumer", state="Stable", type="classic")
    monkeypatch.setattr(collect, "metadata", metadata)
    monkeypatch.setattr(describe, "listed", lambda *_: Listing({"g": listed}, frozenset({1, 2}), []))
    monkeypatch.setattr(describe, "described", described)
    monkeypatch.setattr(describe, "committed", lambda *_, **__: Commits())
    monkeypatch.setattr(groups, "classic", lambda *_, **__: seen)
    first = poller._poll_groups()
    assert [one.rack.rack for one in first.groups["g"].members] == [rack]
    assert first.owners["g"]["t", 0].rack.rack == rack
    poller.done(first, now=1.0)
    assert poller._poll_groups().groups["g"] is first.groups["g"]


def test_what_is_unknown_is_served_by_nobody(poller: BrokerPoller) -> None:
    """Before the first metadata there is neither a serving broker nor a rack."""
    assert poller.serving(P0, None) is None
    assert poller.rack_of(None) == ""
    assert poller.rack_of(1) == ""
