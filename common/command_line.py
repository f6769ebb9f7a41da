"""Error handling of all our command lines: one line, and an exit code (`common.exits`)."""

from __future__ import annotations

import typer
from typer.core import TyperGroup

from samerack.common.errors import AgentError, SettingsError
from samerack.common.exits import tell


class OneLineErrors(TyperGroup):
    """Shows our own errors as one line."""

    def invoke(self, ctx: typer.Context) -> object:  # type: ignore[override]  # typer's Context is click's
        """Runs the subcommand."""
        try:
            return super().invoke(ctx)
        except (SettingsError, AgentError) as error:
            raise typer.Exit(tell(error)) from None
