"""Reproduces Java's hash codes and the iteration order of HashMap, on which the bytes of some Kafka messages depend.

In Java buckets of eight or more keys can become trees, which may list their keys in another order; readers accept any
order, so that is left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

FIRST_TABLE: Final = 16
"""Buckets of a new HashMap; it doubles when more than three quarters of them are filled."""

WORD: Final = 0xFFFFFFFF

Key = TypeVar("Key")


def string_hash(text: str) -> int:
    """Return String.hashCode (over UTF-16 code units), as an unsigned 32-bit number."""
    code = 0
    for unit in np.frombuffer(text.encode("utf-16-le", "surrogatepass"), dtype="<u2").tolist():
        code = (31 * code + unit) & WORD
    return code


def spread_hash(text: str) -> int:
    """Return the hash of a string with its upper half mixed into the lower one, as in HashMap."""
    return spread(string_hash(text))


def spread(code: int) -> int:
    """Return a hash with its upper half mixed into the lower one, as in HashMap."""
    return code ^ (code >> 16)


def buckets_for(keys: int) -> int:
    """Return the number of buckets of a HashMap that never held more than this number of keys."""
    buckets = FIRST_TABLE
    while keys > buckets * 3 // 4:
        buckets *= 2
    return buckets


def computed_order(keys: list[Key], hash_of: Callable[[Key], int], *, asked_again: bool) -> list[Key]:
    """Return the iteration order of a HashMap filled by `computeIfAbsent` with these keys in this order.

    `computeIfAbsent` puts a new key at the head of its bucket, and growing keeps the order within a bucket, so a bucket
    lists its keys latest first. The map grows before the lookup, if it already has more keys than three quarters of its
    buckets; `asked_again` is whether `computeIfAbsent` was called after the last key was inserted.
    """
    buckets = buckets_for(len(keys) if asked_again else len(keys) - 1)
    latest_first = keys[::-1]
    return sorted(latest_first, key=lambda key: spread(hash_of(key)) & (buckets - 1))
