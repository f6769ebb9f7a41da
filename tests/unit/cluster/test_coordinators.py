"""Finding coordinators, and asking each about its groups."""

from __future__ import annotations

from typing import Any

from kafka import errors as kafka_errors
from kafka.protocol.metadata import FindCoordinatorResponse

from samerack.cluster.group_questions import Coordinators, describe_groups, to_coordinators
from samerack.cluster.wire import ANY_BROKER, BrokerRequest
from tests.unit.cluster.scripted_wire import ScriptedBrokerClient, coordinator_response


def _one_by_one(question: BrokerRequest) -> Any:
    """Answers as brokers before Kafka 3.0 do; group c may not be seen."""
    assert question.broker == ANY_BROKER
    code = kafka_errors.GroupAuthorizationFailedError.errno if question.request.key == "c" else 0
    return FindCoordinatorResponse(coordinators=[], node_id=ord(question.request.key), error_code=code)


def test_brokers_before_3_0_are_asked_until_each_group_has_an_answer() -> None:
    """They answer for the first group only, with a coordinator or an error, and what is known is not asked again."""
    wire = ScriptedBrokerClient(_one_by_one)
    coordinators = Coordinators(wire.ask)
    unfound = coordinators.find(["a", "b", "c"], 1.0)
    assert (dict(unfound.errors), unfound.failure) == ({"c": kafka_errors.GroupAuthorizationFailedError}, None)
    assert coordinators.of(["a", "b", "c", "d"]) == {"a": ord("a"), "b": ord("b")}
    coordinators.forget(["a"])
    coordinators.find(["a", "b"], 1.0)
    assert [question.request.key for question in wire.asked] == ["a", "b", "c", "a"]


def test_no_answer_and_an_answer_about_other_groups_are_failures() -> None:
    """Neither is repeated at once: the caller knows for how long it may try."""
    for respond, failure in (
        (lambda _: kafka_errors.RequestTimedOutError(), kafka_errors.RequestTimedOutError),
        (lambda _: coordinator_response("other", 1), kafka_errors.CoordinatorNotAvailableError),
    ):
        wire = ScriptedBrokerClient(respond)
        unfound = Coordinators(wire.ask).find(["a", "b"], 1.0)
        assert (unfound.errors, type(unfound.failure), len(wire.asked)) == ({}, failure, 1)


def test_each_coordinator_is_asked_about_its_own_groups_in_parts() -> None:
    """The names of the groups are beside the request, also where the request has them in bytes only."""
    questions = to_coordinators({"c": 1, "a": 1, "d": 2, "b": 1}, lambda names: describe_groups(names, "consumer"), 2)
    assert [(question.broker, question.about) for question in questions] == [(1, ["a", "b"]), (2, ["d"]), (1, ["c"])]
    assert all(question.request.API_KEY == 69 for question in questions)
