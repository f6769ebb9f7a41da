"""A BrokerClient whose responses a test writes: every question is kept, and a function of the test answers it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from datetime import timedelta
from typing import Any

from kafka.protocol.admin.cluster import DescribeLogDirsResponse
from kafka.protocol.admin.configs import DescribeConfigsResponse
from kafka.protocol.admin.groups import DescribeGroupsResponse
from kafka.protocol.consumer.offsets import ListOffsetsResponse
from kafka.protocol.metadata import ApiVersionsResponse, FindCoordinatorResponse, MetadataResponse
from kio.schema.consumer_group_describe.v0.response import ConsumerGroupDescribeResponse, DescribedGroup
from kio.schema.errors import ErrorCode
from kio.schema.types import GroupId
from kio.static.primitive import i32, i32Timedelta

from samerack.cluster.versions import Ranges
from samerack.cluster.wire import ANSWER_SECONDS, BrokerClient, BrokerRequest, BrokerResponse
from samerack.protocol.consumer import encode_assignment, encode_subscription
from samerack.protocol.values import Assignment, Subscription, from_pairs

Respond = Callable[[BrokerRequest], Any]
"""The response to a question; an exception stands for none."""


class ScriptedBrokerClient(BrokerClient):
    """Answers without a connection."""

    def __init__(self, respond: Respond) -> None:
        super().__init__({})
        self.respond = respond
        self.closed = 0
        self.asked: list[BrokerRequest] = []

    def ask(self, questions: Sequence[BrokerRequest], timeout: float = ANSWER_SECONDS) -> list[BrokerResponse]:
        """Answer all."""
        assert timeout > 0
        answers = []
        for question in questions:
            self.asked.append(question)
            given = self.respond(question)
            failed = isinstance(given, Exception)
            answers.append(
                BrokerResponse(question=question, error=given)
                if failed
                else BrokerResponse(question=question, response=given)
            )
        return answers

    def close(self) -> None:
        """Count it."""
        self.closed += 1


def topic(name: str, *partitions: Any, error_code: int = 0) -> Any:
    """A topic of a metadata response."""
    return MetadataResponse.MetadataResponseTopic(error_code=error_code, name=name, partitions=list(partitions))


def partition(number: int, leader: int, replicas: Sequence[int], in_sync: Sequence[int]) -> Any:
    """A partition of a metadata response."""
    kind = MetadataResponse.MetadataResponseTopic.MetadataResponsePartition
    return kind(partition_index=number, leader_id=leader, replica_nodes=list(replicas), isr_nodes=list(in_sync))


def metadata_response(racks: dict[int, str | None], *topics: Any, cluster_id: str = "cluster") -> Any:
    """A metadata response with brokers of these racks."""
    broker = MetadataResponse.MetadataResponseBroker
    brokers = [broker(node_id=number, host="127.0.0.1", port=1, rack=rack) for number, rack in racks.items()]
    return MetadataResponse(brokers=brokers, topics=list(topics), cluster_id=cluster_id)


def all_topics(racks: dict[int, str | None], *topics: Any, internal: Collection[str] = ()) -> bytes:
    """The encoded metadata of all topics, in the version that `cluster.metadata` asks for."""
    response = metadata_response(racks, *topics)
    response.controller_id = response.throttle_time_ms = 0
    response.authorized_operations = set()
    for one in response.topics:
        one.is_internal, one.authorized_operations = one.name in internal, set()
        for each in one.partitions:
            each.error_code = each.leader_epoch = 0
            each.offline_replicas = []
    return bytes(response.encode(version=8))


def configs_response(broker: int, values: dict[str, str | None], error_code: int = 0) -> Any:
    """The response with the configuration of one broker."""
    result = DescribeConfigsResponse.DescribeConfigsResult
    configs = [result.DescribeConfigsResourceResult(name=name, value=value) for name, value in values.items()]
    one = result(error_code=error_code, resource_type=4, resource_name=str(broker), configs=configs)
    return DescribeConfigsResponse(results=[one])


def log_dirs_response(request: Any, size: Callable[[str, int], int], error_code: int = 0) -> Any:
    """The response with the sizes of the logs that are asked for; none where it is refused."""
    result = DescribeLogDirsResponse.DescribeLogDirsResult
    rows = result.DescribeLogDirsTopic
    part = rows.DescribeLogDirsPartition
    topics = [
        rows(
            name=one.topic,
            partitions=[
                part(partition_index=at, partition_size=size(one.topic, at), is_future_key=False)
                for at in one.partitions
            ],
        )
        for one in request.topics
    ]
    results = [] if error_code else [result(error_code=0, log_dir="/", topics=topics)]
    return DescribeLogDirsResponse(error_code=error_code, results=results)


def offsets_response(request: Any, end: Callable[[str, int], int]) -> Any:
    """The response with the ends of the logs that are asked for, or with their starts, which are 0."""
    rows = ListOffsetsResponse.ListOffsetsTopicResponse
    part = rows.ListOffsetsPartitionResponse
    topics = [
        rows(
            name=one.name,
            partitions=[
                part(
                    partition_index=each.partition_index,
                    error_code=0,
                    offset=end(one.name, each.partition_index) if each.timestamp == -1 else 0,
                )
                for each in one.partitions
            ],
        )
        for one in request.topics
    ]
    return ListOffsetsResponse(topics=topics)


def coordinator_response(group: str, broker: int, error_code: int = 0) -> Any:
    """The response with the coordinator of a group."""
    one = FindCoordinatorResponse.Coordinator(
        key=group, node_id=broker, host="127.0.0.1", port=1, error_code=error_code
    )
    return FindCoordinatorResponse(coordinators=[one])


def group_response(group: str, error_code: ErrorCode = ErrorCode.none) -> ConsumerGroupDescribeResponse:
    """The response about a group that brokers assign, or with why there is none."""
    described = DescribedGroup(
        error_code=error_code,
        error_message=None,
        group_id=GroupId(group),
        group_state="Stable",
        group_epoch=i32(1),
        assignment_epoch=i32(1),
        assignor_name="uniform",
        members=(),
    )
    return ConsumerGroupDescribeResponse(throttle_time=i32Timedelta.parse(timedelta(0)), groups=(described,))


def classic_response(
    subscription: Subscription,
    *,
    user_data: bytes | None = None,
    instance_id: str | None = None,
    state: str = "Stable",
    protocol_type: str = "consumer",
    protocol: str = "range",
    error_code: int = 0,
) -> Any:
    """The response about a classic group `orders`, which has one member if it is stable."""
    group = DescribeGroupsResponse.DescribedGroup
    assignment = Assignment(partitions=from_pairs([("clicks", 0)]), user_data=user_data)
    member = group.DescribedGroupMember(
        member_id="m-1",
        group_instance_id=instance_id,
        client_id="pay",
        client_host="/10.0.0.1",
        member_metadata=encode_subscription(subscription),
        member_assignment=encode_assignment(assignment),
    )
    is_stable = state == "Stable"
    described = group(
        error_code=error_code,
        group_id="orders",
        group_state=state,
        protocol_type=protocol_type,
        protocol_data=protocol if is_stable else "",
        members=[member] if is_stable else [],
    )
    return DescribeGroupsResponse(groups=[described])


def versions_response(ranges: Ranges) -> Any:
    """The ApiVersions response of a broker with these versions of APIs."""
    one = ApiVersionsResponse.ApiVersion
    return ApiVersionsResponse(
        api_keys=[one(api_key=key, min_version=low, max_version=high) for key, (low, high) in ranges.items()]
    )
