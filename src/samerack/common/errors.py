"""The errors of this package, and how a program of ours ends after one: with one line, and an exit code.

Each message has the cause and the remedy. Exit codes: 0 success, 2 wrong input (an argument, a file, a setting), 1
something outside failed; 3 in place of 1 where the program's 1 is an answer, as that of `samerack verify` is.
"""

from __future__ import annotations

import re
import sys

from samerack.common.words import plain


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


def report_error(error: SettingsError | AgentError, failure: int = 1) -> int:
    """Print an error as one line on standard error; return the exit code: `failure` if something outside failed."""
    sys.stderr.write(f"samerack: {plain(str(error))}\n")
    return 2 if isinstance(error, SettingsError) else failure
