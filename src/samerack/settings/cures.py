"""Commands in messages: complete, and quoted for a shell, so that they can be copied into one.

They reach what this process reaches: the same file of settings, and the same agent.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from samerack.common.fetching import address
from samerack.settings.all_settings import Settings, cluster_path
from samerack.settings.publishing import WebSettings

_WEB: Final = WebSettings()
_ASK_THE_AGENT: Final = frozenset({"lead", "leave", "pause", "resume", "events"})


@dataclass(slots=True)
class _Reached:
    config: str = ""
    url: str = ""


_reached: Final = _Reached()


def agent_url(settings: Settings) -> str:
    """Return the URL below which the agent of these settings shows their cluster."""
    return address(settings.web.host, settings.web.port) + cluster_path(settings.cluster)


def reach_settings(settings: Settings, config: Path | None) -> None:
    """Have commands from now on reach what these settings name.

    Args:
        settings: those of this process.
        config: the file that an option names; one in SAMERACK_CONFIG is found without it.
    """
    _reached.config = "" if config is None else str(config)
    reach_agent(agent_url(settings) if settings.web.port else "")  # with port 0 the system chooses one


def reach_agent(url: str) -> None:
    """Have commands from now on ask the agent at this address; "" if it is not known."""
    _reached.url = "" if url == address(_WEB.host, _WEB.port) else url


def command(name: str, *options: str, group: str | None = None, bootstrap: str = "") -> str:
    """Return a command of `samerack` between backticks.

    Args:
        name: the command, such as `plan` or `streams plan`.
        options: its own options.
        group: its argument.
        bootstrap: brokers, for a command that asks them; with settings in SAMERACK_CONFIG it does without.
    """
    words = list(options)
    if bootstrap:
        words += [*(["-c", _reached.config] if _reached.config else []), "-b", bootstrap]
    if _reached.url and name in _ASK_THE_AGENT:
        words += ["--url", _reached.url]
    if _reached.url and name == "health":
        words += ["-s", f"web.port={urlsplit(_reached.url).port}"]
    if group is not None:
        words = [*words, "--", group] if group.startswith("-") else [group, *words]
    return f"`{shlex.join(['samerack', *name.split(), *words])}`"
