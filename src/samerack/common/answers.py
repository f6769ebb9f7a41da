"""Parses an agent's HTTP responses in another program: returns the expected value, or raises why it is invalid."""

from __future__ import annotations

from typing import Generic, TypeVar

from pydantic import TypeAdapter, ValidationError

from samerack.common.errors import AgentError

Value = TypeVar("Value")


def read(kind: TypeAdapter[Value], text: bytes | str, missing: str) -> Value:
    """Return the value of the expected kind in a response.

    Raises:
        AgentError: The text has another form; the message begins with `missing`, as in "is not a list of findings".
    """
    try:
        return kind.validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        place = [".".join(map(str, first["loc"]))] if first["loc"] else []
        raise AgentError(": ".join([f"the answer {missing}", *place, first["msg"]])) from None


class JsonAnswer(Generic[Value]):
    """The JSON of one kind of answer: as an agent writes it, and as another program reads it."""

    def __init__(self, kind: type[Value], missing: str) -> None:
        """Prepare; the arguments are those of `read`."""
        self._kind = TypeAdapter(kind)
        self._missing = missing

    def to_json(self, value: Value) -> bytes:
        """Return the JSON."""
        return self._kind.dump_json(value)

    def from_json(self, text: bytes | str) -> Value:
        """Return the value in such a JSON text.

        Raises:
            AgentError: The text contains none.
        """
        return read(self._kind, text, self._missing)
