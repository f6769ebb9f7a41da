"""The command `samerack`: gathers the subcommands and turns the agent's errors into one line and an exit code.

Exit codes: 0 all right, 2 wrong input (an argument, a file, a setting), 1 something outside failed, or `verify` found
something that costs money.
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, Final

import typer

from samerack.common.command_line import OneLineErrors

_MODULES: Final = (
    "cli.run",
    "cli.plan",
    "cli.verify",
    "cli.cost",
    "cli.top",
    "cli.lead",
    "cli.events",
    "cli.curve",
    "cli.rack",
    "cli.health",
    "offline.assign",
    "offline.streams",
    "offline.codec",
    "cli.settings_reference",
)
_QUICK: Final = {"run": "cli.run", "rack": "cli.rack", "health": "cli.health"}
"""Loaded without clients and solvers: what probes and init containers call, and what only watches over the agent."""


class _Commands(OneLineErrors):
    """Loads commands when they are asked for."""

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # typer's click is its own
        """The subcommand."""
        if cmd_name in _QUICK:
            self.commands = {**self.commands, **_loaded(_QUICK[cmd_name])}
        else:
            self._load()
        return super().get_command(ctx, cmd_name)

    def list_commands(self, ctx: Any) -> list[str]:
        """Their names, in the order of help."""
        self._load()
        return super().list_commands(ctx)

    def _load(self) -> None:
        if len(self.commands) < len(_MODULES):
            self.commands = _loaded(*_MODULES)


def _loaded(*modules: str) -> dict[str, Any]:
    """The commands of these rooms; of all rooms, with those that other distributions' rooms add."""
    gathered = typer.Typer()
    gathered.callback()(_nothing_first)
    for module in modules:
        import_module(f"samerack.{module}").register(gathered)
    if modules == _MODULES:
        for elsewhere in entry_points(group="samerack.commands"):  # the agent imports none of them
            elsewhere.load()(gathered)
    return dict(typer.main.get_group(gathered).commands)


def _nothing_first() -> None:
    """Without a callback of its own a single command would be no group."""


app = typer.Typer(
    name="samerack",
    cls=_Commands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Keeps Kafka consumer traffic in its own rack (availability zone), for groups of any client language.",
    epilog="Start with `samerack plan GROUP --bootstrap-servers HOST:PORT`: it shows what a group reads across racks "
    "and what it could, and changes nothing.",
)
app.callback()(_nothing_first)


def main() -> None:
    """Entry point of the console script."""
    app()


if __name__ == "__main__":
    main()
