"""The terminal output of commands, safe against control characters in external names.

A client id, topic or group may be any text, with escape sequences that move the cursor, recolour a line, or write to
the clipboard.
"""

from __future__ import annotations

from typing import Any, Final

import rich.console
from rich.text import Text

from samerack.common.words import plain

USUAL: Final = 80
"""Columns of most terminals: tables in narrower ones show less."""
WIDE: Final = 110
"""Columns of a terminal from which on tables show more."""


class Console(rich.console.Console):
    """rich's console without markup: text in brackets or colons is shown literally.

    Control characters except line ends are shown as U+FFFD. Use a `Text` for colours. A line with a command between
    backticks is left to the terminal to wrap: what is copied from it is one line.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"markup": False, "emoji": False, **options})

    def print(self, *objects: Any, soft_wrap: bool | None = None, **options: Any) -> None:
        """Print as rich does."""
        has_command = any("`" in str(one) for one in objects if isinstance(one, (str, Text)))
        super().print(*objects, soft_wrap=has_command if soft_wrap is None else soft_wrap, **options)

    def render_str(self, text: str, **options: Any) -> Text:
        """Render a line or a table's cell."""
        return super().render_str("\n".join(map(plain, text.split("\n"))), **options)
