"""What every command line of ours does with an error: one line, and an exit code.

Exit codes: 0 all right, 2 wrong input (an argument, a file, a setting), 1 something outside failed.
"""

from __future__ import annotations

import typer
from typer.core import TyperGroup

from common.errors import AgentError, SettingsError


class OneLineErrors(TyperGroup):
    """Shows our own errors as one line."""

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
