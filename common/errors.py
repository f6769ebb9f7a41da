"""The errors of this package. Each message has the cause and the remedy; the command line maps them to exit codes."""

from __future__ import annotations


class SettingsError(Exception):
    """Wrong input from the user: a key, a value, a file or an argument (exit code 2)."""


class AgentError(Exception):
    """Something outside failed: brokers, permissions, ports (exit code 1)."""
