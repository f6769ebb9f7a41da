"""What the agent offers in JoinGroup: protocol names in order, each with a subscription that has no topics.

A changed subscription makes a follower's JoinGroup start a rebalance, so the agent changes its user data for that.
"""

from __future__ import annotations

from samerack.protocol.consumer import NO_GENERATION, encode_subscription
from samerack.protocol.sticky import COOPERATIVE_STICKY, encode_cooperative_sticky, encode_sticky
from samerack.protocol.values import Subscription, no_partitions


class JoinMetadata:
    """The protocols that the agent offers to one group."""

    def __init__(self, names: tuple[str, ...]) -> None:
        """Offer the names of `leading.protocols` in this order, with user data that has not changed yet."""
        self._offered = names
        self._names = names
        self._changes = 0

    def offer(self, present: str) -> None:
        """Put the group's present protocol first, so that joining does not change the vote."""
        rest = tuple(name for name in self._offered if name != present)
        self._names = (present, *rest) if present in self._offered else self._offered

    def change(self) -> None:
        """Change the user data, so that the next JoinGroup starts a rebalance also if the agent follows."""
        self._changes += 1

    def protocols(self) -> list[tuple[str, bytes]]:
        """Return the offered names, each with an empty subscription.

        The subscription has version 0, which contains all that the agent needs: leaders such as kafka-go's refuse bytes
        after the user data, and Java's sticky assignors plan the same with it as with newer versions (2.8, 3.4 and
        4.3).
        """
        return [
            (name, encode_subscription(Subscription(version=0, topics=(), user_data=user_data(name, self._changes))))
            for name in self._names
        ]


def user_data(protocol: str, changes: int) -> bytes | None:
    """Return user data that differs each time and means nothing to the assignor of the group's leader.

    Sticky assignors read former partitions and their generation in it, or the generation alone. It must be well-formed:
    aiokafka's leader fails on a list of length -1, which others read as no data. It changes with each of the agent's
    requests for an assignment.
    """
    if not changes:
        return None
    generation = NO_GENERATION - changes  # below that of members without partitions, so no member's claims lose to it
    return (
        encode_cooperative_sticky(generation)
        if protocol == COOPERATIVE_STICKY
        else encode_sticky(no_partitions(), generation)
    )
