"""What an agent answers over HTTP, as another program reads it: a value of the kind it asked for, or why it is none."""

from __future__ import annotations

from typing import TypeVar

from pydantic import TypeAdapter, ValidationError

from common.errors import AgentError

Value = TypeVar("Value")


def read(kind: TypeAdapter[Value], text: bytes | str, missing: str) -> Value:
    """The value of a JSON text.

    Args:
        kind: what it is to be.
        text: the answer.
        missing: what the answer lacks where it is another, as in "is no verdict".

    Raises:
        AgentError: It is another.
    """
    try:
        return kind.validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        place = [".".join(map(str, first["loc"]))] if first["loc"] else []
        raise AgentError(": ".join([f"the answer {missing}", *place, first["msg"]])) from None
