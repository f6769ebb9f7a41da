"""Errors by which other parts of the agent know how to react; other errors are in `common.errors`."""

from __future__ import annotations

from typing import Final

from kafka import errors as kafka_errors

from samerack.common.errors import AgentError, one_line


class NotAllowedError(AgentError):
    """The brokers authenticated the agent but do not allow the request: only a change of permissions helps."""


class CoordinatorMovesError(AgentError):
    """A group has no coordinator at the moment, or another one than was asked: retry soon."""


COORDINATOR_MOVED: Final = (kafka_errors.NotCoordinatorError, kafka_errors.CoordinatorNotAvailableError)
"""The broker that was asked does not coordinate the group: find the coordinator again."""
COORDINATOR_MOVES: Final = (*COORDINATOR_MOVED, kafka_errors.CoordinatorLoadInProgressError)
"""The same, or it coordinates the group soon."""
_NO_ANSWER: Final = (kafka_errors.KafkaTimeoutError, kafka_errors.RequestTimedOutError, TimeoutError)


def error_class(error: Exception) -> type[AgentError]:
    """Return the class of the agent's error for a failed request: callers react by class."""
    if isinstance(error, COORDINATOR_MOVES):
        return CoordinatorMovesError
    return NotAllowedError if isinstance(error, kafka_errors.AuthorizationError) else AgentError


def error_text(error: Exception, seconds: float) -> str:
    """Return why a request with this limit in seconds failed."""
    if isinstance(error, _NO_ANSWER):
        return f"no answer in {seconds:.0f} s; check bootstrap.servers and security.protocol"
    return one_line(error)
