"""Error handling of all our command lines: one line, and an exit code.

Exit codes: 0 success, 2 wrong input (an argument, a file, a setting), 1 something outside failed.
"""

from __future__ import annotations

import typer
from typer.core import TyperGroup

from samerack.common.errors import AgentError, SettingsError
from samerack.common.words import plain


def tell(error: SettingsError | AgentError) -> int:
    """Prints an error as one line on standard error; returns the exit code."""
    typer.echo(f"samerack: {plain(str(error))}", err=True)
    return 2 if isinstance(error, SettingsError) else 1


class OneLineErrors(TyperGroup):
    """Shows our own errors as one line."""

    def invoke(self, ctx: typer.Context) -> object:  # type: ignore[override]  # typer's Context is click's
        """Runs the subcommand."""
        try:
            return super().invoke(ctx)
        except (SettingsError, AgentError) as error:
            raise typer.Exit(tell(error)) from None
