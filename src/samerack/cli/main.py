"""The command `samerack`: gathers the subcommands and turns the agent's errors into one line and an exit code.

Exit codes: 0 all right, 2 wrong input (an argument, a file, a setting), 1 something outside failed; of `verify` 1 is
that something costs money, and 3 that something failed.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from importlib import import_module
from importlib.metadata import entry_points, version
from typing import Annotated, Any, cast

import typer
from typer.core import TyperCommand

from samerack.cli.commands import COMMANDS
from samerack.common.command_line import OneLineErrors
from samerack.common.errors import SettingsError


class _Commands(OneLineErrors):
    """Loads a command when it is run or when its own help is shown; a list of commands needs none of them."""

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # typer's click is its own
        """Return the subcommand; while they are listed, one that has its name and summary."""
        command = COMMANDS.get(cmd_name)
        if command is None:
            self._load_others()
            self.commands = {**{name: _unloaded(name) for name in COMMANDS}, **self.commands}  # what may be meant
        elif self._lists:
            return _unloaded(cmd_name)
        else:
            self.commands = {**self.commands, **_commands(_register(cmd_name, f"samerack.{command.module}"))}
            if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:  # `cli.start` lets nothing interrupt imports
                signal.signal(signal.SIGINT, signal.default_int_handler)
        return super().get_command(ctx, cmd_name)

    def failure_code(self, command: str | None) -> int:
        """Return the exit code of a command after something outside failed."""
        known = COMMANDS.get(command or "")
        return 1 if known is None else known.failure_code

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - as its base's
        """Return their names, in the order of help."""
        self._load_others()
        return list(dict.fromkeys((*COMMANDS, *self.commands)))

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help with the list of commands."""
        self._lists = True
        try:
            super().format_help(ctx, formatter)
        finally:
            self._lists = False

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        """Return the commands that a shell offers, with their summaries."""
        self._lists = True
        try:
            return super().shell_complete(ctx, incomplete)
        finally:
            self._lists = False

    _lists = False

    def _load_others(self) -> None:
        """Load the commands that other packages add by entry points."""
        for other in entry_points(group="samerack.commands"):
            if other.name not in COMMANDS:
                self.commands = {**_commands(other.load()), **self.commands}


def _register(command: str, name: str) -> Callable[[typer.Typer], None]:
    """Return what adds a command: `register` of its module, or what adds the module's function of that name.

    Raises:
        SettingsError: It is left out here, as the pipeline is in the agent's image.
    """
    try:
        module = import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise  # a library that is missing
        raise SettingsError(
            f"{command}: not in the agent's image; run it where `samerack[{command}]` is installed"
        ) from None
    if hasattr(module, "register"):
        return cast("Callable[[typer.Typer], None]", module.register)
    return lambda app: app.command(command)(getattr(module, command))


def _unloaded(name: str) -> TyperCommand:
    """Return a command that has its name and summary only."""
    return TyperCommand(name, help=COMMANDS[name].summary, rich_markup_mode=None)


def _commands(register: Callable[[typer.Typer], None]) -> dict[str, Any]:
    """Return the commands that a function adds."""
    gathered = typer.Typer(rich_markup_mode=None)
    gathered.callback()(_nothing_first)
    register(gathered)
    return dict(typer.main.get_group(gathered).commands)


def _nothing_first() -> None:
    """Make a group of a single command too: typer needs a callback for that."""


def _print_version(wanted: bool) -> None:  # noqa: FBT001 - typer calls it so
    if wanted:
        print(version("samerack"))  # noqa: T201 - the command's answer
        raise typer.Exit


def _options(
    *,
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Have the options that stand before a command."""


app = typer.Typer(
    name="samerack",
    cls=_Commands,
    no_args_is_help=True,
    rich_markup_mode=None,  # its help cuts words in narrow terminals
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Keeps Kafka consumer traffic in its own rack (availability zone), for groups of any client language.",
    epilog="Start with `samerack verify -b HOST:PORT`, which shows what makes traffic cross racks, and with `samerack "
    "cost -b HOST:PORT`, which shows what that costs; `samerack run --observe -b HOST:PORT` keeps measuring all "
    "groups, with a page at http://127.0.0.1:9464/. None of them changes anything.",
)
app.callback()(_options)


def main() -> None:
    """Run the command line."""
    app()


if __name__ == "__main__":
    main()
