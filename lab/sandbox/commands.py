"""The program `samerack` of this checkout, run in a process of its own and to its end.

It is what users start, without the console script, which an environment may lack.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Collection, Mapping
from typing import Any, Final

from lab.sandbox.errors import SandboxError

SAMERACK: Final = (sys.executable, "-m", "samerack.cli.main")
"""The program; its arguments follow."""
_MAX_SECONDS: Final = 120.0


def samerack(
    *words: str, timeout: float = _MAX_SECONDS, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end; return its exit code, standard output and standard error.

    Raises:
        subprocess.TimeoutExpired: It takes longer.
    """
    return subprocess.run(  # noqa: S603 - ourselves
        [*SAMERACK, *words], capture_output=True, text=True, timeout=timeout, check=False, env=env
    )


def samerack_json(*words: str, codes: Collection[int] = (0,)) -> dict[str, Any]:
    """Run a command with `--json`, which ends with one JSON object; return that.

    Raises:
        SandboxError: It ended with an exit code that is not among `codes`.
        subprocess.TimeoutExpired: It takes too long.
    """
    done = samerack(*words)
    if done.returncode not in codes:
        raise SandboxError(f"samerack {words[0]} ended with exit code {done.returncode}: {done.stderr.strip()}")
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer
