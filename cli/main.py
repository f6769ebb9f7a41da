"""The command `samerack`: gathers the subcommands and turns the agent's errors into one line and an exit code.

Exit codes: 0 all right, 2 wrong input (an argument, a file, a setting), 1 something outside failed, or `verify` found
something that costs money.
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, Final

import typer

from samerack.cli.commands import COMMANDS
from samerack.common.command_line import OneLineErrors

_MODULES: Final = tuple(dict.fromkeys(command.module for command in COMMANDS.values()))


class _Commands(OneLineErrors):
    """Loads commands when they are needed."""

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # typer's click is its own
        """Returns the subcommand."""
        command = COMMANDS.get(cmd_name)
        if command is not None and command.light:
            self.commands = {**self.commands, **_loaded(command.module)}
        else:
            self._load()
        return super().get_command(ctx, cmd_name)

    def list_commands(self, ctx: Any) -> list[str]:
        """Returns their names, in the order of help."""
        self._load()
        return super().list_commands(ctx)

    def _load(self) -> None:
        if len(self.commands) < len(_MODULES):
            self.commands = _loaded(*_MODULES)


def _loaded(*modules: str) -> dict[str, Any]:
    """Returns the commands of these modules; of all modules, with those that entry points add."""
    gathered = typer.Typer()
    gathered.callback()(_nothing_first)
    for module in modules:
        import_module(f"samerack.{module}").register(gathered)
    if modules == _MODULES:
        for elsewhere in entry_points(group="samerack.commands"):  # the agent imports none of them
            elsewhere.load()(gathered)
    return dict(typer.main.get_group(gathered).commands)


def _nothing_first() -> None:
    """Makes a group of a single command too: typer needs a callback for that."""


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
    """Runs the command line."""
    app()


if __name__ == "__main__":
    main()
