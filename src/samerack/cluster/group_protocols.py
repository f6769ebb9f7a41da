"""Reads what decides whether a group may change its protocol (KIP-848), and what its clients' settings become then.

The first member of the new protocol that joins a classic group converts it, and the last one that leaves converts it
back, as far as `group.consumer.migration.policy` of the coordinator allows it and no assignment has user data: any
broker may become the coordinator, so all are asked. Nothing here joins a group.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from kafka import errors as kafka_errors
from kio.schema.consumer_group_describe.v1.request import ConsumerGroupDescribeRequest
from kio.schema.consumer_group_describe.v1.response import ConsumerGroupDescribeResponse
from kio.schema.types import GroupId

from samerack.cluster.broker_assigned import KioRequest
from samerack.cluster.broker_configs import ASSIGNORS_KEY, BROKER, MAX_SIZE_KEY, describe_configs
from samerack.cluster.errors import error_class, error_text
from samerack.cluster.group import view_group
from samerack.cluster.group_questions import Coordinators, describe_groups, group_error
from samerack.cluster.joining import seems_agent
from samerack.cluster.metadata import REQUEST_SECONDS, read_metadata
from samerack.cluster.versions import release_of, versions_question
from samerack.cluster.wire import BrokerClient, BrokerRequest, BrokerResponse
from samerack.protocol.sticky import COOPERATIVE_STICKY

POLICY_KEY: Final = "group.consumer.migration.policy"
PROTOCOLS_KEY: Final = "group.coordinator.rebalance.protocols"
CONSUMER_SIZE_KEY: Final = "group.consumer.max.size"
SESSION_KEY: Final = "group.consumer.session.timeout.ms"
HEARTBEAT_KEY: Final = "group.consumer.heartbeat.interval.ms"
_BOUNDS: Final = tuple(
    key.replace("consumer.", f"consumer.{bound}.") for key in (SESSION_KEY, HEARTBEAT_KEY) for bound in ("min", "max")
)
_BROKER_KEYS: Final = (
    *(POLICY_KEY, PROTOCOLS_KEY, CONSUMER_SIZE_KEY, MAX_SIZE_KEY, ASSIGNORS_KEY, SESSION_KEY, HEARTBEAT_KEY),
    *_BOUNDS,
)
GROUP: Final = 32
"""The type of groups as resources that have a configuration, since Kafka 3.8; brokers fill in their own defaults."""
_FEATURE: Final = "group.version"
_CONSUMER_GROUP_DESCRIBE: Final = 69
_NEW: Final[Mapping[int, bool]] = {0: False, 1: True}
_DEAD: Final = "Dead"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerProtocols:
    """What one broker does with groups that change their protocol.

    Attributes:
        release: as `4.1`.
        group_version: the level of the feature `group.version`: from 1 on brokers assign groups; None if not known.
        configs: its settings; those that it does not return are missing.
    """

    release: str
    group_version: int | None
    configs: Mapping[str, str] = field(default_factory=dict)

    @property
    def number(self) -> tuple[int, ...]:
        """The release to compare."""
        return tuple(map(int, self.release.split(".")))


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberProtocol:
    """A member of a group and its protocol.

    Attributes:
        new: whether it uses the new protocol; None where brokers do not report it (before Kafka 4.0).
        user_data: whether the assignment that its leader gave it has user data, with which brokers convert no group.
        will_give_data: whether it gives such user data as a leader, in each rebalance after the group's first:
            librdkafka's `cooperative-sticky`, which is known by a first subscription without user data.
        unreadable: why what it sent cannot be read; empty if it can.
    """

    id: str
    client_id: str
    instance_id: str | None
    new: bool | None
    user_data: bool = False
    will_give_data: bool = False
    unreadable: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupProtocols:
    """A group by its coordinator: its type, "" if it does not exist, the brokers' name of its state, and consumers."""

    kind: str
    state: str
    members: tuple[MemberProtocol, ...] = ()


def ask_brokers(wire: BrokerClient) -> tuple[Mapping[int, BrokerProtocols], tuple[str, ...]]:
    """Return what each broker does, and what is not known of them, with the cure.

    Raises:
        AgentError: A broker does not answer.
    """
    ids = sorted(read_metadata(wire, ()).brokers)
    releases = wire.ask([versions_question(broker) for broker in ids], REQUEST_SECONDS)
    asked = [BrokerRequest(broker=one, request=describe_configs(BROKER, [str(one)], _BROKER_KEYS)) for one in ids]
    configs = wire.ask(asked, REQUEST_SECONDS)
    unknown = dict.fromkeys(filter(None, (_refused(answer, "on the cluster") for answer in configs)))
    brokers = {
        broker: BrokerProtocols(
            release=release_of(
                {api_key.api_key: (api_key.min_version, api_key.max_version) for api_key in versions.api_keys}
            ),
            group_version=_level(versions),
            configs=_values(of_broker),
        )
        for broker, versions, of_broker in zip(ids, map(_response, releases), configs, strict=True)
    }
    return brokers, tuple(f"settings of brokers: {text}" for text in unknown)


