"""The command `samerack`: gathers the subcommands and turns the agent's errors into one line and an exit code.

Exit codes: 0 all right, 2 wrong input (an argument, a file, a setting), 1 something outside failed, or `verify` found
something that costs money.
"""

from __future__ import annotations

from importlib.metadata import entry_points

import typer
from typer.core import TyperGroup

from agent.cli import assign, codec, cost, curve, plan, run, settings_reference, streams, top, verify
from common.errors import AgentError, SettingsError


class _Errors(TyperGroup):
    """Shows the agent's own errors as one line."""

    def invoke(self, ctx: typer.Context) -> object:  # type: ignore[override]  # typer's Context is click's
        """Run the subcommand."""
        try:
            return super().invoke(ctx)
        except SettingsError as error:
            typer.echo(f"samerack: {error}", err=True)
            raise typer.Exit(2) from None
        except AgentError as error:
            typer.echo(f"samerack: {error}", err=True)
            raise typer.Exit(1) from None


app = typer.Typer(
    name="samerack",
    cls=_Errors,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Keeps Kafka consumer traffic in its own rack (availability zone), for groups of any client language.",
    epilog="Start with `samerack plan GROUP --bootstrap-servers HOST:PORT`: it shows what a group reads across racks "
    "and what it could, and changes nothing.",
)
for module in (run, plan, verify, cost, top, curve, assign, streams, codec, settings_reference):
    module.register(app)
for elsewhere in entry_points(group="samerack.commands"):  # other rooms' commands: the agent imports none of them
    elsewhere.load()(app)


def main() -> None:
    """Entry point of the console script."""
    app()


if __name__ == "__main__":
    main()
