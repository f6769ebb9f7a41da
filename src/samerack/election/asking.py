"""Describes the agents' own groups, with one request to each coordinator, over a client that the caller opens.

A group that cannot be described is a value, not an exception, so that the other groups are described.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from kafka import errors as kafka_errors

from samerack.cluster.client import ClusterClient
from samerack.cluster.group import DescribedGroup
from samerack.cluster.group_questions import MAX_GROUPS_PER_REQUEST, Coordinators, describe_groups, to_coordinators
from samerack.cluster.wire import ask

Answer = DescribedGroup | Exception
"""A description, or the error in place of it. Members' metadata are empty while the group rebalances."""


class GroupAsker:
    """Describes groups over one client and remembers their coordinators. One thread may use it at a time."""

    def __init__(self, client: ClusterClient) -> None:
        self._ask = partial(ask, client)
        self._coordinators = Coordinators(self._ask)

    def describe(self, groups: Sequence[str], timeout: float = 5.0) -> dict[str, Answer]:
        """Describe groups; each request may take `timeout` seconds.

        Raises:
            KafkaError: No broker names their coordinators.
        """
        unfound = self._coordinators.find(groups, timeout)
        if unfound.failure is not None:
            raise unfound.failure
        found: dict[str, Answer] = {group: error(group) for group, error in unfound.errors.items()}
        questions = to_coordinators(self._coordinators.of(groups), describe_groups, MAX_GROUPS_PER_REQUEST)
        for answer in self._ask(questions, timeout):
            if answer.error is not None:
                found |= dict.fromkeys(answer.question.about, answer.error)
            else:
                for one in answer.response.groups:
                    error = kafka_errors.for_code(one.error_code)
                    found[one.group_id] = one if error is kafka_errors.NoError else error(one.group_id)
        self._coordinators.forget(group for group, answer in found.items() if isinstance(answer, Exception))
        return found
