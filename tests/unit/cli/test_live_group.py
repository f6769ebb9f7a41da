"""How an agent comes to lead a live group, and short names of its members, as `samerack plan` says it."""

from __future__ import annotations

import re

import pytest
from kafka.protocol.admin.configs import DescribeConfigsRequest
from kafka.protocol.admin.groups import (
    DescribeGroupsRequest,
    ListGroupsRequest,
    ListGroupsResponse,
)
from kafka.protocol.metadata import ApiVersionsRequest, FindCoordinatorRequest, MetadataRequest
from kio.schema.errors import ErrorCode

from samerack.cli import asking, lag, live_group
from samerack.cli.live_group import Subject, how_led, short_names, subject_of
from samerack.cluster import group_questions
from samerack.cluster.broker_assigned import KioRequest
from samerack.cluster.errors import NotAllowedError
from samerack.cluster.racks import NO_HOSTS
from samerack.cluster.wire import BrokerRequest
from samerack.common.errors import AgentError
from samerack.common.records import LEADING
from samerack.protocol.values import Subscription
from samerack.settings.loading import load
from tests.unit.agent.values import group, member
from tests.unit.cluster.scripted_wire import (
    ScriptedBrokerClient,
    classic_response,
    configs_response,
    coordinator_response,
    group_response,
    metadata_response,
    versions_response,
)

SETTINGS = load(flags={"kafka": {"bootstrap.servers": "b:1"}, "policy": {"min_saving": 0.05}}, environment={})
VIEW = group(member("one", "t"), member("two", "t"))


@pytest.mark.parametrize(("saving", "advised"), [(None, False), (0.0, False), (0.05, False), (0.2, True)])
def test_a_takeover_that_lead_would_refuse_is_not_advised(saving: float | None, *, advised: bool) -> None:
    """Nothing is taken over for an unknown saving, none, or one below policy.min_saving."""
    text = how_led(VIEW, SETTINGS, role="following", saving=saving)
    assert "when its leader leaves" in text
    assert ("at once by `samerack lead orders`" in text) is advised


def test_where_no_agent_runs_a_takeover_needs_one_first() -> None:
    """`samerack lead` asks an agent that follows the group."""
    text = how_led(VIEW, SETTINGS, role="", saving=0.2)
    assert "`samerack lead orders`, where `samerack run --group orders -b b:1` runs" in text


def test_a_group_that_the_agent_leads_is_led_now() -> None:
    """The running agent is not said to come to lead it; where it follows, it is."""
    assert how_led(VIEW, SETTINGS, role=LEADING, saving=0.0) == "the running agent leads it now"
    assert "when its leader leaves" in how_led(VIEW, SETTINGS, role="following", saving=0.0)


def test_an_agent_that_follows_and_never_evicts_has_its_reason_shown() -> None:
    """`samerack lead` would be refused there."""
    text = how_led(VIEW, SETTINGS, role="following", trouble="members (samsa) did not come back", saving=0.2)
    assert text == "once its leader leaves: members (samsa) did not come back"


def test_a_group_that_brokers_assign_is_never_led() -> None:
    """It is not a question of deploys or takeovers."""
    assert how_led(None, SETTINGS, role="", saving=0.5) == "never: the brokers assign its partitions (KIP-848)"


def test_a_group_without_room_for_the_agent_is_not_led() -> None:
    """The two consumers, the agent and one consumer more must fit in `group.max.size`."""
    text = how_led(VIEW, SETTINGS, role="", saving=0.2, max_size=3)
    assert text.startswith("not while it runs: group.max.size of the brokers is 3: 2 current or expected consumers")
    assert "when its leader leaves" in how_led(VIEW, SETTINGS, role="", saving=0.2, max_size=4)


def test_a_client_id_is_enough_where_it_is_the_only_one() -> None:
    """The rest of the member id is not shown."""
    assert short_names({"pay-0-5f0c1e5e-8c5b": "pay-0", "pay-1-5f0c1e5e-8c5b": "pay-1"}) == {
        "pay-0-5f0c1e5e-8c5b": "pay-0",
        "pay-1-5f0c1e5e-8c5b": "pay-1",
    }
    assert short_names({}) == {}


def test_members_with_one_client_id_have_what_distinguishes_them() -> None:
    """Four characters of what the broker appended, or more where these are alike; others keep their client id."""
    ids = {"c-5f0c11": "c", "c-5f0c22": "c", "c-77aa11": "c", "d-1": "d"}
    assert list(short_names(ids).values()) == ["c-5f0c1", "c-5f0c2", "c-77aa1", "d"]


def test_member_ids_need_not_begin_with_the_client_id() -> None:
    """Members of the new protocol have ids of their own, static ones their instance id."""
    ids = {"Vb8yPq": "c", "pod-3-5f0c": "c"}
    assert list(short_names(ids).values()) == ["c-Vb8y", "c-pod-"]


def test_names_that_cannot_be_short_are_whole_ids() -> None:
    """Without the client id both would be `x`."""
    ids = {"c-x": "c", "x": "c"}
    assert short_names(ids) == {"c-x": "c-x", "x": "x"}


_SUBSCRIPTION = Subscription(version=3, topics=("clicks",), rack="a")


