"""Commands in messages: complete, and quoted for a shell, so that they can be copied into one.

They reach what this process reaches: the same file of settings, the same one of several clusters, the same agent.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from samerack.common.fetching import address
from samerack.settings.all_settings import Settings, cluster_path, of_cluster
from samerack.settings.publishing import WebSettings

_WEB: Final = WebSettings()
_ASK_THE_AGENT: Final = frozenset({"lead", "leave", "pause", "resume", "events"})


@dataclass(slots=True)
class _Reached:
    config: str = ""
    url: str = ""
    cluster: str = ""
    clusters: Mapping[str, str] = field(default_factory=dict)
    """Where the settings are those of several: the name of each by its brokers."""


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
    _reached.cluster = settings.cluster
    _reached.clusters = {of_cluster(settings, name).kafka["bootstrap.servers"]: name for name in settings.clusters}
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
        cluster = _reached.clusters.get(bootstrap, _reached.cluster)
        words += [*(["-c", _reached.config] if _reached.config else []), "-b", bootstrap]
        words += ["-s", f"cluster={cluster}"] if cluster else []
    if _reached.url and name in _ASK_THE_AGENT:
        words += ["--url", _reached.url]
    if _reached.url and name == "health":
        words += ["-s", f"web.port={urlsplit(_reached.url).port}"]
    if group is not None:
        words = [*words, "--", group] if group.startswith("-") else [group, *words]
    return f"`{shlex.join(['samerack', *name.split(), *words])}`"
