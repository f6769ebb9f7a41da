"""Reads the owned partitions that a member claims, and their generation, from where its assignor puts them.

Kafka's `sticky` puts them into the user data, `cooperative-sticky` into the subscription itself, with the generation in
the user data before subscriptions had one (version 2, KIP-792).
"""

from __future__ import annotations

from typing import Final

from samerack.protocol.consumer import GENERATION_SINCE, NO_GENERATION
from samerack.protocol.model import Subscription, TopicPartitions
from samerack.protocol.sticky import decode_cooperative_sticky, decode_sticky

STICKY: Final = "sticky"
COOPERATIVE_STICKY: Final = "cooperative-sticky"


def claims(subscription: Subscription, assignor: str) -> tuple[TopicPartitions, int]:
    """Return the partitions that a member claims and the generation in which it got them, -1 if unknown.

    Both are read from the same place, so that claims are never combined with the generation of another field: from
    sticky user data that contains partitions, else from the subscription.

    Args:
        subscription: The member's subscription.
        assignor: Protocol name of the subscription.
    """
    if assignor == STICKY:
        decoded = decode_sticky(subscription.user_data)
        if len(decoded.owned):
            return decoded.owned, NO_GENERATION if decoded.generation is None else max(
                decoded.generation, NO_GENERATION
            )
    generation = subscription.generation
    if subscription.version < GENERATION_SINCE and assignor == COOPERATIVE_STICKY:
        decoded_generation = decode_cooperative_sticky(subscription.user_data)
        generation = NO_GENERATION if decoded_generation is None else decoded_generation
    return subscription.owned, generation
