"""Who pays: owners of groups by patterns of their names, and costs in the columns of FOCUS, the standard of bills."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fnmatch import translate
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the usual name

from samerack.common.money import PriceTable
from samerack.common.patterns import pattern_of

NOBODY: Final = ""
"""Owner of groups that no pattern fits."""
_GIB: Final = 2**30
_TAGS: Final = ("cluster", "group", "topic", "client_rack", "replica_rack", "owner")

_CLASS: Final = re.compile(r"\\.|(\[\^?)(\]?(?:\\.|[^]\\])*)\]", re.DOTALL)
"""What Python escapes, or a class: its begin and what it has."""
_IN_CLASS: Final = re.compile(r"(\\.)|[][]", re.DOTALL)


def owner_of(owners: Mapping[str, str]) -> Column:
    """Return the owner of the column `group`: that of the first pattern that fits, as with `patterns.first_match`."""
    found = F.lit(NOBODY)
    for pattern, owner in reversed(list(owners.items())):
        fits = (F.col("group") == pattern) | F.col("group").rlike(java_regex(pattern))
        found = F.when(fits, owner).otherwise(found)
    return found


def java_regex(pattern: str) -> str:
    """Return the regular expression of a shell pattern for Java, which takes a bracket in a class for another class."""

    def escaped(found: re.Match[str]) -> str:
        return found[1] + _IN_CLASS.sub(lambda one: one[1] or f"\\{one[0]}", found[2]) + "]" if found[1] else found[0]

    return f"^{_CLASS.sub(escaped, translate(pattern_of(pattern)))}"


def charges(daily: DataFrame, prices: PriceTable) -> DataFrame:
    """Return what crossed racks as daily charges with the column names of FOCUS 1.2.

    They are estimates at list prices, and the provider's own bill has the same bytes: nobody should add both.

    Args:
        daily: day, cluster, group, topic, client_rack, replica_rack, owner, crossing_bytes, dollars.
        prices: the prices that made the dollars.
    """
    month = F.trunc("day", "month")
    unit = F.lit("GiB" if prices.bytes_per_gb == _GIB else "GB")
    quantity = F.col("crossing_bytes") / F.lit(float(prices.bytes_per_gb))
    columns: dict[str, Column] = {
        "BilledCost": F.col("dollars"),
        "BillingAccountId": F.col("cluster"),
        "BillingAccountName": F.col("cluster"),
        "BillingCurrency": F.lit(prices.currency),
        "BillingPeriodEnd": F.add_months(month, 1).cast("timestamp"),
        "BillingPeriodStart": month.cast("timestamp"),
        "ChargeCategory": F.lit("Usage"),
        "ChargeClass": F.lit(None).cast("string"),
        "ChargeDescription": F.concat_ws(" ", F.lit("Kafka consumers:"), "replica_rack", F.lit("to"), "client_rack"),
        "ChargeFrequency": F.lit("Usage-Based"),
        "ChargePeriodEnd": F.date_add("day", 1).cast("timestamp"),
        "ChargePeriodStart": F.col("day").cast("timestamp"),
        "ConsumedQuantity": quantity,
        "ConsumedUnit": unit,
        "ContractedCost": F.col("dollars"),
        "EffectiveCost": F.col("dollars"),
        "InvoiceIssuerName": F.lit(prices.provider),
        "ListCost": F.col("dollars"),
        "ListUnitPrice": F.lit(prices.dollars_per_gb_sent + prices.dollars_per_gb_received),
        "PricingQuantity": quantity,
        "PricingUnit": unit,
        "ProviderName": F.lit(prices.provider),
        "PublisherName": F.lit(prices.provider),
        "ResourceId": F.concat_ws("/", "cluster", "group"),
        "ResourceName": F.col("group"),
        "ResourceType": F.lit("Kafka consumer group"),
        "ServiceCategory": F.lit("Networking"),
        "ServiceName": F.lit("Data transfer between zones"),
        "SubAccountId": F.nullif("owner", F.lit(NOBODY)),
        "Tags": F.to_json(F.struct(*_TAGS)),
    }
    return daily.where(F.col("dollars") > 0).select(*(column.alias(name) for name, column in columns.items()))
