"""Every question about groups: which there are, who coordinates them, of which type they are, what they have committed.

The functions build requests, `Coordinators` finds and remembers who is to be asked, and `GroupTypes` asks whether an
agent can lead a group at all: brokers assign those of other types than classic. It joins no group;
`cluster.group_member` does. `cluster.wire` sends.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from kafka import errors as kafka_errors
from kafka.protocol.admin.groups import DescribeGroupsRequest, ListGroupsRequest
from kafka.protocol.consumer.group import OffsetFetchRequest
from kafka.protocol.metadata import FindCoordinatorRequest

from samerack.cluster.errors import CoordinatorMovesError, error_class, error_text, permission_to_describe
from samerack.cluster.metadata import REQUEST_SECONDS
from samerack.cluster.versions import versions_question
from samerack.cluster.wire import ANY_BROKER, BrokerClient, BrokerRequest, BrokerResponse, chunked, in_turns
from samerack.common.errors import AgentError

GroupType: TypeAlias = Literal["classic", "consumer", "streams", "share"]
"""The type of a group as brokers name it: classic; consumer (KIP-848); streams (KIP-1071); share (KIP-932)."""


def to_coordinators(
    coordinators: Mapping[str, int], request: Callable[[Sequence[str]], Any], at_once: int
) -> list[BrokerRequest]:
    """Return the questions to coordinators about their groups in turns, at most this number of groups in each.

    `coordinators` has the broker of each group by the group's name; `about` of a question are the names of its groups.
    """
    groups: dict[int, list[str]] = {}
    for group in sorted(coordinators):
        groups.setdefault(coordinators[group], []).append(group)
    parts = [[(broker, chunk) for chunk in chunked(names, at_once)] for broker, names in groups.items()]
    return [BrokerRequest(broker=broker, request=request(chunk), about=chunk) for broker, chunk in in_turns(parts)]


def list_groups(state: str = "") -> Any:
    """Return the request for the groups that a broker coordinates: all, or those in one state (KIP-518, Kafka 2.6)."""
    if not state:
        return ListGroupsRequest(states_filter=[], types_filter=[])
    return ListGroupsRequest(states_filter=[state], types_filter=[], min_version=4)


def find_coordinators(groups: Sequence[str]) -> Any:
    """Return the request for the coordinators of these groups; brokers before Kafka 3.0 answer for the first one."""
    return FindCoordinatorRequest(key=groups[0], key_type=0, coordinator_keys=list(groups))


def describe_groups(groups: Sequence[str], kind: GroupType = "classic") -> Any:
    """Return the request for descriptions of groups of one type, for their coordinator."""
    if kind == "classic":
        # version 6 returns an error for an absent group; version 5 returns state Dead
        return DescribeGroupsRequest(groups=list(groups), include_authorized_operations=False, max_version=5)
    from samerack.cluster.broker_assigned import MESSAGES, KioRequest  # noqa: PLC0415 - see there

    request, response = MESSAGES[kind]
    return KioRequest(request(group_ids=tuple(groups), include_authorized_operations=False), response)


def share_offsets(groups: Sequence[str]) -> Any:
    """Return the request for where these share groups begin to read, for their coordinator (KIP-932)."""
    from samerack.cluster.broker_assigned import ask_share_offsets  # noqa: PLC0415 - see there

    return ask_share_offsets(groups)


def fetch_offsets(groups: Sequence[str]) -> Any:
    """Return the request for all committed offsets of these groups, for their coordinator."""
    group = OffsetFetchRequest.OffsetFetchRequestGroup
    return OffsetFetchRequest(
        groups=[group(group_id=name, member_id=None, member_epoch=-1, topics=None) for name in groups],
        require_stable=False,
        min_version=8,
        max_version=9,
    )


Ask: TypeAlias = Callable[[Sequence[BrokerRequest], float], Sequence[BrokerResponse]]
"""Asks brokers, with a limit in seconds for each request: `BrokerClient.ask`, or `cluster.wire.ask` of a client."""

MAX_GROUPS_PER_REQUEST: Final = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Unfound:
    """Why coordinators were not found: the brokers' error by group, or why a request has no response."""

    errors: Mapping[str, type[kafka_errors.KafkaError]]
    failure: Exception | None


