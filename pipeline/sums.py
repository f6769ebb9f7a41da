"""Sums of counts that stay whole numbers of 64 bits, whatever is added up.

No bound of a single record bounds a sum: who may publish may publish without end. Spark stops a query whose sum does
not fit, and would stop it at every restart; so a sum stops at `FULL` instead.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it

FULL: Final = 2**62 - 1
"""Where a sum of bytes or records stops, about 4.6 * 10^18. Two such still fit into 64 bits together."""


def total(counts: str | Column) -> Column:
    """The sum of a column of counts, none of them negative: FULL at most, null of nothing."""
    whole = F.least(F.coalesce(F.try_sum(counts), F.lit(FULL)), F.lit(FULL))
    return F.when(F.count(counts) > 0, whole)
