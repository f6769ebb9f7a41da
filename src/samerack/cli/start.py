"""Entry point of the console script: answers the probe of a healthy agent before anything else is loaded.

The image's health check and exec probes run `samerack health` every few seconds. If the answer is not simply yes (the
agent is not healthy, there are other options, or the settings are wrong), the command of that name asks again and says
why.
"""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Mapping, Sequence
from io import TextIOWrapper
from pathlib import Path
from typing import Any, Final, NamedTuple

_OPTIONS: Final = {(): "/healthz", ("--ready",): "/readyz"}
_SECONDS: Final = 3.0
_PREFIX: Final = "SAMERACK_"
_PORT: Final = re.compile(r"[0-9]{1,5}")


class Web(NamedTuple):
    """Where the agent listens."""

    host: str
    port: int


def main() -> None:
    """Answer a probe, or run the command.

    Until the command is loaded Ctrl-C ends the program at once: there is nothing to end in order, and an import that it
    interrupts would fail. Characters that the terminal's encoding lacks are shown as `?`.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")
    name, *arguments = sys.argv[1:] or [""]
    if name == "health" and is_healthy(arguments, os.environ):
        print("ok")  # noqa: T201 - what the command prints
        return
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")  # else it looks for them in all that is installed
    from samerack.cli.commands import COMMANDS  # noqa: PLC0415 - all that a probe does without
    from samerack.cli.main import main as run  # noqa: PLC0415 - see above

    command = COMMANDS.get(name)
    if command is None or command.light:
        run()
        return
    from samerack.cli.memory_bound import bounded  # noqa: PLC0415 - see above
    from samerack.common.errors import AgentError, report_error  # noqa: PLC0415 - see above

    try:
        bounded(run)
    except AgentError as error:
        sys.exit(report_error(error, command.failure_code))


def is_healthy(arguments: Sequence[str], environment: Mapping[str, str]) -> bool:
    """Return whether the agent of these settings says that it is healthy; False also if that is not simple to see."""
    path = _OPTIONS.get(tuple(arguments))
    web = _web(environment)
    if path is None or web is None:
        return False
    from samerack.common.fetching import NoAnswerError, address, ask  # noqa: PLC0415 - only if there is an agent to ask

    try:
        return ask(address(*web), path, seconds=_SECONDS).status == 200
    except NoAnswerError:
        return False


def _web(environment: Mapping[str, str]) -> Web | None:
    """Return host and port from environment and file, as `settings` reads them; None if that is not simple."""
    found: dict[str, Any] = {"host": "127.0.0.1", "port": 9464}
    if name := environment.get("SAMERACK_CONFIG"):
        try:
            text = Path(name).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            return None
        if re.search(r"\bweb\b", text):
            import yaml  # noqa: PLC0415 - most files do not set it

            try:
                found |= yaml.safe_load(text).get("web") or {}
            except (yaml.YAMLError, AttributeError, TypeError, ValueError):
                return None
    for variable, value in environment.items():
        section, _, key = variable.removeprefix(_PREFIX).lower().partition("__")
        if variable.startswith(_PREFIX) and section == "web":
            found[key] = value
    if (
        found.keys() != {"host", "port"}
        or not isinstance(found["host"], str)
        or not _PORT.fullmatch(str(found["port"]))
    ):
        return None
    return Web(host=found["host"], port=int(found["port"]))