def ask_group_configs(wire: BrokerClient, group: str, broker: int) -> tuple[Mapping[str, str], tuple[str, ...]]:
    """Return the settings of a group by a broker of Kafka 4.0 or newer, with defaults; and what is not known."""
    keys = [key.removeprefix("group.") for key in (SESSION_KEY, HEARTBEAT_KEY)]
    (answer,) = wire.ask(
        [BrokerRequest(broker=broker, request=describe_configs(GROUP, [group], keys))], REQUEST_SECONDS
    )
    refused = _refused(answer, "on the group")
    return _values(answer), (f"settings of the group: {refused}",) if refused else ()


def ask_members(wire: BrokerClient, group: str) -> GroupProtocols:
    """Return the members of a group with their protocols, without agents: classic members that have no topics.

    Raises:
        CoordinatorMovesError: The group has no coordinator at the moment.
        NotAllowedError: The group may not be described.
        AgentError: No answer.
    """
    coordinators = Coordinators(wire.ask)
    unfound = coordinators.find([group], REQUEST_SECONDS)
    for error in (unfound.failure, *(error() for error in unfound.errors.values())):
        if error is not None:
            raise group_error(group, error) from error
    broker = coordinators.of([group])[group]
    versions, described = map(
        _response,
        wire.ask([versions_question(broker), BrokerRequest(broker=broker, request=describe_groups([group]))]),
    )
    has = {api_key.api_key: api_key.max_version for api_key in versions.api_keys}.get(_CONSUMER_GROUP_DESCRIBE)
    if has is not None:
        (managed,) = _response(
            *wire.ask([BrokerRequest(broker=broker, request=_by_brokers(group, newer=has > 0))])
        ).groups
        if not (code := int(managed.error_code.value)):
            return GroupProtocols(kind="consumer", state=managed.group_state, members=_managed(managed.members))
        if code != kafka_errors.GroupIdNotFoundError.errno:
            raise group_error(group, kafka_errors.for_code(code)())
    (classic,) = described.groups
    if classic.error_code:
        raise group_error(group, kafka_errors.for_code(classic.error_code)())
    view = view_group(classic)
    return GroupProtocols(
        kind="" if view.state == _DEAD else "classic",
        state=view.state,
        members=tuple(
            MemberProtocol(
                id=member.id,
                client_id=member.client_id,
                instance_id=member.instance_id,
                new=False,
                user_data=bool(member.given_data),
                will_give_data=view.protocol == COOPERATIVE_STICKY
                and member.subscription is not None
                and not member.subscription.user_data,
                unreadable=member.unreadable or "",
            )
            for member in view.members
            if not seems_agent(member, view.protocol)
        ),
    )


def _by_brokers(group: str, *, newer: bool) -> Any:
    if not newer:
        return describe_groups([group], "consumer")
    request = ConsumerGroupDescribeRequest(group_ids=(GroupId(group),), include_authorized_operations=False)
    return KioRequest(request, ConsumerGroupDescribeResponse)


def _managed(members: Sequence[Any]) -> tuple[MemberProtocol, ...]:
    return tuple(
        MemberProtocol(
            id=member.member_id,
            client_id=member.client_id,
            instance_id=member.instance_id,
            new=new,
        )
        for member in members
        if (new := _NEW.get(int(getattr(member, "member_type", -1)))) is not False or member.subscribed_topic_names
    )


def _level(versions: Any) -> int | None:
    """Return the finalized level of `group.version`; 0 where brokers know no such feature."""
    if versions.finalized_features_epoch < 0:
        return None
    levels = {feature.name: int(feature.max_version_level) for feature in versions.finalized_features}
    return levels.get(_FEATURE, 0)


def _response(answer: BrokerResponse) -> Any:
    if answer.error is not None:
        where = f"kafka: broker {answer.question.broker}"
        raise error_class(answer.error)(f"{where}: {error_text(answer.error, REQUEST_SECONDS)}") from answer.error
    return answer.response


def _refused(answer: BrokerResponse, where: str) -> str:
    """Return why settings are not known, and the cure; empty if they are."""
    error = answer.error
    if error is None and answer.response.results[0].error_code:
        error = kafka_errors.for_code(answer.response.results[0].error_code)()
    return "" if error is None else error_text(error, REQUEST_SECONDS, f"allow DESCRIBE_CONFIGS {where}")


def _values(answer: BrokerResponse) -> Mapping[str, str]:
    if answer.error is not None:
        return {}
    return {config.name: config.value for config in answer.response.results[0].configs or () if config.value}
