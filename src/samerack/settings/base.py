"""The base class and common types of the sections of the settings."""

from __future__ import annotations

from typing import Annotated, Final
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError

from samerack.settings.sources import IN_QUOTES, is_like_a_list

Seconds = Annotated[float, Field(gt=0)]


def _split(value: object) -> object:
    if not isinstance(value, str):
        return value
    if is_like_a_list(value):
        raise ValueError(IN_QUOTES)
    return [part.strip() for part in value.split(",") if part.strip()]


def _all_named(names: tuple[str, ...]) -> tuple[str, ...]:
    if not all(name.strip() for name in names):
        raise ValueError("contains an empty name; remove it")
    return names


Names = Annotated[tuple[str, ...], BeforeValidator(_split), AfterValidator(_all_named)]
"""Several names, as a list or as one comma-separated text."""


REFUSED: Final = "refused"


def refused(reason: str, key: str = "") -> PydanticCustomError:
    """Return the error of a validator whose value is not shown, because it may hold passwords.

    Args:
        reason: what is wrong, and what is expected.
        key: the key with the wrong value, where the value is a map.
    """
    text = f"{key and '.'}{key}: {reason}".encode(errors="replace").decode()  # pydantic fails on a key beyond UTF-8
    return PydanticCustomError(REFUSED, "{text}", {"text": text})


SCALARS: Final = ["string", "number", "boolean"]
"""What a value for another library may be in JSON Schema: it becomes a text."""


def check_address(url: str, expected: str) -> None:
    """Check that a text is an address of HTTP.

    Raises:
        ValueError: It is none; the message says what is wrong, or what is expected.
    """
    address = urlsplit(url)  # its ValueError names what is wrong; so does that of the port
    if address.scheme not in ("http", "https") or not address.hostname or address.port == 0:
        raise ValueError(f"expected {expected}")


class Section(BaseModel):
    """A named part of the settings: no unknown keys, no later changes."""

    model_config = ConfigDict(extra="forbid", frozen=True)
