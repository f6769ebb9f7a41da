"""Java's hash codes of lists, and the iteration order of a HashMap, as Kafka's writers have them."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from samerack.protocol.java import WORD, buckets_for, spread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

Key = TypeVar("Key")


def list_hash(*codes: int) -> int:
    """Return the hash of a list with these hashes of its elements (`Objects.hash`), as an unsigned 32-bit number."""
    result = 1
    for code in codes:
        result = (31 * result + code) & WORD
    return result


def put_order(keys: Iterable[Key], hash_of: Callable[[Key], int]) -> list[Key]:
    """Return the iteration order of a HashMap or HashSet into which keys were put in this order."""
    found = list(dict.fromkeys(keys))
    buckets = buckets_for(len(found))
    return sorted(found, key=lambda key: spread(hash_of(key)) & (buckets - 1))
