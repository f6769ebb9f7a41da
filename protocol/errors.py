"""The error of this package: bytes that are not a message, or a value that no message can hold.

It has its own module so that callers of a codec can catch it without importing the codec.
"""

from __future__ import annotations

from typing import Final

NOT_IN_BYTES: Final = -1
"""The offset of an error in a value to be written: there are no bytes yet."""


class ProtocolError(Exception):
    """An error in a message: what is wrong, where, and what is expected.

    Attributes:
        field: Path of the field in the message, such as `owned[3].topic`.
        offset: Position in the bytes that were read, or NOT_IN_BYTES if a value could not be written.
    """

    def __init__(self, message: str, *, field: str, offset: int = NOT_IN_BYTES) -> None:
        place = field if offset == NOT_IN_BYTES else f"{field} at byte {offset}"
        super().__init__(f"{place}: {message}")
        self.field = field
        self.offset = offset
