"""What a member of a group claims to own, and since which generation, wherever its assignor wrote that down.

Kafka's `sticky` puts it into the user data, `cooperative-sticky` into the subscription itself, with the generation in
the user data until subscriptions had one (version 2, KIP-792).
"""

from __future__ import annotations

from typing import Final

from protocol.consumer import GENERATION_SINCE, NO_GENERATION
from protocol.model import Subscription, TopicPartitions
from protocol.sticky import decode_cooperative_sticky, decode_sticky

STICKY: Final = "sticky"
COOPERATIVE_STICKY: Final = "cooperative-sticky"


def claims(subscription: Subscription, assignor: str) -> tuple[TopicPartitions, int]:
    """The partitions that a member claims and the generation in which it got them, -1 where it does not tell.

    Both come from one place, so that a member's claims are never judged by a generation that another of its fields
    tells: from sticky user data that names partitions, else from the subscription.

    Args:
        subscription: What the member sent.
        assignor: Protocol name under which it sent it.
    """
    if assignor == STICKY:
        told = decode_sticky(subscription.user_data)
        if len(told.owned):
            return told.owned, NO_GENERATION if told.generation is None else max(told.generation, NO_GENERATION)
    generation = subscription.generation
    if subscription.version < GENERATION_SINCE and assignor == COOPERATIVE_STICKY:
        told_generation = decode_cooperative_sticky(subscription.user_data)
        generation = NO_GENERATION if told_generation is None else told_generation
    return subscription.owned, generation
