"""How Java orders strings where Kafka lets its hash tables decide: hash codes and HashMap's buckets. Nothing else."""

from __future__ import annotations

from typing import Final

import numpy as np

FIRST_TABLE: Final = 16
"""Buckets of a new HashMap; it doubles when more than three quarters of them are filled."""


def spread_hash(text: str) -> int:
    """String.hashCode (over UTF-16 code units), its upper half mixed into the lower one as HashMap does."""
    code = 0
    for unit in np.frombuffer(text.encode("utf-16-le", "surrogatepass"), dtype="<u2").tolist():
        code = (31 * code + unit) & 0xFFFFFFFF
    return code ^ (code >> 16)


def buckets_for(keys: int) -> int:
    """Buckets of a HashMap that never held more than so many keys."""
    buckets = FIRST_TABLE
    while keys > buckets * 3 // 4:
        buckets *= 2
    return buckets
