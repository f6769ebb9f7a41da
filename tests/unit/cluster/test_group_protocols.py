"""What brokers answer about a group that is to change its protocol: releases, settings, and each member's protocol."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from kafka import errors as kafka_errors
from kafka.protocol.admin.configs import DescribeConfigsRequest
from kafka.protocol.admin.groups import DescribeGroupsRequest
from kafka.protocol.broker_version_data import BROKER_API_VERSIONS
from kafka.protocol.metadata import ApiVersionsRequest, ApiVersionsResponse, FindCoordinatorRequest, MetadataRequest
from kio.schema.consumer_group_describe.v1.response import (
    Assignment as Assigned,
)
from kio.schema.consumer_group_describe.v1.response import (
    ConsumerGroupDescribeResponse,
    DescribedGroup,
    Member,
)
from kio.schema.errors import ErrorCode
from kio.schema.types import GroupId, TopicName
from kio.static.primitive import i8, i32, i32Timedelta

from samerack.cluster.broker_assigned import KioRequest
from samerack.cluster.errors import NotAllowedError
from samerack.cluster.group_protocols import POLICY_KEY, SESSION_KEY, ask_brokers, ask_group_configs, ask_members
from samerack.cluster.wire import BrokerRequest
from samerack.common.errors import AgentError
from samerack.protocol.values import Subscription
from tests.unit.cluster.scripted_wire import (
    ScriptedBrokerClient,
    classic_response,
    configs_response,
    coordinator_response,
    metadata_response,
    versions_response,
)

Change = Callable[[BrokerRequest], Any]


def _versions(release: tuple[int, int], level: int | None) -> Any:
    response = versions_response(BROKER_API_VERSIONS[release])
    if level is not None:
        response.finalized_features_epoch = 1
        feature = ApiVersionsResponse.FinalizedFeatureKey(name="group.version", max_version_level=level)
        response.finalized_features = [feature] if level else []
    return response


def _classic(user_data: bytes = b"", error_code: int = 0, state: str = "Stable") -> Any:
    subscription = Subscription(version=3, topics=("clicks",), user_data=b"owned")
    return classic_response(
        subscription, user_data=user_data or None, instance_id="static-1", state=state, error_code=error_code
    )


def _managed(
    *types: int, topics: tuple[TopicName, ...] = (TopicName("clicks"),), error: ErrorCode = ErrorCode.none
) -> ConsumerGroupDescribeResponse:
    nothing = Assigned(topic_partitions=())
    members = tuple(
        Member(
            member_id=f"m-{number}",
            member_epoch=i32(1),
            client_id="pay",
            client_host="/10.0.0.1",
            assignment=nothing,
            target_assignment=nothing,
            subscribed_topic_names=topics,
            member_type=i8(kind),
        )
        for number, kind in enumerate(types)
    )
    group = DescribedGroup(
        error_code=error,
        group_id=GroupId("orders"),
        group_state="Stable",
        group_epoch=i32(1),
        assignment_epoch=i32(1),
        assignor_name="uniform",
        members=members,
    )
    return ConsumerGroupDescribeResponse(throttle_time=i32Timedelta.parse(timedelta(0)), groups=(group,))


def _wire(
    *,
    classic: Any = None,
    managed: Any = None,
    configs: Callable[[BrokerRequest], Any] | None = None,
    release: tuple[int, int] = (4, 1),
    level: int | None = 1,
) -> ScriptedBrokerClient:
    """Two brokers, the second of which coordinates the group."""

    def respond(question: BrokerRequest) -> Any:
        request = question.request
        if isinstance(request, MetadataRequest):
            return metadata_response({1: "a", 2: "b"})
        if isinstance(request, ApiVersionsRequest):
            return _versions(release, level)
        if isinstance(request, FindCoordinatorRequest):
            return coordinator_response("orders", 2)
        if isinstance(request, DescribeConfigsRequest):
            return configs(question) if configs else configs_response(question.broker, {POLICY_KEY: "bidirectional"})
        assert question.broker == 2
        if isinstance(request, DescribeGroupsRequest):
            return classic if classic is not None else _classic(state="Dead")
        assert isinstance(request, KioRequest)
        return managed if managed is not None else _managed(error=ErrorCode.group_id_not_found)

    return ScriptedBrokerClient(respond)


@pytest.mark.parametrize(("level", "known"), [(1, 1), (0, 0), (None, None)])
def test_brokers_have_release_level_and_settings(level: int | None, known: int | None) -> None:
    """A cluster whose features name no `group.version` has level 0; without features it is not known."""
    brokers, unknown = ask_brokers(_wire(level=level))
    assert unknown == ()
    assert {broker: (one.number, one.group_version) for broker, one in brokers.items()} == {
        1: ((4, 1), known),
        2: ((4, 1), known),
    }
    assert brokers[1].configs == {POLICY_KEY: "bidirectional"}


def test_settings_that_may_not_be_read_are_unknown_with_the_cure() -> None:
    """Once for all brokers; the releases are known all the same."""
    brokers, unknown = ask_brokers(_wire(configs=lambda question: configs_response(question.broker, {}, 31)))
    assert (brokers[2].configs, brokers[2].release) == ({}, "4.1")
    (text,) = unknown
    assert text.startswith("settings of brokers: ")
    assert text.endswith("; allow DESCRIBE_CONFIGS on the cluster")


def test_the_groups_own_settings_count() -> None:
    """Brokers answer with their defaults where the group has none; a refusal has its cure."""
    name = SESSION_KEY.removeprefix("group.")
    found = ask_group_configs(_wire(configs=lambda _: configs_response(1, {name: "50000"})), "orders", 1)
    assert found == ({name: "50000"}, ())
    _, (text,) = ask_group_configs(_wire(configs=lambda _: configs_response(1, {}, 30)), "orders", 1)
    assert text.endswith("; allow DESCRIBE_CONFIGS on the group")
    _, (text,) = ask_group_configs(_wire(configs=lambda _: kafka_errors.RequestTimedOutError()), "orders", 1)
    assert "no answer in" in text


@pytest.mark.parametrize(("data", "forbids"), [(b"", False), (b"x", True)])
def test_only_user_data_of_an_assignment_counts(data: bytes, *, forbids: bool) -> None:
    """What a member sends with its subscription is no obstacle: brokers drop it."""
    found = ask_members(_wire(classic=_classic(data)), "orders")
    assert (found.kind, found.state) == ("classic", "Stable")
    assert [(one.instance_id, one.new, one.user_data) for one in found.members] == [("static-1", False, forbids)]


@pytest.mark.parametrize(
    ("protocol", "data", "will_give"),
    [
        ("cooperative-sticky", b"", True),
        ("cooperative-sticky", None, True),
        ("cooperative-sticky", b"\xff\xff\xff\xff", False),
        ("range", b"", False),
    ],
)
def test_librdkafkas_cooperative_sticky_is_known_by_its_first_subscription(
    protocol: str, data: bytes | None, *, will_give: bool
) -> None:
    """Others have a generation in it from the first on: Java's is -1."""
    answer = classic_response(Subscription(version=3, topics=("clicks",), user_data=data))
    answer.groups[0].protocol_data = protocol
    assert [one.will_give_data for one in ask_members(_wire(classic=answer), "orders").members] == [will_give]


