"""A group that moves to another coordinator: requests are repeated for a while, by clients without old metadata."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from kafka import errors as kafka_errors
from kafka.net.compat import KafkaNetClient

from samerack.agent.leading import membership as membership_module
from samerack.agent.leading.membership import Membership
from samerack.cluster import group_type
from samerack.cluster.client import close
from samerack.cluster.errors import CoordinatorMovesError
from samerack.common.errors import AgentError
from samerack.common.settings import LeadingSettings

MOVES = (KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_NOT_AVAILABLE, KafkaError.COORDINATOR_LOAD_IN_PROGRESS)


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> list[str | KafkaException]:
    """The answers of clients, in turn, to the request for the type of a group."""
    given: list[str | KafkaException] = []

    def client(_: object) -> SimpleNamespace:
        answer = given.pop(0)

        def result(_: float) -> SimpleNamespace:
            if isinstance(answer, KafkaException):
                raise answer
            return SimpleNamespace(type=SimpleNamespace(name=answer))

        return SimpleNamespace(
            describe_consumer_groups=lambda names, **_: {names[0]: SimpleNamespace(result=result)},
            answer=lambda question: question.result(5.0),
        )

    monkeypatch.setattr(group_type, "open_admin", client)
    monkeypatch.setattr(group_type, "_AGAIN_SECONDS", 0.01)
    return given


def test_the_type_of_a_moving_group_is_found(answers: list[str | KafkaException]) -> None:
    """Each request is sent by a new client."""
    answers += [*(KafkaException(KafkaError(code)) for code in MOVES), "CLASSIC"]
    assert group_type.find_group_type({}, "orders") == "classic"
    assert answers == []


def test_patience_ends(answers: list[str | KafkaException]) -> None:
    """A group without a coordinator is an error, with the message of the broker."""
    answers += [KafkaException(KafkaError(KafkaError.NOT_COORDINATOR)) for _ in range(100)]
    with pytest.raises(CoordinatorMovesError, match="kafka: group orders: NOT_COORDINATOR"):
        group_type.find_group_type({}, "orders", patience=0.05)


def test_what_will_not_pass_is_not_asked_again(answers: list[str | KafkaException]) -> None:
    """A refusal is raised at once."""
    answers += [KafkaException(KafkaError(KafkaError.GROUP_AUTHORIZATION_FAILED)), "CLASSIC"]
    with pytest.raises(AgentError, match="kafka: group orders: GROUP_AUTHORIZATION_FAILED"):
        group_type.find_group_type({}, "orders")
    assert answers == ["CLASSIC"]


@pytest.fixture
def membership(monkeypatch: pytest.MonkeyPatch) -> Iterator[Membership]:
    """A membership on a client that never connects."""
    monkeypatch.setattr(membership_module, "_AGAIN_SECONDS", 0.01)
    client = KafkaNetClient(bootstrap_servers="127.0.0.1:1")
    yield Membership(client, group="orders", settings=LeadingSettings(), assign=lambda _: {}, wake=lambda: None)
    close(client)


def test_a_moving_group_is_described(membership: Membership, monkeypatch: pytest.MonkeyPatch) -> None:
    """Temporary errors are retried."""
    view: Any = object()
    outcomes: list[Any] = [kafka_errors.NotCoordinatorError(), kafka_errors.CoordinatorLoadInProgressError(), view]

    def describe() -> Any:
        outcome = outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    monkeypatch.setattr(membership, "describe", describe)
    assert membership.describe_patiently() is view


def test_patience_with_a_description_ends(membership: Membership, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error that lasts too long is raised, and a permanent one is raised at once."""

    def fails(error: Exception) -> Any:
        raise error

    monkeypatch.setattr(membership, "describe", lambda: fails(kafka_errors.NotCoordinatorError()))
    with pytest.raises(kafka_errors.NotCoordinatorError):
        membership.describe_patiently(0.05)
    monkeypatch.setattr(membership, "describe", lambda: fails(kafka_errors.GroupAuthorizationFailedError()))
    with pytest.raises(kafka_errors.GroupAuthorizationFailedError):
        membership.describe_patiently()
