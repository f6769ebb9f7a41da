"""An agent outside the election: it registers its rack for active agents, and polls whether it is needed inside."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from functools import partial
from typing import Final

import structlog
from kafka import errors as kafka_errors

from samerack.cluster.client import ClusterClient
from samerack.cluster.group import STABLE, DescribedGroup
from samerack.election.member import (
    ROOM,
    UNREGISTERED_ROOM,
    Place,
    WaitingMember,
    place_for,
    poll_pause,
    waiting_group,
    waiting_instance,
)
from samerack.election.messages import Advertisement, decode_advertisement
from samerack.election.registry import GroupAsker
from samerack.settings.leading import ElectionSettings

log = structlog.get_logger("election")

_JOIN_SECONDS: Final = 0.5
_UNDECIDED_SECONDS: Final = 0.5
_MAX_UNDECIDED_POLLS: Final = 10
_MOVES_SECONDS: Final = 5.0
_MOVES_PAUSE_SECONDS: Final = 0.2


class Waiting:
    """One period outside. One thread drives it."""

    def __init__(
        self,
        client: ClusterClient,
        *,
        settings: ElectionSettings,
        advertisement: Advertisement,
        wake: Callable[[], None],
        registers: bool,
    ) -> None:
        """Prepare; nothing is sent before the first turn.

        `wake` is called from the network thread when there is something to do. `registers` is whether to advertise the
        rack in a waiting group; False where the brokers do not allow it.
        """
        self._asker = GroupAsker(client)
        self._settings = settings
        self.advertisement = advertisement
        """What this agent advertises; responsibilities may change, which counts at the next poll."""
        self.registers = registers
        self._member: WaitingMember | None = None
        self._new_member = partial(
            WaitingMember, client, election=settings.group, advertisement=advertisement, wake=wake
        )
        self._next_poll_at = float("-inf")
        self.members_inside = 0
        self.former: Advertisement | None = None
        """What a former process of this agent advertises in the election, which still has it."""

    # whether to take part

    def poll(self) -> DescribedGroup:
        """Describe the election's group.

        Raises:
            KafkaError: It cannot be described.
        """
        answer = self._asker.describe([self._settings.group])[self._settings.group]
        if isinstance(answer, Exception):
            raise answer
        self.members_inside = len(answer.members)
        own = [member for member in answer.members if member.group_instance_id == self.advertisement.identity]
        stable = answer.group_state == STABLE
        self.former = decode_advertisement(own[0].member_id, own[0].member_metadata) if own and stable else None
        self.poll_later()
        return answer

    def poll_later(self) -> None:
        """Schedule the next poll."""
        self._next_poll_at = time.monotonic() + poll_pause(self.members_inside, random.random())  # noqa: S311 - no secret

    def is_needed(self, stopped: Callable[[float], bool]) -> bool:
        """Return whether to take part in the election, by one poll; by several while the group rebalances.

        `stopped` waits for this many seconds; True ends the polling.

        Raises:
            KafkaError: The group cannot be described.
        """
        room = ROOM if self.registers else UNREGISTERED_ROOM
        moves_until = time.monotonic() + _MOVES_SECONDS
        polls = 0
        while polls < _MAX_UNDECIDED_POLLS:
            try:
                place = place_for(self.advertisement, self.poll(), room=room)
            except kafka_errors.RetriableError:
                # the group moves from one coordinator to another, or is being created
                if time.monotonic() > moves_until or stopped(_MOVES_PAUSE_SECONDS):
                    raise
                continue
            polls += 1
            if place is not Place.UNDECIDED:
                return place is Place.INSIDE
            if stopped(_UNDECIDED_SECONDS * (1 + random.random())):  # noqa: S311 - no secret
                break
        return False

    def is_displaced(self) -> bool:
        """Return whether another agent that has displaced this one still has its identity.

        Raises:
            KafkaError: The groups cannot be described.
        """
        mine = {
            self._settings.group: self.advertisement.identity,
            self.group: waiting_instance(self.advertisement.identity),
        }
        for group, answer in self._asker.describe(list(mine)).items():
            if isinstance(answer, kafka_errors.GroupAuthorizationFailedError) and group != self._settings.group:
                continue
            if isinstance(answer, Exception):
                raise answer
            if any(member.group_instance_id == mine[group] for member in answer.members):
                return True
        return False

    # registration

    def turn(self) -> bool:
        """Stay registered; return whether the next poll is due.

        Raises:
            KafkaError: The registration failed, or was taken over by another agent.
        """
        if self.registers:
            member = self._member = self._member or self._new_member()
            member.poll_heartbeat()
            if member.fenced:
                raise kafka_errors.FencedInstanceIdError(self.advertisement.identity)
            if member.wants_join:
                member.join(_JOIN_SECONDS)
        return time.monotonic() >= self._next_poll_at

    @property
    def group(self) -> str:
        """The group in which it is registered."""
        return waiting_group(self._settings.group, self.advertisement.identity)

    def leave(self) -> None:
        """Leave the waiting group, if it is a member."""
        if self._member is not None:
            self._member.leave()
