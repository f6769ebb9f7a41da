"""A group member that can hold a rebalance open, so that all members wait in JoinGroup and own no partitions.

A rebalance that another member leads proves that all members have revoked their partitions. Instead of syncing, the
agent joins again at once and reserves a member id: the second rebalance stays open while that id is pending. The steps
of a takeover are in `agent.leading.takeover_attempt`.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from kafka import errors as kafka_errors

from samerack.agent.leading.member import Hold
from samerack.agent.leading.reserving_member import ReservingMember
from samerack.cluster.member_session import LEAVE_SECONDS, LEFT, left_error
from samerack.common.errors import AgentError


class HoldingMember(ReservingMember):
    """A member that can hold the group's next rebalance open."""

    _hold = Hold.NONE
    _parked = False
    _once_more: Any = None
    """A future of the response to a JoinGroup that was sent right after the one that is answered next."""

    @property
    def hold_state(self) -> Hold:
        """The state of holding the group."""
        return self._hold

    def hold(self) -> None:
        """Does not sync after the next JoinGroup that another member leads, but joins again with a pending member.

        By then all members have revoked their partitions and join again at once; so they wait in JoinGroup without
        partitions until `let_go`, for RESERVED_SECONDS at most.
        """
        self._hold = Hold.ASKED
        self._net.call_soon_threadsafe(self._have_ready)

    def let_go(self) -> None:
        """Ends the hold of the group: releases every reserved id and reserves no more.

        Raises:
            KafkaError: The brokers did not accept one; it is still in `pending`.
        """
        self._hold = Hold.NONE
        for member_id in self.pending:
            self.release(member_id)

    def _send_join(self) -> Any:
        joining = super()._send_join()
        self._parked, self._once_more = True, None
        self._have_ready()
        return joining

    def _have_ready(self) -> None:
        """Sends the second JoinGroup, which waits at the broker behind the one that is parked.

        A broker handles a connection's next request as soon as it has answered the one before, so the second arrives
        before the plan of the group's leader, even if the agent's machine is slow. The group must know the member id.
        """
        if self._hold is Hold.ASKED and self._parked and self._once_more is None and self.member_id:
            self._once_more = self._send_once_more()

    def _send_once_more(self) -> Any:
        self._join_metadata.change()
        self._reason = "asks everybody to join once more"
        return super()._send_join()

    async def _answered(self, sent: Any) -> Any:
        self._parked = True
        try:
            return await super()._answered(sent)
        finally:
            self._parked = False

    async def _before_sync(self, response: Any) -> Any:
        # if the others were faster than the pending member, another member leads the second rebalance too: join again
        while self._once_more or (response.leader != response.member_id and self._hold in (Hold.ASKED, Hold.HELD)):
            joining, self._once_more = self._once_more or self._send_once_more(), None
            if response.leader != response.member_id and self._hold is Hold.ASKED:
                await self._reserve_pending_member()
            response = await self._answered(joining)
        return response

    async def _reserve_pending_member(self) -> None:
        try:
            pending_member = await self._reserve()
        except (kafka_errors.KafkaError, AgentError):
            self._hold = Hold.FAILED
            return
        if self._hold is Hold.ASKED:
            self._hold = Hold.HELD
        else:  # the hold was ended meanwhile
            leaving = self._leave_request({pending_member: None})
            future = self._manager.send(leaving, node_id=self._coordinator_broker)
            # a broker that does not answer must not end the join; the id stays in `pending` and is released later
            with suppress(kafka_errors.KafkaError):
                if left_error(await self._answer_of(future, LEAVE_SECONDS)) in LEFT:
                    self.pending -= {pending_member}
