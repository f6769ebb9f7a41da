"""The terminal that commands show things on: names from outside cannot steer it.

A client id, a topic or a group may be any text, with escape sequences that move the cursor, recolour a line, or write
to the clipboard.
"""

from __future__ import annotations

from typing import Any

import rich.console
from rich.text import Text

from common.words import plain


class Console(rich.console.Console):
    """As rich's, but a text is shown as it is: nothing in brackets or colons means anything.

    Control characters are shown as U+FFFD, but for the ends of lines. What is to be coloured is a `Text`.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"markup": False, "emoji": False, **options})

    def render_str(self, text: str, **options: Any) -> Text:
        """The text as it is shown, of a line or of a table's cell."""
        return super().render_str("\n".join(map(plain, text.split("\n"))), **options)
