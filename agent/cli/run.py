"""`samerack run`: the agent itself."""

from __future__ import annotations

from typing import Annotated

import typer

from agent import log, program
from common.options import BootstrapOption, ConfigOption, SetOption, settings_from


def register(app: typer.Typer) -> None:
    """Add the subcommand."""
    app.command("run")(run)


def run(
    config: ConfigOption = None,
    bootstrap: BootstrapOption = None,
    group: Annotated[
        list[str] | None,
        typer.Option("--group", "-g", help="Group to lead; may be repeated. Replaces `groups` of the file."),
    ] = None,
    assignments: SetOption = None,
) -> None:
    """Watch the cluster, lead the given groups, rebalance them when racks make it worth it. Ends on SIGTERM or Ctrl-C.

    The agent joins each group as a member without topics. It leads a group from the next time its present leader
    leaves (a deploy, say); until then it only waits at the front of the broker's order. Decisions are logged as one
    event each on standard error; /metrics, /healthz and /readyz are on web.host:web.port.
    """
    settings = settings_from(config, bootstrap, assignments, groups=group or None)
    log.configure(settings.log)
    program.run(settings)
