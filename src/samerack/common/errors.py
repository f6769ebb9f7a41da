"""The errors of this package. Each message has the cause and the remedy; the command line maps them to exit codes."""

from __future__ import annotations

import re


class SettingsError(Exception):
    """Wrong input from the user: a key, a value, a file or an argument (exit code 2)."""


class AgentError(Exception):
    """Something outside failed: brokers, permissions, ports (exit code 1, or 3 where 1 is an answer)."""


class RefusedError(AgentError):
    """TLS or SASL failed: a retry soon does not help, and many clients that retry overload the brokers."""


def one_line(error: BaseException) -> str:
    """Return the kind and text of an error of a library, the kind once: kafka-python's texts begin with it."""
    name, text = type(error).__name__, " ".join(str(error).split())
    text = re.sub(rf"^(\[Error \S+\] )?{name}(: |$)", "", text)
    return f"{name}: {text}" if text else name
