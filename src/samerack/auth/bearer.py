"""A token for SASL OAUTHBEARER, and the error if there is none."""

from __future__ import annotations

from dataclasses import dataclass, field


class TokenError(Exception):
    """There is no token; the message has the cause and the remedy, and no secret."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """A token as its source returned it."""

    text: str = field(repr=False)
    seconds: float  # how long it is valid, from now
    principal: str = ""
