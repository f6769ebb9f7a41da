"""How a program of ours ends after an error: with one line, and an exit code.

Exit codes: 0 success, 2 wrong input (an argument, a file, a setting), 1 something outside failed; 3 in place of 1 where
the program's 1 is an answer, as that of `samerack verify` is.
"""

from __future__ import annotations

import sys

from samerack.common.errors import AgentError, SettingsError
from samerack.common.words import plain


def report_error(error: SettingsError | AgentError, failure: int = 1) -> int:
    """Print an error as one line on standard error; return the exit code: `failure` if something outside failed."""
    sys.stderr.write(f"samerack: {plain(str(error))}\n")
    return 2 if isinstance(error, SettingsError) else failure
