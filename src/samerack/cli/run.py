"""`samerack run`: becomes the agent's first process (`agent.process`), which loads no command line."""

from __future__ import annotations

from typing import Annotated

import typer

from samerack.agent.process import RunRequest, become
from samerack.settings.options import BootstrapOption, ConfigOption, SetOption


def run(
    config: ConfigOption = None,
    bootstrap: BootstrapOption = None,
    group: Annotated[
        list[str] | None,
        typer.Option("--group", "-g", help="Group to lead; may be repeated. Overrides `groups` in the file."),
    ] = None,
    assignments: SetOption = None,
    *,
    observe: Annotated[
        bool,
        typer.Option(
            "--observe", help="Only measure: what traffic.groups names, else the given groups, else all; join none."
        ),
    ] = False,
    keep_trying: Annotated[
        bool,
        typer.Option(
            "--keep-trying",
            help="Never end by itself: if it cannot start, say why and try again every 30 s. For a sidecar, whose end "
            "would make its pod not ready.",
        ),
    ] = False,
) -> None:
    """Watch the cluster, lead groups and rebalance them when racks make it worthwhile. Stops on SIGTERM or Ctrl-C.

    The agent joins each group as a member without topics. It leads a group from the next time its present leader
    leaves (a deploy, say); until then it only waits at the front of the broker's order. Decisions are logged as one
    event each on standard error; /metrics, /healthz and /readyz are on web.host:web.port.

    The work is done in a process of its own, which is replaced at once when it dies or hangs (settings `supervisor`).
    """
    become(
        RunRequest(
            config=[str(path) for path in config or ()],
            bootstrap=bootstrap or [],
            groups=group or None,
            assignments=assignments,
            observe=observe,
            keep_trying=keep_trying,
        )
    )
