"""A token for SASL OAUTHBEARER, and that none is to be had."""

from __future__ import annotations

from dataclasses import dataclass, field


class TokenError(Exception):
    """No token is to be had; the text is cause and cure, and holds no secret."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """A token as whoever gives them gave it.

    Attributes:
        text: what the brokers are shown.
        seconds: how long it is good, from now.
        principal: whose it is, where that is known.
    """

    text: str = field(repr=False)
    seconds: float
    principal: str = ""
