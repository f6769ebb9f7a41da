"""`samerack run`: the agent itself, in a process of its own that another watches over.

Loaded without clients and solvers: the one that watches needs neither, and stays small.
"""

from __future__ import annotations

import signal
import socket
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agent.supervisor.worker import Worker
from common.options import BootstrapOption, ConfigOption, SetOption, settings_from

if TYPE_CHECKING:
    from common.settings import Settings


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
    *,
    observe: Annotated[
        bool, typer.Option("--observe", help="Measure the groups that would be led, and join none of them.")
    ] = False,
    line: Annotated[int | None, typer.Option("--line", hidden=True, help="The supervisor's line.")] = None,
) -> None:
    """Watch the cluster, lead the given groups, rebalance them when racks make it worth it. Ends on SIGTERM or Ctrl-C.

    The agent joins each group as a member without topics. It leads a group from the next time its present leader
    leaves (a deploy, say); until then it only waits at the front of the broker's order. Decisions are logged as one
    event each on standard error; /metrics, /healthz and /readyz are on web.host:web.port.

    The work is done in a process of its own, which is replaced at once when it dies or hangs (settings `supervisor`).
    """
    read = partial(settings_from, config, bootstrap, assignments, groups=group or None)
    if line is not None:
        with socket.socket(fileno=line) as end:
            _work(end, read, observing=observe)
        return
    command = [sys.executable, "-P", "-m", "agent.cli.main", "run", *_given(config, bootstrap, group, assignments)]
    observing = [*command, "--observe", "--line"]
    leading = observing if observe else [*command, "--line"]
    first = Worker(leading)  # loads while settings are read here: a group may wait for an agent that was killed
    try:
        settings = read()
    except BaseException:
        first.kill()
        first.close()
        raise
    from agent import log  # noqa: PLC0415 - not before wrong settings are told

    log.configure(settings.log)
    from agent.supervisor.watchdog import Supervisor  # noqa: PLC0415 - see above

    supervisor = Supervisor(
        settings.supervisor, kafka=settings.kafka, command=leading, observing=observing, first=first
    )
    raise typer.Exit(supervisor.run())


def _work(line: socket.socket, read: Callable[[], Settings], *, observing: bool) -> None:
    """The process that works: gets ready, waits for the supervisor's word, and reads the settings as they are then."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the supervisor as well, which tells its workers
    from agent import log, program  # noqa: PLC0415 - clients and solvers, for the process that works
    from agent.supervisor.lifeline import wait_to_begin  # noqa: PLC0415 - see above

    program.get_ready()
    why = wait_to_begin(line)
    if why is None:
        return
    settings = read()
    log.configure(settings.log)
    program.run(settings, line=line, observing=observing, why=why)


def _given(
    config: Path | None, bootstrap: str | None, groups: list[str] | None, assignments: list[str] | None
) -> list[str]:
    """The options as they were given, for the process that works."""
    line = ["--config", str(config)] if config is not None else []
    line += ["--bootstrap-servers", bootstrap] if bootstrap is not None else []
    line += [part for group in groups or () for part in ("--group", group)]
    return line + [part for assignment in assignments or () for part in ("--set", assignment)]