class _Brokers:
    """Two brokers, the second of which coordinates the group `orders`, if there is one."""

    def __init__(
        self,
        state: str = "Stable",
        *,
        there: bool = True,
        kind: str = "classic",
        of: str = "consumer",
        protocol: str = "range",
        subscription: Subscription = _SUBSCRIPTION,
    ) -> None:
        self.states, self.there, self.kind, self.of, self.protocol = [state], there, kind, of, protocol
        self.subscription = subscription
        self.code = ErrorCode.none if kind == "consumer" else ErrorCode.group_id_not_found
        self.wire = ScriptedBrokerClient(self._answer)

    def _answer(self, question: BrokerRequest) -> object:
        request = question.request
        if isinstance(request, FindCoordinatorRequest):
            return coordinator_response("orders", 2)
        if isinstance(request, ApiVersionsRequest):
            return versions_response({69: (0, 0)})
        if isinstance(request, KioRequest):
            return group_response("orders", self.code)
        if isinstance(request, MetadataRequest):
            return metadata_response({1: "a", 2: "b"})
        if isinstance(request, ListGroupsRequest):
            group = ListGroupsResponse.ListedGroup(
                group_id="orders", protocol_type=self.of, group_state="Stable", group_type=self.kind
            )
            mine = [group] if self.there and question.broker == 2 else []
            return ListGroupsResponse(error_code=0, groups=mine)
        if isinstance(request, DescribeConfigsRequest):
            return configs_response(question.broker, {"group.consumer.assignors": "uniform,range"})
        assert isinstance(request, DescribeGroupsRequest)
        state = self.states.pop(0) if len(self.states) > 1 else self.states[0]
        return classic_response(self.subscription, state=state, protocol_type=self.of, protocol=self.protocol)

    def subject(self) -> Subject:
        """What a plan is about."""
        return subject_of("orders", SETTINGS, self.wire, NO_HOSTS)


@pytest.fixture
def no_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for no rebalance to end."""
    monkeypatch.setattr(live_group, "_REBALANCE_SECONDS", 0.0)
    monkeypatch.setattr(group_questions, "_PATIENCE_SECONDS", 0.0)


def test_a_classic_group_is_described_by_its_coordinator_alone() -> None:
    """Its members have what they own; nothing joins it, and no other client is needed."""
    brokers = _Brokers()
    subject = brokers.subject()
    assert (subject.protocol, subject.offered, subject.unreadable) == ("range", None, ())
    assert [(one.id, one.rack.rack) for one in subject.members] == [("m-1", "a")]
    assert subject.view is not None
    described = [one.broker for one in brokers.wire.asked if isinstance(one.request, DescribeGroupsRequest)]
    assert described == [2]


def test_an_agents_dynamic_member_is_no_consumer_of_the_plan() -> None:
    """The agent has no instance id where a static member could be given partitions."""
    subject = _Brokers(protocol="sticky", subscription=Subscription(version=0, topics=())).subject()
    assert subject.members == ()
    assert subject.view is not None
    assert len(subject.view.members) == 1


def test_a_group_of_the_new_protocol_has_what_its_brokers_offer() -> None:
    """The assignor of the brokers stands for the protocol of members; there is no view of a classic group."""
    subject = _Brokers(kind="consumer").subject()
    assert (subject.protocol, subject.view) == ("uniform", None)
    assert subject.offered is not None
    assert subject.offered.installed is False


def test_a_rebalance_is_awaited(monkeypatch: pytest.MonkeyPatch) -> None:
    """The group is described again until it has ended."""
    monkeypatch.setattr(live_group, "_PAUSE_SECONDS", 0.0)
    brokers = _Brokers()
    brokers.states = ["PreparingRebalance", "CompletingRebalance", "Stable"]
    assert brokers.subject().protocol == "range"


@pytest.mark.parametrize(
    ("brokers", "why"),
    [
        (_Brokers("PreparingRebalance"), "is PreparingRebalance; it needs members and no rebalance in progress"),
        (_Brokers("Empty"), "is Empty; it needs members"),
        (_Brokers(there=False), "does not exist on these brokers; "),
        (_Brokers(of="connect"), "has protocol type 'connect'; only consumer groups can be planned"),
        (_Brokers(kind="unheard-of"), "has type unheard-of; only classic and consumer groups can be planned"),
        (
            _Brokers(protocol="stream"),
            "is a Kafka Streams application, which assigns tasks: `samerack streams plan --group orders -b b:1` shows",
        ),
    ],
    ids=["rebalances", "empty", "not there", "connect", "another type", "streams"],
)
@pytest.mark.usefixtures("no_patience")
def test_a_group_that_cannot_be_planned_is_an_error(brokers: _Brokers, why: str) -> None:
    """The error names the group, and what would be right."""
    with pytest.raises(AgentError, match=re.escape(f"group orders: {why}")):
        brokers.subject()


@pytest.mark.usefixtures("no_patience")
def test_a_group_that_may_not_be_described_is_not_called_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Brokers leave it out of their lists; the error of `plan` and that of `lag` say what to allow."""
    brokers = _Brokers(there=False)
    brokers.code = ErrorCode.group_authorization_failed
    with pytest.raises(NotAllowedError, match="allow DESCRIBE on the group"):
        brokers.subject()
    monkeypatch.setattr(asking, "lag", lambda *_, **__: (None, ""))
    monkeypatch.setattr(lag, "BrokerClient", lambda _: brokers.wire)
    with pytest.raises(NotAllowedError, match="allow DESCRIBE on the group"):
        lag.lag("orders", bootstrap=["b:1"])
