"""The base class and common types of the sections of the settings."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

Seconds = Annotated[float, Field(gt=0)]


def _split(value: object) -> object:
    return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value


def _all_named(names: tuple[str, ...]) -> tuple[str, ...]:
    if not all(name.strip() for name in names):
        raise ValueError("has an empty name; leave it away")
    return names


Names = Annotated[tuple[str, ...], BeforeValidator(_split), AfterValidator(_all_named)]
"""Several names, as a list or as one comma-separated text."""


class Section(BaseModel):
    """A named part of the settings: no unknown keys, no later changes."""

    model_config = ConfigDict(extra="forbid", frozen=True)
