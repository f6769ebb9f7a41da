"""Asks brokers for the type of a group: the agent can lead classic groups only, brokers assign the others (KIP-848)."""

from __future__ import annotations

import threading
import time
from typing import Any, Final

from kafka import errors as kafka_errors

from samerack.cluster.coordinators import Coordinators
from samerack.cluster.errors import CoordinatorMovesError, error_class, error_text
from samerack.cluster.group_questions import describe_groups
from samerack.cluster.metadata import REQUEST_SECONDS
from samerack.cluster.versions import versions_question
from samerack.cluster.wire import Question, Wire
from samerack.common.errors import AgentError

_PATIENCE_SECONDS: Final = 3.0
_AGAIN_SECONDS: Final = 0.2
_CONSUMER_GROUP_DESCRIBE: Final = 69
"""The API key of the request that describes groups of type consumer."""
_NO_CONSUMER_GROUP: Final = frozenset(
    {kafka_errors.GroupIdNotFoundError.errno, kafka_errors.UnsupportedVersionError.errno}
)


class GroupTypes:
    """Asks for types of groups over connections of its own; any thread may ask, one at a time."""

    def __init__(self, wire: Wire) -> None:
        """Prepare; the first question connects."""
        self._wire = wire
        self._lock = threading.Lock()

    def find(self, group: str, *, patience: float = _PATIENCE_SECONDS) -> str:
        """Return the type of a group: "classic" or "consumer" (KIP-848).

        A group that does not exist is classic, because the agent would create it by joining. Asks again while the group
        moves from one coordinator to another; after so many seconds of patience that is an error.

        Raises:
            CoordinatorMovesError: The group has no coordinator, or another one than was asked.
            NotAllowedError: The agent may not describe the group.
            RefusedError: TLS or SASL failed.
            AgentError: No response.
        """
        deadline = time.monotonic() + patience
        while True:
            try:
                with self._lock:
                    return self._ask(group)
            except CoordinatorMovesError:
                if time.monotonic() > deadline:
                    raise
            time.sleep(_AGAIN_SECONDS)

    def _ask(self, group: str) -> str:
        coordinators = Coordinators(self._wire.ask)
        unfound = coordinators.find([group], REQUEST_SECONDS)
        if unfound.failure is not None:
            raise self._unanswered(group, unfound.failure) from unfound.failure
        for error in unfound.errors.values():
            raise _error(group, error())
        coordinator = coordinators.of([group])[group]
        versions = self._response(group, versions_question(coordinator))
        if all(one.api_key != _CONSUMER_GROUP_DESCRIBE for one in versions.api_keys):
            return "classic"
        question = Question(broker=coordinator, request=describe_groups([group], "consumer"))
        (described,) = self._response(group, question).groups
        code = int(described.error_code.value)
        if code and code not in _NO_CONSUMER_GROUP:
            raise _error(group, kafka_errors.for_code(code)())
        return "classic" if code else "consumer"

    def _response(self, group: str, question: Question) -> Any:
        (answer,) = self._wire.ask([question], REQUEST_SECONDS)
        if answer.error is not None:
            raise self._unanswered(group, answer.error) from answer.error
        return answer.response

    def _unanswered(self, group: str, error: Exception) -> AgentError:
        """Disconnect, so that the next question connects to any bootstrap server; return the error to raise."""
        self._wire.close()
        return _error(group, error)


def _error(group: str, error: Exception) -> AgentError:
    why = error_text(error, REQUEST_SECONDS, "allow DESCRIBE on the group")
    return error_class(error)(f"kafka: group {group}: {why}")
