"""Finds the coordinators of groups, and remembers them until the caller finds that one has moved."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from kafka import errors as kafka_errors

from samerack.cluster.group_questions import find_coordinators
from samerack.cluster.wire import ANY_BROKER, Answer, Question, chunked

Ask: TypeAlias = Callable[[Sequence[Question], float], Sequence[Answer]]
"""Asks brokers, with a limit in seconds for each request: `Wire.ask`, or `cluster.wire.ask` of an open client."""

MAX_GROUPS_PER_REQUEST: Final = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Unfound:
    """Why coordinators were not found: the brokers' error by group, or why a request has no response."""

    errors: Mapping[str, type[kafka_errors.KafkaError]]
    failure: Exception | None


class Coordinators:
    """The coordinators that were found. Not thread-safe."""

    def __init__(self, ask: Ask) -> None:
        """Start without any."""
        self._ask = ask
        self._brokers: dict[str, int] = {}

    def of(self, groups: Iterable[str]) -> dict[str, int]:
        """Return the coordinators of these groups as far as they are known."""
        return {group: self._brokers[group] for group in groups if group in self._brokers}

    def forget(self, groups: Iterable[str]) -> None:
        """Forget the coordinators of these groups: the next `find` asks for them."""
        for group in groups:
            self._brokers.pop(group, None)

    def find(self, groups: Iterable[str], timeout: float) -> Unfound:
        """Find those that are not known: of all groups in one request (KIP-699), one by one before Kafka 3.0.

        `timeout`: seconds for each request.
        """
        errors: dict[str, type[kafka_errors.KafkaError]] = {}
        failure: Exception | None = None
        for chunk in chunked([group for group in groups if group not in self._brokers], MAX_GROUPS_PER_REQUEST):
            left = chunk
            while left:
                (answer,) = self._ask([Question(broker=ANY_BROKER, request=find_coordinators(left))], timeout)
                if answer.error is not None:
                    failure = answer.error
                    break
                found: list[tuple[str, Any]] = [(str(one.key), one) for one in answer.response.coordinators or ()]
                for group, one in found or [(left[0], answer.response)]:
                    if one.error_code:
                        errors[group] = kafka_errors.for_code(one.error_code)
                    else:
                        self._brokers[group] = int(one.node_id)
                rest = [group for group in left if group not in errors and group not in self._brokers]
                if len(rest) == len(left):
                    failure = kafka_errors.CoordinatorNotAvailableError(left[0])  # the answer is about other groups
                    break
                left = rest
        return Unfound(errors=errors, failure=failure)
