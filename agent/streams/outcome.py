"""Reads the JSON of `POST /v1/streams/computed`: what an application made of a plan (`onAssignmentComputed`)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

from samerack.agent.streams.workers import NoPlanError
from samerack.assignors.streams.plugin import AssignmentError

ERRORS: Final = tuple(error.value for error in AssignmentError)
_LONGEST: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Computed:
    """The outcome of one assignment.

    Attributes:
        application: the application.
        plan: the id of the agent's plan; None if there was none.
        error: why Kafka Streams rejected it; NONE if it did not.
        generation: the group's, or None.
        fallback: why the application's own fall-back planned; "" if it did not.
    """

    application: str
    plan: str | None
    error: str
    generation: int | None
    fallback: str


def read_outcome(body: bytes) -> Computed:
    """Returns the outcome in a body.

    Raises:
        NoPlanError: It is none.
    """
    try:
        given: Any = json.loads(body)
    except (ValueError, RecursionError):
        given = None
    if not isinstance(given, dict) or given.get("version") != 1:
        raise NoPlanError(HTTPStatus.BAD_REQUEST, "expected an object with version 1")
    application, plan, error = given.get("application"), given.get("plan"), given.get("error")
    generation, fallback = given.get("generation"), given.get("fallback")
    if not isinstance(application, str) or not application:
        raise NoPlanError(HTTPStatus.BAD_REQUEST, "application: expected a name")
    if error not in ERRORS:
        raise NoPlanError(HTTPStatus.BAD_REQUEST, f"error: expected one of {', '.join(ERRORS)}")
    if not isinstance(plan, str | None) or not isinstance(fallback, str | None):
        raise NoPlanError(HTTPStatus.BAD_REQUEST, "plan, fallback: expected texts or null")
    if generation is not None and type(generation) is not int:
        raise NoPlanError(HTTPStatus.BAD_REQUEST, "generation: expected a whole number or null")
    return Computed(
        application=application, plan=plan, error=error, generation=generation, fallback=(fallback or "")[:_LONGEST]
    )