class Coordinators:
    """The coordinators that were found. Not thread-safe."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._brokers: dict[str, int] = {}

    def of(self, groups: Iterable[str]) -> dict[str, int]:
        """Return the coordinators of these groups as far as they are known."""
        return {group: self._brokers[group] for group in groups if group in self._brokers}

    def forget(self, groups: Iterable[str]) -> None:
        """Forget the coordinators of these groups: the next `find` asks for them."""
        for group in groups:
            self._brokers.pop(group, None)

    def find(self, groups: Iterable[str], timeout: float) -> Unfound:
        """Find those that are not known: of all groups in one request (KIP-699), one by one before Kafka 3.0.

        `timeout`: seconds for each request.
        """
        errors: dict[str, type[kafka_errors.KafkaError]] = {}
        failure: Exception | None = None
        for chunk in chunked([group for group in groups if group not in self._brokers], MAX_GROUPS_PER_REQUEST):
            left = chunk
            while left:
                (answer,) = self._ask([BrokerRequest(broker=ANY_BROKER, request=find_coordinators(left))], timeout)
                if answer.error is not None:
                    failure = answer.error
                    break
                found: list[tuple[str, Any]] = [
                    (str(coordinator.key), coordinator) for coordinator in answer.response.coordinators or ()
                ]
                for group, one in found or [(left[0], answer.response)]:
                    if one.error_code:
                        errors[group] = kafka_errors.for_code(one.error_code)
                    else:
                        self._brokers[group] = int(one.node_id)
                rest = [group for group in left if group not in errors and group not in self._brokers]
                if len(rest) == len(left):
                    failure = kafka_errors.CoordinatorNotAvailableError(left[0])  # the answer is about other groups
                    break
                left = rest
        return Unfound(errors=errors, failure=failure)


_PATIENCE_SECONDS: Final = 3.0
_AGAIN_SECONDS: Final = 0.2
_CONSUMER_GROUP_DESCRIBE: Final = 69
"""The API key of the request that describes groups of type consumer."""
_NO_CONSUMER_GROUP: Final = frozenset(
    {kafka_errors.GroupIdNotFoundError.errno, kafka_errors.UnsupportedVersionError.errno}
)


class GroupTypes:
    """Asks for types of groups over connections of its own; any thread may ask, one at a time."""

    def __init__(self, wire: BrokerClient) -> None:
        self._wire = wire
        self._lock = threading.Lock()

    def find(self, group: str, *, patience: float = _PATIENCE_SECONDS) -> str:
        """Return the type of a group: "classic" or "consumer" (KIP-848).

        A group that does not exist is classic, because the agent would create it by joining. Asks again while the group
        moves from one coordinator to another; after `patience` seconds that is an error.

        Raises:
            CoordinatorMovesError: The group has no coordinator, or another one than was asked.
            NotAllowedError: The agent may not describe the group.
            RefusedError: TLS or SASL failed.
            AgentError: No response.
        """
        deadline = time.monotonic() + patience
        while True:
            try:
                with self._lock:
                    return self._ask(group)
            except CoordinatorMovesError:
                if time.monotonic() > deadline:
                    raise
            time.sleep(_AGAIN_SECONDS)

    def _ask(self, group: str) -> str:
        coordinators = Coordinators(self._wire.ask)
        unfound = coordinators.find([group], REQUEST_SECONDS)
        if unfound.failure is not None:
            raise self._unanswered(group, unfound.failure) from unfound.failure
        for error in unfound.errors.values():
            raise group_error(group, error())
        coordinator = coordinators.of([group])[group]
        versions = self._response(group, versions_question(coordinator))
        if all(api_key.api_key != _CONSUMER_GROUP_DESCRIBE for api_key in versions.api_keys):
            return "classic"
        question = BrokerRequest(broker=coordinator, request=describe_groups([group], "consumer"))
        (described,) = self._response(group, question).groups
        code = int(described.error_code.value)
        if code and code not in _NO_CONSUMER_GROUP:
            raise group_error(group, kafka_errors.for_code(code)())
        return "classic" if code else "consumer"

    def _response(self, group: str, question: BrokerRequest) -> Any:
        (answer,) = self._wire.ask([question], REQUEST_SECONDS)
        if answer.error is not None:
            raise self._unanswered(group, answer.error) from answer.error
        return answer.response

    def _unanswered(self, group: str, error: Exception) -> AgentError:
        """Disconnect, so that the next question connects to any bootstrap server; return the error to raise."""
        self._wire.close()
        return group_error(group, error)


def group_error(group: str, error: Exception) -> AgentError:
    """Return the error to raise for a group that is not found or not described, with the cure."""
    why = error_text(error, REQUEST_SECONDS, permission_to_describe(error, "allow DESCRIBE on the group"))
    return error_class(error)(f"kafka: group {group}: {why}")