def test_members_of_a_converted_group_have_their_protocols() -> None:
    """Brokers report 0 for classic members, 1 for new ones; -1 is not known."""
    found = ask_members(_wire(managed=_managed(0, 1, -1)), "orders")
    assert (found.kind, [one.new for one in found.members]) == ("consumer", [False, True, None])


@pytest.mark.parametrize(
    ("protocol", "instance_id", "consumers"),
    [("sticky", None, 0), ("sticky", "samerack", 0), ("range", "samerack", 0), ("range", None, 1)],
)
def test_an_agents_own_member_does_not_move(protocol: str, instance_id: str | None, consumers: int) -> None:
    """It has no topics; only where agents are static, a dynamic member without topics is a consumer."""
    answer = classic_response(Subscription(version=0, topics=()), protocol=protocol, instance_id=instance_id)
    assert len(ask_members(_wire(classic=answer), "orders").members) == consumers
    found = ask_members(_wire(managed=_managed(0, 1, topics=())), "orders")
    assert [one.new for one in found.members] == [True], "one of the new protocol may wait for topics of its pattern"


def test_brokers_without_the_new_protocol_are_asked_as_they_can_be() -> None:
    """Kafka 3.7 describes no such groups; one that does not exist has no type."""
    assert ask_members(_wire(classic=_classic(), release=(3, 7)), "orders").kind == "classic"
    assert ask_members(_wire(), "orders").kind == ""


@pytest.mark.parametrize(
    ("wire", "kind"),
    [
        (_wire(managed=_managed(error=ErrorCode.group_authorization_failed)), NotAllowedError),
        (_wire(classic=_classic(error_code=30)), NotAllowedError),
        (_wire(managed=kafka_errors.RequestTimedOutError()), AgentError),
    ],
)
def test_a_group_that_cannot_be_described_is_an_error(wire: ScriptedBrokerClient, kind: type[Exception]) -> None:
    """It is not taken for an absent one."""
    with pytest.raises(kind):
        ask_members(wire, "orders")
