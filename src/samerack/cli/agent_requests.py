"""How commands ask the agent on this machine to do something: its address, and what it answers or refuses."""

from __future__ import annotations

import json
from collections.abc import Set as AbstractSet
from typing import Annotated, Final

import typer

from samerack.agent import log
from samerack.common.errors import AgentError, SettingsError
from samerack.common.fetching import HttpAnswer, NoAnswerError, ask
from samerack.settings.all_settings import Settings
from samerack.settings.cures import agent_url, reach_agent
from samerack.settings.flags import settings_from
from samerack.settings.options import BootstrapOption, ConfigOption, SetOption

_ANSWER_SECONDS: Final = 5.0
LOST_SECONDS: Final = 15.0
"""An agent that does not answer for this time is given up; its supervisor replaces a worker that has ended."""
_JSON: Final = {"content-type": "application/json"}

UrlOption = Annotated[
    str | None,
    typer.Option("--url", help="Address of the agent; default: web.host:web.port.", show_default=False),
]


def agent_address(config: ConfigOption, bootstrap: BootstrapOption, url: UrlOption, assignments: SetOption) -> str:
    """Return the agent's address, by the settings if `--url` is not given; set up the log by them.

    Raises:
        SettingsError: A setting or the address is wrong.
        AgentError: Brokers are named as an option, and the agent is of another cluster, or none answers.
    """
    settings = settings_from(config, bootstrap, assignments, needs_kafka=False)
    log.configure(settings)
    base = (url or agent_url(settings)).rstrip("/")
    if "@" in base:
        raise SettingsError("--url: has a user or password; remove them, no agent needs any")
    if not base.startswith(("http://", "https://")):
        raise SettingsError(f"--url {url}: expected http://HOST:PORT")
    if bootstrap:
        check_cluster(base, settings)
    reach_agent(base)
    return base


def servers_of(settings: Settings) -> frozenset[str]:
    """Return the brokers that the settings name."""
    return frozenset(filter(None, (one.strip() for one in settings.kafka.get("bootstrap.servers", "").split(","))))


def is_same_cluster(servers: AbstractSet[str], bootstrap: str) -> bool:
    """Return whether an agent with these bootstrap servers is of the cluster that is asked for; any if none is."""
    return not servers or not servers.isdisjoint(one.strip() for one in bootstrap.split(","))


def check_cluster(base: str, settings: Settings) -> None:
    """Check that an agent is of the cluster whose brokers the settings name.

    Raises:
        AgentError: It is not, or none answers.
    """
    try:
        answer = get(base, "/v1/status")
    except NoAnswerError as error:
        raise _nobody(error) from None
    try:
        of = str(json.loads(answer.body)["bootstrap"])
    except (ValueError, KeyError, TypeError):
        raise refusal(base, answer) from None
    if not is_same_cluster(servers_of(settings), of):
        raise AgentError(
            f"{base}: the agent there observes the cluster at {of}, and --bootstrap-servers names none of its brokers; "
            "give --url or web.port of an agent of the other cluster"
        )


def post(base: str, path: str, body: dict[str, object]) -> HttpAnswer:
    """Post a request; return the answer, whatever its status.

    Raises:
        AgentError: Nobody answers; the message has the cure.
    """
    content = json.dumps(body).encode()
    try:
        return ask(base, path, seconds=_ANSWER_SECONDS, method="POST", headers=_JSON, body=content)
    except NoAnswerError as error:
        raise _nobody(error) from None


def _nobody(error: NoAnswerError) -> AgentError:
    return AgentError(f"{error}; no agent answers there; give --url or web.port, and run this on the agent's machine")


def get(base: str, path: str) -> HttpAnswer:
    """Get a page; return the answer, whatever its status.

    Raises:
        NoAnswerError: Nobody answers.
    """
    return ask(base, path, seconds=_ANSWER_SECONDS)


def refusal(base: str, answer: HttpAnswer) -> AgentError:
    """Return the error for an unexpected answer."""
    return AgentError(f"{base}: answers {answer.status}: {reason(answer) or 'is it an agent of this version?'}")


def reason(answer: HttpAnswer) -> str:
    """Return the reason that the agent gives; empty if it gives none."""
    try:
        return str(json.loads(answer.body)["error"])
    except (ValueError, KeyError, TypeError):
        return ""
