"""The prices that the settings name, or their own."""

from __future__ import annotations

from samerack.common.errors import SettingsError
from samerack.common.money import DECIMAL_GB, PriceTable, shipped
from samerack.settings.measuring import MoneySettings


def price_table(settings: MoneySettings) -> PriceTable:
    """Return the table that the settings name, or a table of their own prices.

    Raises:
        SettingsError: Custom prices without a price, or a price beside a provider's table.
    """
    given = (settings.dollars_per_gb_sent, settings.dollars_per_gb_received)
    if settings.prices != "custom":
        if given != (None, None):
            raise SettingsError(
                f"money.prices: is {settings.prices}, whose prices are known; set it to custom to use "
                "money.dollars_per_gb_sent and money.dollars_per_gb_received"
            )
        return shipped(settings.prices)
    if given == (None, None):
        raise SettingsError(
            "money.prices: is custom; set money.dollars_per_gb_sent, money.dollars_per_gb_received or both"
        )
    sent, received = given
    return PriceTable(
        provider="custom",
        scope="between racks",
        currency="USD",
        dollars_per_gb_sent=sent or 0.0,
        dollars_per_gb_received=received or 0.0,
        bytes_per_gb=DECIMAL_GB,
        source="settings",
        as_of=None,
    )
