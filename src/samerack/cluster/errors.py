"""Which kind of failure an error is, by which callers react, and what an operator does about each kind.

`refusal` explains errors of both clients when a connection is refused: one cause and one cure for each. A refusal is no
outage: TLS or SASL failed because of what one side is or sends, and a retry soon changes nothing.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from enum import Enum
from typing import Any, Final

from kafka import errors as kafka_errors

from samerack.auth.identities import TokenError
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


def permission_to_describe(error: BaseException, permission: str) -> str:
    """Return the permission that describing groups lacks: this one, unless the error names the groups' topics.

    Brokers describe a group that is not classic only to a client that may describe all topics of its members.
    """
    is_about_topics = isinstance(error, kafka_errors.TopicAuthorizationFailedError)
    return "allow DESCRIBE on all of the group's topics" if is_about_topics else permission


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


_UNTRUSTED: Final = (
    "the broker's certificate is signed by an authority that is not trusted here; set kafka.ssl.ca.location to the "
    "authority's certificate (PEM)"
)
_OTHER_NAME: Final = (
    "the broker's certificate is for another host name; use the certificates' names in bootstrap.servers and "
    "advertised.listeners, or have certificates issued for these names"
)
_CERTIFICATES: Final[Mapping[int, str]] = {
    9: "the broker's certificate is not valid yet; check the clocks of broker and agent",
    10: "the broker's certificate has expired; renew it on the broker",
    18: _UNTRUSTED,
    19: _UNTRUSTED,
    20: _UNTRUSTED,
    21: _UNTRUSTED,
    23: "the broker's certificate has been revoked; renew it on the broker",
    62: _OTHER_NAME,
    64: _OTHER_NAME,
}
"""Texts by OpenSSL's error number (X509_V_ERR_...)."""
_ALERTS: Final = ("CERTIFICATE", "UNKNOWN_CA", "HANDSHAKE_FAILURE", "ACCESS_DENIED")
_SHOW: Final = (
    "set kafka.ssl.certificate.location and kafka.ssl.key.location to a certificate that the brokers trust and that "
    "has not expired"
)
_SAID_CURES: Final = (
    (kafka_errors.GroupMaxSizeReachedError, "the group is full: raise group.max.size on the brokers"),
    (
        kafka_errors.InvalidSessionTimeoutError,
        "set leading.session_timeout_seconds between the brokers' group.min.session.timeout.ms and "
        "group.max.session.timeout.ms",
    ),
    (
        kafka_errors.InconsistentGroupProtocolError,
        "the group's members and the agent have no protocol name in common; the agent observes the group",
    ),
    (kafka_errors.InvalidGroupIdError, "the brokers do not allow this group name; correct `groups`"),
)
_PERMISSIONS: Final = (
    (kafka_errors.GroupAuthorizationFailedError, "allow READ on the group"),
    (kafka_errors.TopicAuthorizationFailedError, "allow DESCRIBE on the topics"),
)
_PASSWORD: Final = "check kafka.sasl.username and kafka.sasl.password"  # noqa: S105 - the names of settings


def refusal(error: BaseException | None, config: Mapping[str, Any]) -> str:
    """Return cause and cure if an error of kafka-python, or one of its causes, is a refusal, else an empty text."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        words = _words(error, config)
        if words:
            return words
        inner = error.args[0] if error.args and isinstance(error.args[0], BaseException) else None
        error = inner or error.__cause__ or error.__context__
    return ""


def _words(error: BaseException, config: Mapping[str, Any]) -> str:
    mechanism = str(config.get("sasl_mechanism") or "")
    if isinstance(error, (NotAcceptedError, TokenError)):
        return str(error)
    if isinstance(error, ssl.SSLCertVerificationError):
        other = f"the broker's certificate is not accepted: {error.verify_message}; renew it on the broker"
        return _CERTIFICATES.get(error.verify_code, other)
    if isinstance(error, ssl.SSLError):
        return _of_tls(getattr(error, "reason", None) or str(error))
    if isinstance(error, kafka_errors.UnsupportedSaslMechanismError):
        return f"the brokers do not offer SASL {mechanism} there; set kafka.sasl.mechanism to one that they offer"
    if isinstance(error, kafka_errors.SaslAuthenticationFailedError):
        said = str(error).rpartition("SaslAuthenticationFailedError: ")[2]
        cure = getattr(config.get("sasl_oauth_token_provider"), "cure", "") or _PASSWORD
        return f"the brokers refuse SASL {mechanism}: {said}; {cure}"
    return ""


def _of_tls(reason: str) -> str:
    if "ALERT" in reason and any(alert in reason for alert in _ALERTS):
        said = reason.rpartition("ALERT_")[2].lower().replace("_", " ")
        return f"the brokers refuse the agent's certificate ({said}); {_SHOW}"
    if reason in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST"):
        return "the server does not use TLS; check the port and kafka.security.protocol"
    return ""


def is_refusal(error: BaseException) -> bool:
    """Return whether brokers refuse the agent or its request, so that a retry soon changes nothing."""
    return kind_of(error) in (ErrorKind.NOT_ALLOWED, ErrorKind.NOT_ACCEPTED)


def explained(error: BaseException) -> str:
    """Return a failure in one line, with a cure if one is known."""
    if isinstance(error, (AgentError, NotAcceptedError)):
        return str(error)
    said = one_line(error)
    permission = next((one for kind, one in _PERMISSIONS if isinstance(error, kind)), ANY_PERMISSION)
    cure = next((cure for kind, cure in _SAID_CURES if isinstance(error, kind)), "") or cure_of(error, permission)
    return f"{said}; {cure}" if cure else said
