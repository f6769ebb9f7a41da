"""Task assignors of users: classes as `package.module:Class`, made once in the process that plans (KIP-924).

A class has `assign` and, if it wants them, `on_assignment_computed` and `configure`, as `TaskAssignor` has in Java.
"""

from __future__ import annotations

import importlib
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from samerack.agent.streams.question import PlanQuestion
from samerack.assignors.streams.application import ApplicationState, TaskAssignmentError
from samerack.assignors.streams.assignment import KafkaStreamsAssignment
from samerack.assignors.streams.plugin import (
    AssignmentError,
    GroupAssignment,
    GroupSubscription,
    Outcome,
    Request,
    TaskAssignment,
)
from samerack.assignors.streams.sticky import fallback_prior
from samerack.common.errors import one_line

_PLANS_KEPT: Final = 16
"""Plans whose outcome may still come; an application has one at a time."""
_MAX_LATE_MS: Final = 60_000
"""A deadline that is past by more was not computed from now: mostly it is in seconds."""


class OwnAssignorError(Exception):
    """A class of the user cannot be loaded, failed, or returned what is no assignment."""


class OwnAssignor:
    """One object of a user's class."""

    def __init__(self, name: str, options: Mapping[str, str]) -> None:
        """Make the object of `package.module:Class`, and configure it with the options.

        Raises:
            OwnAssignorError: It cannot be made.
        """
        self._name = name
        self._made = _make(name, options)

    def assign(self, state: ApplicationState, *, now_ms: int) -> Outcome:
        """Return its answer; that of `fallback_prior` if it cannot decide now (`TaskAssignmentError`).

        Raises:
            OwnAssignorError: It failed, its answer is no assignment, or a follow-up rebalance lies in the past.
        """
        try:
            answer = self._made.assign(state)
        except TaskAssignmentError:
            return fallback_prior(Request(state=state, now_ms=now_ms))
        except Exception as error:
            raise OwnAssignorError(f"{self._name}: assign failed: {one_line(error)}") from error
        given = getattr(answer, "assignment", None)
        if not isinstance(given, tuple) or not all(isinstance(one, KafkaStreamsAssignment) for one in given):
            raise OwnAssignorError(f"{self._name}: assign returned {type(answer).__name__}; expected a TaskAssignment")
        for deadline in (one.followup_rebalance_deadline for one in given):
            if deadline is not None and (type(deadline) is not int or deadline < now_ms - _MAX_LATE_MS):
                raise OwnAssignorError(
                    f"{self._name}: with_followup_rebalance({deadline!r}): expected whole milliseconds since 1970, not "
                    f"in the past, such as {now_ms + 600_000} for in ten minutes; raise TaskAssignmentError for one at "
                    "once"
                )
        return Outcome(assignment=TaskAssignment(assignment=given))

    def notify(self, assignment: GroupAssignment, subscription: GroupSubscription, error: AssignmentError) -> None:
        """Call its `on_assignment_computed`, if it has one; what it raises changes nothing.

        Raises:
            OwnAssignorError: It failed.
        """
        if callable(callback := getattr(self._made, "on_assignment_computed", None)):
            try:
                callback(assignment, subscription, error)
            except Exception as failure:
                raise OwnAssignorError(f"{self._name}: on_assignment_computed failed: {one_line(failure)}") from failure


@dataclass(frozen=True, slots=True, kw_only=True)
class SentPlan:
    """A plan that was sent, and whose outcome the application has not reported yet."""

    assignor: OwnAssignor
    assignment: GroupAssignment
    subscription: GroupSubscription


class OwnAssignors:
    """The users' assignors of all applications."""

    def __init__(self) -> None:
        self._made: dict[tuple[str, str, tuple[tuple[str, str], ...]], OwnAssignor] = {}
        self._sent: OrderedDict[str, SentPlan] = OrderedDict()

    def of(self, application: str, name: str, options: Mapping[str, str]) -> OwnAssignor:
        """Return an application's object of a class with these options; it is made once.

        Raises:
            OwnAssignorError: It cannot be made.
        """
        key = application, name, tuple(sorted(options.items()))
        if key not in self._made:
            self._made[key] = OwnAssignor(name, options)
        return self._made[key]

    def keep(self, plan: str, sent: SentPlan) -> None:
        """Keep a plan that is sent until the application reports what came of it."""
        self._sent[plan] = sent
        while len(self._sent) > _PLANS_KEPT:
            self._sent.popitem(last=False)

    def computed(self, plan: str, error: AssignmentError) -> None:
        """Report to the assignor of a plan what the application made of it.

        Raises:
            OwnAssignorError: The assignor failed.
        """
        sent = self._sent.pop(plan, None)
        if sent is not None:
            assignment = sent.assignment if error is AssignmentError.NONE else GroupAssignment()
            sent.assignor.notify(assignment, sent.subscription, error)


def subscription_of(question: PlanQuestion) -> GroupSubscription:
    """Return the subscriptions: every consumer of an application subscribes to all source topics of its tasks."""
    topics = tuple(
        sorted(
            {partition.topic for task in question.tasks for partition in task.topic_partitions if partition.is_source}
        )
    )
    return GroupSubscription(
        topics={consumer: topics for client in question.clients for consumer in client.consumer_client_ids}
    )


def _make(name: str, options: Mapping[str, str]) -> Any:
    module, _, member = name.partition(":")
    try:
        made = getattr(importlib.import_module(module), member)()
        if callable(configure := getattr(made, "configure", None)):
            configure(dict(options))
    except Exception as error:
        raise OwnAssignorError(
            f"{name} cannot be made: {one_line(error)}; streams.python_path names the folders of such classes"
        ) from error
    if not callable(getattr(made, "assign", None)):
        raise OwnAssignorError(f"{name} has no assign(application_state); see docs/streams-python.md")
    return made
