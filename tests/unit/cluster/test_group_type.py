"""The type of a group, with responses of brokers that a test writes; coordinators that move are asked again."""

from __future__ import annotations

from typing import Any

import pytest
from kafka import errors as kafka_errors
from kafka.protocol.metadata import ApiVersionsRequest, FindCoordinatorRequest
from kio.schema.errors import ErrorCode

from samerack.cluster import group_questions
from samerack.cluster.broker_assigned import KioRequest
from samerack.cluster.errors import CoordinatorMovesError, NotAllowedError
from samerack.cluster.group_questions import GroupTypes
from samerack.cluster.wire import ANY_BROKER, BrokerRequest
from samerack.common.errors import AgentError
from tests.unit.cluster.scripted_wire import (
    ScriptedBrokerClient,
    coordinator_response,
    group_response,
    versions_response,
)

CONSUMER_GROUP_DESCRIBE = 69
COORDINATOR = 7
MOVES = (ErrorCode.not_coordinator, ErrorCode.coordinator_not_available, ErrorCode.coordinator_load_in_progress)


def scripted(
    *answers: object, apis: tuple[int, ...] = (CONSUMER_GROUP_DESCRIBE,)
) -> tuple[GroupTypes, ScriptedBrokerClient]:
    """The types of groups of a broker that gives these answers about a group, in turn; the last one stays."""
    queue = list(answers)

    def respond(question: BrokerRequest) -> Any:
        if isinstance(question.request, FindCoordinatorRequest):
            assert question.broker == ANY_BROKER
            return coordinator_response("orders", COORDINATOR)
        assert question.broker == COORDINATOR
        if isinstance(question.request, ApiVersionsRequest):
            return versions_response(dict.fromkeys(apis, (0, 0)))
        assert isinstance(question.request, KioRequest)
        return queue.pop(0) if len(queue) > 1 else queue[0]

    wire = ScriptedBrokerClient(respond)
    return GroupTypes(wire), wire


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ask again soon."""
    monkeypatch.setattr(group_questions, "_AGAIN_SECONDS", 0.01)


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (ErrorCode.none, "consumer"),
        (ErrorCode.group_id_not_found, "classic"),
        (ErrorCode.unsupported_version, "classic"),
    ],
)
def test_the_type_of_a_group(code: ErrorCode, kind: str) -> None:
    """A group that does not exist yet is a classic one, because the agent will create it by joining."""
    types, _ = scripted(group_response("orders", code))
    assert types.find("orders") == kind


def test_brokers_before_the_new_protocol_have_classic_groups_only() -> None:
    """They are not asked with a request that they do not know: they would close the connection."""
    types, wire = scripted(AssertionError("not asked"), apis=(3, 10))
    assert types.find("orders") == "classic"
    assert not any(isinstance(question.request, KioRequest) for question in wire.asked)


def test_a_coordinator_that_does_not_answer_is_no_sign_of_a_classic_group() -> None:
    """Found on reading: without the versions of a broker a group of the new protocol was taken for a classic one."""

    def respond(question: BrokerRequest) -> Any:
        finds = isinstance(question.request, FindCoordinatorRequest)
        return coordinator_response("orders", COORDINATOR) if finds else kafka_errors.RequestTimedOutError()

    wire = ScriptedBrokerClient(respond)
    with pytest.raises(AgentError, match="kafka: group orders: no answer in 5 s"):
        GroupTypes(wire).find("orders")
    assert wire.closed == 1


def test_the_type_of_a_moving_group_is_found() -> None:
    """The coordinator is looked up again for each attempt."""
    types, wire = scripted(*(group_response("orders", code) for code in MOVES), group_response("orders"))
    assert types.find("orders") == "consumer"
    assert sum(isinstance(question.request, FindCoordinatorRequest) for question in wire.asked) == len(MOVES) + 1


def test_patience_ends() -> None:
    """A group without a coordinator is an error, with the error of the broker."""
    types, _ = scripted(group_response("orders", ErrorCode.not_coordinator))
    with pytest.raises(CoordinatorMovesError, match=r"kafka: group orders: .*NotCoordinatorError"):
        types.find("orders", patience=0.05)


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (group_response("orders", ErrorCode.group_authorization_failed), NotAllowedError),
        (kafka_errors.RequestTimedOutError(), AgentError),
    ],
)
def test_what_will_not_pass_is_not_asked_again(answer: object, kind: type[AgentError]) -> None:
    """The error names the group and is raised at once."""
    types, wire = scripted(answer)
    with pytest.raises(AgentError, match="kafka: group orders: ") as raised:
        types.find("orders")
    assert type(raised.value) is kind
    assert sum(isinstance(question.request, KioRequest) for question in wire.asked) == 1
