"""What every command line of ours does with an error: one line, and an exit code.

Exit codes: 0 all right, 2 wrong input (an argument, a file, a setting), 1 something outside failed.
"""

from __future__ import annotations

import typer
from typer.core import TyperGroup

from common.errors import AgentError, SettingsError
from common.words import plain


def tell(error: SettingsError | AgentError) -> int:
    """Say in one line on standard error what is wrong; the answer is the exit code."""
    typer.echo(f"samerack: {plain(str(error))}", err=True)
    return 2 if isinstance(error, SettingsError) else 1


class OneLineErrors(TyperGroup):
    """Shows our own errors as one line."""

    def invoke(self, ctx: typer.Context) -> object:  # type: ignore[override]  # typer's Context is click's
        """Run the subcommand."""
        try:
            return super().invoke(ctx)
        except (SettingsError, AgentError) as error:
            raise typer.Exit(tell(error)) from None
