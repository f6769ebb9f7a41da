"""The errors of what comes from outside."""

from __future__ import annotations

from samerack.common.errors import AgentError


class StateError(AgentError):
    """A group's state contradicts itself; the message says where."""
