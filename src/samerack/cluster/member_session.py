"""The session of a group member after it has joined: heartbeats keep it, LeaveGroup ends it.

kafka-python sends the heartbeats. This module adds slower retries, a refusal or fencing that the owner learns of at
once, and leaving by member id over another connection.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from kafka import errors as kafka_errors
from kafka.net.compat import KafkaNetClient
from kafka.protocol.consumer.group import LeaveGroupRequest
from kafka.structs import MemberState

from samerack.cluster.coordinator_requests import CoordinatorRequests
from samerack.common.attempts import REQUESTS, Attempts

LEAVE_SECONDS: Final = 2.0
_AGAIN_SECONDS: Final = 0.1
_MOVES: Final = (
    kafka_errors.NotCoordinatorError,
    kafka_errors.CoordinatorNotAvailableError,
    kafka_errors.CoordinatorLoadInProgressError,
)
LEFT: Final = frozenset({kafka_errors.NoError, kafka_errors.UnknownMemberIdError, kafka_errors.FencedInstanceIdError})
"""Error codes in the LeaveGroup response after which the member id is no longer in the group, or was fenced."""
STUCK_SECONDS: Final = 60.0
"""A thread that has not polled its membership for this long is stuck: the library then leaves the group.

The library's default is the rebalance timeout. That is too short: one request to a group whose coordinator restarts on
a busy machine can take that long, and the membership would be lost."""


class MemberSession(CoordinatorRequests):
    """The session of one member of a group."""

    def __init__(self, client: KafkaNetClient, *, wake: Callable[[], None], **config: Any) -> None:
        """Prepare; nothing is sent before the member joins.

        Args:
            client: A client for this group alone.
            wake: Called from the network thread when the group has to be rejoined.
            config: kafka-python's settings of a group member.
        """
        super().__init__(client, **config)
        self.heartbeat.config["max_poll_interval_ms"] = round(STUCK_SECONDS * 1000)
        self._wake = wake
        self._fenced = False
        self._refusal: kafka_errors.KafkaError | None = None
        self._beats = Attempts(REQUESTS)

    @property
    def member_id(self) -> str:
        """The member id the broker gave, or empty."""
        return str(self._generation.member_id)

    # heartbeats

    @property
    def is_forgotten(self) -> bool:
        """Whether no heartbeat was answered for a whole session timeout: the brokers have removed this member."""
        return self.state is MemberState.STABLE and bool(self.heartbeat.session_timeout_expired())

    @property
    def fenced(self) -> bool:
        """Whether another agent with the same instance id has taken this membership over."""
        return self._fenced

    def poll_heartbeat(self) -> None:
        """Acts on the results of the heartbeats.

        Raises:
            KafkaError: They are refused, or have ended.
        """
        refusal, self._refusal = self._refusal, None
        if refusal is not None:
            raise refusal
        super().poll_heartbeat()

    def _handle_heartbeat_response(self, response: Any, send_time: float) -> Any:
        error = kafka_errors.for_code(response.error_code)
        if error is kafka_errors.FencedInstanceIdError:
            self._fenced = True
        elif issubclass(error, kafka_errors.AuthorizationError):
            # the library would retry ten times a second and report nothing
            self._refusal = error(self.group_id)
            self._disable_heartbeat()
        try:
            result = super()._handle_heartbeat_response(response, send_time)
        except kafka_errors.KafkaError as failure:
            if not isinstance(failure, kafka_errors.RebalanceInProgressError):
                self._beats.failed()
                self._note(failure, self._beats)
                # the library would repeat a failed heartbeat ten times a second
                self.heartbeat.config["retry_backoff_ms"] = round(1000 * max(0.1, self._beats.pause_seconds))
            raise
        else:
            self._beats.succeeded()
            return result
        finally:
            if self.rejoin_needed or self._fenced or self._refusal is not None:
                self._wake()

    # leaving

    def leave(self) -> None:
        """Leaves by member id, also while JoinGroup is parked; another member with the instance id is not affected.

        Raises:
            KafkaError: The brokers did not accept it.
        """
        member_id = self.member_id
        if not member_id or self._fenced:
            return
        self._disable_heartbeat()
        self.end_by(float("inf"))
        request = self._leave_request({member_id: self.group_instance_id})
        deadline, attempts = time.monotonic() + LEAVE_SECONDS, Attempts(REQUESTS)
        reason: kafka_errors.KafkaError | None = None
        while (error := self._left(request, deadline)) is not None:
            if reason is None or isinstance(reason, kafka_errors.KafkaTimeoutError):
                reason = error  # the first answer says more than that the coordinator was not found again in time
            # the new coordinator waits for a member that left only the former one, until its session times out
            attempts.failed()
            pause = max(_AGAIN_SECONDS, attempts.pause_seconds)
            if not isinstance(error, kafka_errors.RetriableError) or time.monotonic() + pause > deadline:
                raise reason
            if isinstance(error, _MOVES):
                self.coordinator_dead(error)
            time.sleep(pause)
        self.reset_generation()

    def _left(self, request: Any, deadline: float) -> kafka_errors.KafkaError | None:
        """Sends a LeaveGroup; returns why it failed until a moment of the monotonic clock, or None if it succeeded."""
        try:
            error = left_error(self._send_beside(request, deadline - time.monotonic()))
        except kafka_errors.RetriableError as failure:
            return failure
        return None if error in LEFT else error(self.group_id)

    def _leave_request(self, members: Mapping[str, str | None], reason: str = "stops") -> LeaveGroupRequest:
        """Returns a LeaveGroup request for these members: instance id by member id."""
        identities = [
            LeaveGroupRequest.MemberIdentity(
                member_id=member_id, group_instance_id=instance_id, reason=f"samerack: {reason}"
            )
            for member_id, instance_id in members.items()
        ]
        return LeaveGroupRequest(group_id=self.group_id, member_id=next(iter(members)), members=identities)


def left_error(answer: Any) -> Any:
    """Returns the error class of a LeaveGroup response; with several members, the first error."""
    codes = [answer.error_code, *(member.error_code for member in answer.members or ())]
    return kafka_errors.for_code(next((code for code in codes if code), 0))
