"""Errors that tell other parts of the agent how to react; other errors are in `common.errors`."""

from __future__ import annotations

from samerack.common.errors import AgentError


class NotAllowedError(AgentError):
    """The brokers authenticated the agent but do not allow the request: only a change of permissions helps."""


class RefusedError(AgentError):
    """TLS or SASL failed: a retry soon does not help, and many clients that retry overload the brokers."""


class CoordinatorMovesError(AgentError):
    """A group has no coordinator at the moment, or another one than was asked: retry soon."""
