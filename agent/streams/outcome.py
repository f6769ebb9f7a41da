"""Reads the JSON of `POST /v1/streams/computed`: what an application made of a plan (`onAssignmentComputed`)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

from samerack.agent.streams.context import MAX_NAME, MAX_TEXT, NoPlanError
from samerack.assignors.streams.plugin import AssignmentError

ERRORS: Final = tuple(error.value for error in AssignmentError)


@dataclass(frozen=True, slots=True, kw_only=True)
class Computed:
    """The outcome of one assignment.

    Attributes:
        plan: the id of the agent's plan; None if there was none.
        error: why Kafka Streams rejected it; NONE if it did not.
        fallback: why the application's own fall-back planned; "" if it did not.
    """

    application: str
    plan: str | None
    error: str
    fallback: str


def read_outcome(body: bytes) -> Computed:
    """Return the outcome in a body.

    Raises:
        NoPlanError: It is none.
    """
    try:
        given: Any = json.loads(body)
    except (ValueError, RecursionError):
        given = None
    if not isinstance(given, dict) or given.get("version") != 1:
        raise NoPlanError(HTTPStatus.BAD_REQUEST, "expected an object with version 1")
    application = _name(given, "application")
    plan = None if given.get("plan") is None else _name(given, "plan")
    error, fallback = given.get("error"), given.get("fallback")
    if error not in ERRORS:
        raise NoPlanError(HTTPStatus.BAD_REQUEST, f"error: expected one of {', '.join(ERRORS)}")
    if not isinstance(fallback, str | None):
        raise NoPlanError(HTTPStatus.BAD_REQUEST, "fallback: expected a string or null")
    return Computed(application=application, plan=plan, error=error, fallback=(fallback or "")[:MAX_TEXT])


def _name(given: dict[str, Any], key: str) -> str:
    name = given.get(key)
    if not isinstance(name, str) or not 0 < len(name) <= MAX_NAME:
        raise NoPlanError(HTTPStatus.BAD_REQUEST, f"{key}: expected a name of at most {MAX_NAME} characters")
    return name
