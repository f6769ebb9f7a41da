"""Claims are read from the fields in which the member's assignor writes them."""

from __future__ import annotations

import pytest

from samerack.protocol.sticky import claims, encode_cooperative_sticky, encode_sticky
from samerack.protocol.values import Subscription, from_pairs, to_pairs

PAIRS = [("t", 1), ("t", 2)]
OTHERS = [("t", 7)]


def subscription(
    version: int, user_data: bytes | None, owned: list[tuple[str, int]], generation: int = -1
) -> Subscription:
    """The subscription of a member of topic t."""
    return Subscription(
        version=version, topics=("t",), user_data=user_data, owned=from_pairs(owned), generation=generation
    )


@pytest.mark.parametrize(
    ("assignor", "sent", "pairs", "generation"),
    [
        ("sticky", subscription(3, encode_sticky(from_pairs(PAIRS), 5), []), PAIRS, 5),
        ("sticky", subscription(3, encode_sticky(from_pairs(PAIRS), 5), OTHERS, 9), PAIRS, 5),
        ("sticky", subscription(0, encode_sticky(from_pairs(PAIRS), None, version=0), []), PAIRS, -1),
        ("sticky", subscription(2, None, OTHERS, 9), OTHERS, 9),
        ("sticky", subscription(2, b"\xff", OTHERS, 9), OTHERS, 9),
        ("cooperative-sticky", subscription(3, encode_cooperative_sticky(4), PAIRS, 9), PAIRS, 9),
        ("cooperative-sticky", subscription(1, encode_cooperative_sticky(4), PAIRS), PAIRS, 4),
        ("cooperative-sticky", subscription(1, encode_cooperative_sticky(0), PAIRS), PAIRS, 0),
        ("cooperative-sticky", subscription(1, None, PAIRS), PAIRS, -1),
        ("cooperative-sticky", subscription(1, b"\0", PAIRS), PAIRS, -1),
        ("range", subscription(1, encode_cooperative_sticky(4), PAIRS), PAIRS, -1),
    ],
)
def test_claims(assignor: str, sent: Subscription, pairs: list[tuple[str, int]], generation: int) -> None:
    """Sticky user data counts if it has partitions; a cooperative member's gives only its generation, before v2."""
    owned, since = claims(sent, assignor)
    assert (to_pairs(owned), since) == (pairs, generation)
