"""`samerack health`: asks the agent that runs beside it, for probes where there is no other program to do so."""

from __future__ import annotations

import json
from typing import Annotated, Final

import typer

from samerack.common.errors import AgentError
from samerack.common.fetching import NoAnswerError, address, ask
from samerack.settings.flags import settings_from
from samerack.settings.options import ConfigOption, SetOption

_SECONDS: Final = 3.0


def health(
    config: ConfigOption = None,
    *,
    ready: Annotated[bool, typer.Option("--ready", help="Also check that the agent is ready.")] = False,
    assignments: SetOption = None,
) -> None:
    """Check the agent on this machine (at web.host:web.port): exit code 0 if healthy, else 1 and what is wrong.

    For probes of containers that hold nothing but the agent; without --ready the same as GET /healthz, with it /readyz.
    """
    web = settings_from(config, None, assignments, needs_kafka=False).web
    url = address(web.host, web.port)
    path = "/readyz" if ready else "/healthz"
    try:
        answer = ask(url, path, seconds=_SECONDS)
    except NoAnswerError as error:
        raise AgentError(f"no agent answers: {error}") from None
    if answer.status == 200:
        typer.echo("ok")
        return
    raise AgentError(f"{url}{path} answers {answer.status}: {_wrong(answer.body)}")


def _wrong(body: bytes) -> str:
    try:
        wrong = json.loads(body)["wrong"]
        return "; ".join(f"{part}: {text}" for part, text in wrong.items())
    except (ValueError, KeyError, TypeError, AttributeError):
        return "is it an agent of this version?"
