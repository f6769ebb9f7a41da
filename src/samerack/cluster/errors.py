"""Which kind of failure an error of a request is, by which callers react, and what an operator does about each kind."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from enum import Enum
from typing import Final

from kafka import errors as kafka_errors

from samerack.common.errors import AgentError, RefusedError, one_line


class NotAllowedError(AgentError):
    """The brokers authenticated the agent but do not allow the request: only a change of permissions helps."""


class CoordinatorMovesError(AgentError):
    """A group has no coordinator at the moment, or another one than was asked: retry soon."""


class NotAcceptedError(kafka_errors.KafkaError):  # type: ignore[misc]  # the library is untyped
    """A connection failed because one side refuses the other; the text has cause and cure."""

    def __str__(self) -> str:
        return str(self.args[0])  # the library would prepend the class name


COORDINATOR_MOVED: Final = (kafka_errors.NotCoordinatorError, kafka_errors.CoordinatorNotAvailableError)
"""The broker that was asked does not coordinate the group: find the coordinator again."""
COORDINATOR_MOVES: Final = (*COORDINATOR_MOVED, kafka_errors.CoordinatorLoadInProgressError)
"""The same, or it coordinates the group soon."""
_NO_ANSWER: Final = (kafka_errors.KafkaTimeoutError, kafka_errors.RequestTimedOutError, TimeoutError)


class ErrorKind(Enum):
    """What kind of failure an error is: each has another cure."""

    NOT_ALLOWED = "not allowed"
    NOT_ACCEPTED = "not accepted"
    """TLS or SASL failed."""
    UNREACHABLE = "unreachable"
    UNSUPPORTED = "unsupported"
    PASSING = "passing"
    OTHER = "other"


_KINDS: Final[Mapping[ErrorKind, tuple[type[BaseException], ...]]] = {
    ErrorKind.NOT_ALLOWED: (NotAllowedError, kafka_errors.AuthorizationError),
    ErrorKind.NOT_ACCEPTED: (
        RefusedError,
        NotAcceptedError,
        kafka_errors.SaslAuthenticationFailedError,
        ssl.SSLCertVerificationError,
    ),
    ErrorKind.UNSUPPORTED: (kafka_errors.UnsupportedVersionError,),
    ErrorKind.UNREACHABLE: (
        *_NO_ANSWER,
        OSError,
        kafka_errors.KafkaConnectionError,
        kafka_errors.NodeNotReadyError,
        kafka_errors.NetworkExceptionError,
        kafka_errors.BrokerNotAvailableError,
        kafka_errors.UnknownBrokerIdError,
        kafka_errors.MetadataEmptyBrokerList,
    ),
    ErrorKind.PASSING: (CoordinatorMovesError, kafka_errors.RetriableError, kafka_errors.RebalanceInProgressError),
}
"""The first that matches counts."""
_CURES: Final[Mapping[ErrorKind, str]] = {
    ErrorKind.UNREACHABLE: "check that the broker runs and can be reached",
    ErrorKind.UNSUPPORTED: "the brokers are too old; docs/operating.md has the minimum version",
    ErrorKind.PASSING: "it usually resolves by itself",
}


ANY_PERMISSION: Final = "allow what docs/permissions.md lists"


def kind_of(error: BaseException) -> ErrorKind:
    """Return the kind of an error; of an error of the agent that is of no kind, that of its cause."""
    found = next((kind for kind, classes in _KINDS.items() if isinstance(error, classes)), ErrorKind.OTHER)
    if found is ErrorKind.OTHER and isinstance(error, AgentError) and error.__cause__ is not None:
        return kind_of(error.__cause__)
    return found


def cure_of(error: BaseException, permission: str) -> str:
    """Return what helps: only for a missing permission that one; empty if nothing is known, or the error has it."""
    kind = kind_of(error)
    return permission if kind is ErrorKind.NOT_ALLOWED else _CURES.get(kind, "")


def error_class(error: Exception) -> type[AgentError]:
    """Return the class of the agent's error for a failed request: callers react by class."""
    if isinstance(error, COORDINATOR_MOVES):
        return CoordinatorMovesError
    return NotAllowedError if kind_of(error) is ErrorKind.NOT_ALLOWED else AgentError


def error_text(error: Exception, seconds: float, permission: str = ANY_PERMISSION) -> str:
    """Return why a request with this limit in seconds failed, and what helps."""
    said = f"no answer in {seconds:.0f} s" if isinstance(error, _NO_ANSWER) else one_line(error)
    cure = cure_of(error, permission)
    return f"{said}; {cure}" if cure else said
