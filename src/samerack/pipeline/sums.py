"""Sums of counts that always fit into 64 bits.

Bounds of single records do not bound a sum: a publisher may publish without end. Spark fails a query whose sum
overflows, and would fail again at every restart; so a sum stops at `FULL` instead.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - the usual name

FULL: Final = 2**62 - 1
"""Upper limit of a sum of bytes or records, about 4.6 * 10^18. The sum of two such still fits into 64 bits."""


def total(counts: str | Column) -> Column:
    """Return the sum of a column of non-negative counts: FULL at most, null without any count."""
    whole = F.least(F.coalesce(F.try_sum(counts), F.lit(FULL)), F.lit(FULL))
    return F.when(F.count(counts) > 0, whole)
