"""Converts bytes to money: dated price tables, and the cost of a byte that crosses racks.

Prices are external data: they are in `common/prices` with their scope, source and date, never in code.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from functools import cache
from importlib import resources
from typing import Any, Final

import yaml

SECONDS_PER_MONTH: Final = 730 * 3600.0
"""A month as providers count it: 730 hours."""
DECIMAL_GB: Final = 1_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceTable:
    """The prices of one provider for bytes between two zones; one that crosses is charged as sent and as received."""

    provider: str
    scope: str  # the traffic that the prices are for
    currency: str  # of all amounts; dollars
    dollars_per_gb_sent: float
    dollars_per_gb_received: float
    bytes_per_gb: int  # size of the provider's GB
    source: str  # where the prices are published
    as_of: date | None  # None for prices from the settings

    @property
    def dollars_per_byte(self) -> float:
        """Returns the cost of one byte that crosses racks: sent and received."""
        return (self.dollars_per_gb_sent + self.dollars_per_gb_received) / self.bytes_per_gb

    def dollars(self, crossing_bytes: float) -> float:
        """Return the cost of a number of bytes that crossed racks."""
        return crossing_bytes * self.dollars_per_byte

    @property
    def title(self) -> str:
        """Returns the prices as one readable line."""
        when = f"as of {self.as_of.isoformat()}" if self.as_of is not None else "from the settings"
        return (
            f"{self.provider}: {self.dollars_per_gb_sent:g} {self.currency} per GB sent + "
            f"{self.dollars_per_gb_received:g} received, {when}"
        )


def per_month(dollars: float | None, seconds: float) -> float | None:
    """Return what the dollars of a time are a month; None if they are not known, or before a measurement."""
    return dollars / seconds * SECONDS_PER_MONTH if dollars is not None and seconds > 0 else None


@cache
def shipped(name: str) -> PriceTable:
    """Load the table of this name, once; `money.prices` allows no other names."""
    text = resources.files("samerack.common").joinpath("prices", f"{name}.yaml").read_text(encoding="utf-8")
    entries: Mapping[str, Any] = yaml.safe_load(text)
    return PriceTable(
        provider=str(entries["provider"]),
        scope=str(entries["scope"]),
        currency=str(entries["currency"]),
        dollars_per_gb_sent=float(entries["dollars_per_gb_sent"]),
        dollars_per_gb_received=float(entries["dollars_per_gb_received"]),
        bytes_per_gb=int(entries["bytes_per_gb"]),
        source=str(entries["source"]),
        as_of=entries["date"],
    )
