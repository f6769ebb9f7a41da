"""A group that moves to another coordinator: its description is asked for again for a while."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from kafka import errors as kafka_errors
from kafka.net.compat import KafkaNetClient

from samerack.agent.leading import membership as membership_module
from samerack.agent.leading.membership import Membership
from samerack.cluster.client import close
from samerack.common.settings import LeadingSettings


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
