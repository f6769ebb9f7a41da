"""Requests to a group's coordinator that do not wait behind a parked JoinGroup.

kafka-python sends JoinGroup, SyncGroup and heartbeats over a connection of their own, and a JoinGroup blocks it until
all members have joined. Other requests go to the same broker over its ordinary connection. This module finds that
broker, sends to it, ends every wait when the membership must end, and keeps the failures that its owner reports.
"""

from __future__ import annotations

import time
from typing import Any, Final

from kafka import errors as kafka_errors
from kafka.coordinator.base import BaseCoordinator
from kafka.net.compat import KafkaNetClient

from samerack.common.attempts import REQUESTS, Attempts

SLICE_SECONDS: Final = 0.15
"""A thread that waits for a response checks this often whether its membership must end."""
_REPORT_SECONDS: Final = 10.0
"""The same failure is reported again after this time at the earliest."""
_METADATA_SECONDS: Final = 0.5
"""How long to wait, while refreshing metadata, for a coordinator's broker that is not in the metadata yet."""
_METADATA_CHECK_SECONDS: Final = 0.02


class EndedError(kafka_errors.KafkaError):  # type: ignore[misc]  # the library is untyped
    """Raised instead of waiting for a response because the membership must end."""


class CoordinatorRequests(BaseCoordinator):  # type: ignore[misc]  # the library is untyped
    """The coordinator of one group, as one client reaches it."""

    def __init__(self, client: KafkaNetClient, **config: Any) -> None:
        """Prepare with a client for this group alone, and kafka-python's settings of a member; send nothing yet."""
        super().__init__(client, **config)
        self._coordinator_broker: int | None = None
        self.lookup = object()
        """Another object each time that the coordinator had to be looked up anew."""
        self._lookups = Attempts(REQUESTS)
        self._failure: kafka_errors.KafkaError | None = None
        self._reported: tuple[type, float] = (type(None), float("-inf"))
        self._end_at = float("inf")

    # what its owner calls

    def take_failure(self) -> kafka_errors.KafkaError | None:
        """Return what prevents joining, finding the coordinator or heartbeats, if it is to be reported now.

        A failure is not reported if the next attempt succeeds; the same one is reported every ten seconds at most.
        """
        failure, self._failure = self._failure, None
        kind, at = self._reported
        if failure is None or (type(failure) is kind and time.monotonic() - at < _REPORT_SECONDS):
            return None
        self._reported = type(failure), time.monotonic()
        return failure

    def end_by(self, at: float) -> None:
        """End all waits at this time (seconds, monotonic), except for the response to `leave`; from any thread."""
        self._end_at = at

    # finding the coordinator

    async def _send_group_coordinator_request(self) -> Any:
        """Send one FindCoordinator, after a pause if earlier ones failed."""
        if pause := self._lookups.pause_seconds:
            await self._net.sleep(pause)
        try:
            found = await super()._send_group_coordinator_request()
        except kafka_errors.KafkaError as error:
            self._lookups.failed()
            self._note(error, self._lookups)
            raise
        self._lookups.succeeded()
        return found

    def _handle_find_coordinator_response(self, response: Any) -> Any:
        found = response.coordinators[0] if response.coordinators else response
        self._coordinator_broker = found.node_id if found.error_code == 0 else None
        self.lookup = object()
        return super()._handle_find_coordinator_response(response)

    def _note(self, error: kafka_errors.KafkaError, attempts: Attempts) -> None:
        """Store a failure for `take_failure` once it causes a pause."""
        if attempts.pause_seconds:
            self._failure = error

    async def _broker(self, timeout: float) -> int | None:
        """Find the coordinator and return the id of its broker once the metadata has its address.

        A broker that has just started may coordinate the group before this client's metadata contains it again, and
        metadata would otherwise be refreshed only when it gets old. Until then that is a NodeNotReadyError.
        """
        await self._find_coordinator(timeout)
        broker, until = self._coordinator_broker, time.monotonic() + _METADATA_SECONDS
        while broker is not None and self._manager.cluster.broker_metadata(broker) is None:
            self._manager.cluster.request_update()
            if time.monotonic() > until:
                raise kafka_errors.NodeNotReadyError(broker)
            await self._net.sleep(_METADATA_CHECK_SECONDS)
        return broker

    async def _find_coordinator(self, timeout: float) -> None:
        deadline = time.monotonic() + timeout
        while not await self.ensure_coordinator_ready_async(timeout_ms=round(SLICE_SECONDS * 1000)):
            self._check_end()
            if time.monotonic() > deadline:
                raise self._failure or kafka_errors.CoordinatorNotAvailableError(self.group_id)

    # sending to it

    def _send_beside(self, request: Any, timeout: float) -> Any:
        """Send to the coordinator's broker over its ordinary connection instead of the coordinator connection.

        Without a response in time, or after the time given to `end_by`, that is a KafkaError.
        """
        milliseconds = round(timeout * 1000)

        async def exchange() -> Any:
            future = self._manager.send(request, node_id=await self._broker(timeout), request_timeout_ms=milliseconds)
            return await self._answer_of(future, timeout)

        return self._net.run(exchange)

    async def _answer_of(self, future: Any, timeout: float) -> Any:
        """Return the response to a request; wait in short slices so that the end of the membership interrupts it."""
        deadline = time.monotonic() + timeout
        while True:
            try:
                self._check_end()
            except EndedError:
                # the next request must not wait behind this one
                self._manager.drop(self._coordinator_broker)
                raise
            left = deadline - time.monotonic()
            try:
                return await self._manager.wait_for(future, max(0.0, min(left, SLICE_SECONDS)) * 1000)
            except kafka_errors.KafkaTimeoutError:
                if future.is_done or left <= SLICE_SECONDS:
                    raise

    def _check_end(self) -> None:
        if time.monotonic() >= self._end_at:
            raise EndedError(self.group_id)
