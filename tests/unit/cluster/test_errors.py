"""Which kind of failure an error is, and that no place names another cure than that of its kind."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
from kafka import errors as kafka_errors

from samerack.cluster.broker_configs import read_broker_configs
from samerack.cluster.errors import (
    ErrorKind,
    NotAcceptedError,
    NotAllowedError,
    cure_of,
    error_text,
    explained,
    is_refusal,
    kind_of,
)
from samerack.cluster.group_questions import GroupTypes
from samerack.cluster.wire import Wire
from samerack.common.errors import AgentError, RefusedError
from samerack.traffic.gaps import LACKS, failed, refused
from samerack.traffic.snapshot import Family
from tests.unit.cluster.scripted_wire import ScriptedWire

UNREACHABLE = (
    kafka_errors.KafkaConnectionError("Connection refused"),
    kafka_errors.NodeNotReadyError(2),
    kafka_errors.KafkaTimeoutError("late"),
    kafka_errors.RequestTimedOutError(),
    kafka_errors.UnknownBrokerIdError(2),
    ConnectionRefusedError(111, "Connection refused"),
    TimeoutError("late"),
)
NOT_ALLOWED = (
    kafka_errors.ClusterAuthorizationFailedError(),
    kafka_errors.GroupAuthorizationFailedError("orders"),
    kafka_errors.TopicAuthorizationFailedError("t"),
)


def _gap(family: Family, error: Exception) -> str:
    """What a gap of the family lacks, and the cure."""
    return failed(family, "broker 2", error).consequence


def _raised(ask: Callable[[Wire], object], error: Exception) -> str:
    """The text of what is raised when a request fails with this error."""
    with pytest.raises(AgentError) as found:
        ask(ScriptedWire(lambda _: error))
    assert is_refusal(found.value) is is_refusal(error)
    return str(found.value)


PLACES: dict[str, Callable[[Exception], str]] = {
    **{f"gap of {family}": partial(_gap, family) for family, (_, permission) in LACKS.items() if permission},
    "a member's failure": explained,
    "a request's failure": lambda error: error_text(error, 5.0),
    "the brokers' settings": lambda error: _raised(lambda wire: read_broker_configs(wire, [2]), error),
    "a group's type": lambda error: _raised(lambda wire: GroupTypes(wire).find("orders", patience=0.0), error),
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("error", UNREACHABLE, ids=lambda error: type(error).__name__)
def test_a_broker_that_is_down_is_no_missing_permission(place: str, error: Exception) -> None:
    """Wherever a failed connection or a timeout is explained, it is the broker that is to be checked."""
    text = PLACES[place](error)
    assert "allow" not in text
    assert "check that the broker runs" in text


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("error", NOT_ALLOWED, ids=lambda error: type(error).__name__)
def test_a_missing_permission_is_always_named(place: str, error: Exception) -> None:
    """Wherever an authorization error is explained, it says what to allow."""
    assert "allow " in PLACES[place](error)


@pytest.mark.parametrize("family", Family)
def test_a_gap_is_refused_only_by_a_missing_permission(family: Family) -> None:
    """A gap counts as a missing permission by the kind of its error, whether an answer or a request has it."""
    assert failed(family, "", NotAllowedError("no")).refused
    assert [one.refused for one in refused(family, "t", kafka_errors.TopicAuthorizationFailedError.errno)] == [True]
    assert not any(failed(family, "", error).refused for error in UNREACHABLE)
    assert not failed(family, "", "a reason in words").refused


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (NotAcceptedError("x"), ErrorKind.NOT_ACCEPTED),
        (RefusedError("x"), ErrorKind.NOT_ACCEPTED),
        (kafka_errors.IncompatibleBrokerVersion(), ErrorKind.UNSUPPORTED),
        (kafka_errors.NotCoordinatorError(), ErrorKind.PASSING),
        (kafka_errors.InvalidRequestError(), ErrorKind.OTHER),
        (AgentError("x"), ErrorKind.OTHER),
    ],
)
def test_other_errors_have_no_permission(error: Exception, kind: ErrorKind) -> None:
    """Errors of other kinds have their own cure, or none."""
    assert kind_of(error) is kind
    assert "allow" not in cure_of(error, "allow it")


def test_an_error_of_the_agent_is_of_the_kind_of_its_cause() -> None:
    """An error with a text of the agent's is what the library's error was from which it was raised."""
    error = AgentError("kafka: no answer")
    error.__cause__ = TimeoutError()
    assert kind_of(error) is ErrorKind.UNREACHABLE
