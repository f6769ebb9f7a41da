"""The errors by which parts of the agent tell each other what to do about a group; others are in `common.errors`."""

from __future__ import annotations

from common.errors import AgentError


class NotAllowedError(AgentError):
    """The brokers know who asks and do not allow it: only whoever gives permissions can change that."""


class RefusedError(AgentError):
    """TLS or SASL failed: asking again soon is of no use, and many who do are a storm."""


class CoordinatorMovesError(AgentError):
    """A group has no coordinator at the moment, or another one than was asked: ask again soon."""
