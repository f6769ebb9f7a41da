"""The one error of this room: bytes that are no message, or a value that no message can hold.

It stands alone so that whoever calls a codec can catch it without importing the codec.
"""

from __future__ import annotations

from typing import Final

NOT_IN_BYTES: Final = -1
"""The offset of an error in a value that was to be written: there are no bytes yet."""


class ProtocolError(Exception):
    """What was wrong, where, and what would be right.

    Attributes:
        field: Path of the field in the message, such as `owned[3].topic`.
        offset: Position in the bytes that were read, or NOT_IN_BYTES where a value could not be written.
    """

    def __init__(self, message: str, *, field: str, offset: int = NOT_IN_BYTES) -> None:
        place = field if offset == NOT_IN_BYTES else f"{field} at byte {offset}"
        super().__init__(f"{place}: {message}")
        self.field = field
        self.offset = offset
