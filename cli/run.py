"""`samerack run`: the agent itself, in a process of its own that another watches over.

The one that watches loads everything once, and forks those that work: they share its memory, and a successor is there
at once.
"""

from __future__ import annotations

import gc
import os
import signal
import socket
import sys
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from samerack.common.command_line import tell
from samerack.common.errors import AgentError, SettingsError
from samerack.common.options import BootstrapOption, ConfigOption, SetOption, settings_from

if TYPE_CHECKING:
    from samerack.common.settings import Settings


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
) -> None:
    """Watch the cluster, lead the given groups, rebalance them when racks make it worth it. Ends on SIGTERM or Ctrl-C.

    The agent joins each group as a member without topics. It leads a group from the next time its present leader
    leaves (a deploy, say); until then it only waits at the front of the broker's order. Decisions are logged as one
    event each on standard error; /metrics, /healthz and /readyz are on web.host:web.port.

    The work is done in a process of its own, which is replaced at once when it dies or hangs (settings `supervisor`).
    """
    read = partial(settings_from, config, bootstrap, assignments, groups=group or None)
    # Nothing has begun that would have to be ended in order; and process 1 of a container hears no signal without this.
    signal.signal(signal.SIGTERM, lambda _number, _frame: sys.exit(0))
    settings = read()
    # The one thread that a library would start when it is loaded, for matrices that the agent has none of.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    gc.disable()  # all that is loaded stays
    from samerack.agent import log, program  # noqa: PLC0415 - clients and solvers: not before errors in settings are reported
    from samerack.agent.leading.leaving import leave_or_tell  # noqa: PLC0415 - see above
    from samerack.agent.supervisor.watchdog import Supervisor  # noqa: PLC0415 - see above

    log.configure(settings)
    program.get_ready()
    gc.freeze()  # a worker that looks for garbage would write to every page that it shares
    gc.enable()
    supervisor = Supervisor(
        settings.supervisor, work=partial(_work, read, observe), leave=partial(leave_or_tell, settings.kafka)
    )
    raise typer.Exit(supervisor.run())


def _work(read: Callable[[], Settings], observe: bool, line: socket.socket, /, *, observing: bool, why: str) -> None:  # noqa: FBT001 - of `run`
    """The process that works, by the settings as they are when it begins.

    Args:
        read: Reads the settings.
        observe: Whether no worker is to join any group.
        line: See `agent.supervisor.watchdog.Work`.
        observing: See there.
        why: See there.
    """
    from samerack.agent import log, program  # noqa: PLC0415 - loaded already

    try:
        settings = read()
        log.configure(settings)
        program.run(settings, line=line, observing=observe or observing, why=why)
    except (SettingsError, AgentError) as error:
        sys.exit(tell(error))
