"""Error handling of all our command lines: one line, and an exit code (`common.errors`)."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, Final

import typer
from typer.core import TyperGroup

from samerack.common.errors import AgentError, SettingsError, report_error
from samerack.common.words import is_utf8

_WHOLE: Final = 1000
"""More letters than any summary has."""


class OneLineErrors(TyperGroup):
    """Shows our own errors as one line, and summaries of commands whole."""

    def main(self, args: Sequence[str] | None = None, **more: Any) -> Any:  # type: ignore[override]  # all are named
        """Run the command line, if it is text: no message could show, and no broker read, other bytes."""
        for number, argument in enumerate(sys.argv[1:] if args is None else args, 1):
            if not is_utf8(argument):  # which may hold a password
                error = SettingsError(f"argument {number}: contains bytes that are not UTF-8; expected text")
                sys.exit(report_error(error))
        return super().main(args, **more)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the list of commands with their whole summaries, which the library cuts."""
        found = ((name, self.get_command(ctx, name)) for name in self.list_commands(ctx))
        with formatter.section("Commands"):
            formatter.write_dl([(name, one.get_short_help_str(_WHOLE)) for name, one in found if one is not None])

    def invoke(self, ctx: typer.Context) -> object:  # type: ignore[override]  # typer's Context is click's
        """Run the subcommand."""
        try:
            return super().invoke(ctx)
        except (SettingsError, AgentError) as error:
            raise typer.Exit(report_error(error, self.failure_code(ctx.invoked_subcommand))) from None

    def failure_code(self, command: str | None) -> int:  # noqa: ARG002 - of some groups it depends on the command
        """Return the exit code of a command after something outside failed."""
        return 1
