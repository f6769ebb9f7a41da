"""The errors of this room. Each message names the cause and the cure; the command line turns them into exit codes."""

from __future__ import annotations


class SettingsError(Exception):
    """Wrong input from the user: a key, a value, a file or an argument (exit code 2)."""


class AgentError(Exception):
    """Something outside failed: brokers, permissions, ports (exit code 1)."""


class StepBackError(AgentError):
    """The agent had better be outside a group for a while; it leaves properly and says why."""

    def __init__(self, reason: str, seconds: float) -> None:
        super().__init__(reason)
        self.seconds = seconds


class CoordinatorMovesError(AgentError):
    """A group has no coordinator at the moment, or another one than was asked: ask again soon."""
