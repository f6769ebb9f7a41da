"""Which Kafka errors end a membership, and which only cost a retry: to leave and join again are two rebalances."""

from __future__ import annotations

from typing import Final

from kafka import errors as kafka_errors

from samerack.cluster.coordinator_requests import EndedError
from samerack.cluster.refusals import is_refusal

_NOT_ACCEPTED: Final = (
    kafka_errors.InconsistentGroupProtocolError,
    kafka_errors.InvalidGroupIdError,
    kafka_errors.InvalidSessionTimeoutError,
    kafka_errors.GroupMaxSizeReachedError,
    kafka_errors.UnsupportedVersionError,
)
"""Brokers do not accept the agent as a member with its settings."""


def is_refused(error: Exception) -> bool:
    """Return whether the brokers refuse the agent: for missing permissions, or as a member with its settings."""
    return is_refusal(error) or isinstance(error, _NOT_ACCEPTED)


def ends_membership(error: kafka_errors.KafkaError) -> bool:
    """Return whether the membership is of no more use: refused, taken over by another agent, or to be left."""
    return is_refused(error) or isinstance(error, (kafka_errors.FencedInstanceIdError, EndedError))
